"""The report: one run as one HTML file that needs nothing else, not even a network.

    write_report(ReportData(title=…, evaluation=…, id_name=…), Path("report.html"))

Tables and samples are plain HTML, readable without scripts; the histograms and ROC curves are drawn by
`assets/explorer.js` from the embedded scores.
"""

from .data import ReportData, SampleCard
from .write import write_report

__all__ = ["ReportData", "SampleCard", "write_report"]

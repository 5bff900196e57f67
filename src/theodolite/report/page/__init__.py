"""The report: one result as HTML files that need nothing else, not even a network.

    write_pages(result, Path("report"))

Tables and samples are plain HTML, readable without scripts; the histograms and ROC curves are drawn by
`assets/explorer.js` from the embedded scores.
"""

from .page import Page
from .write import render, write_pages

__all__ = ["Page", "render", "write_pages"]

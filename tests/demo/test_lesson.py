"""What the demo says of its table is true whatever the table says."""

from __future__ import annotations

import re

import numpy as np
import pytest

from theodolite.benchmarks.facts import SubjectFacts
from theodolite.benchmarks.measure import result_of_scores
from theodolite.benchmarks.result import RunResult
from theodolite.demo.lesson import lesson
from theodolite.demo.table import demo_table

TITLES = {
    "msp": "MSP",
    "ours": "Relative Energy",
    "largest": "ORA",
    "mean": "ORA aggregate=mean",
    "best": "SSD+",
}


def made(**shares: int) -> RunResult:
    """Of 100 OOD samples so many pass at the threshold of 95 % of ID, by score."""
    known, strange = np.ones(100), np.arange(100)
    scores = {
        TITLES[name]: {"id_test": known, "far": (strange < share) * 1.0} for name, share in shares.items()
    }
    result = result_of_scores(scores, title="made", subject="net")
    facts = SubjectFacts(
        None, classes=8, width=4, accuracy=90.0, samples={"id_test": 100, "far": 100}, digests={}
    )
    return RunResult(**{**vars(result), "subjects": {"net": facts}})


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        (
            {"msp": 40, "ours": 7, "largest": 30, "mean": 10, "best": 5},
            "MSP lets 40.00 % of the unknown pass, Relative Energy 7.00 % (place 2 of 5, the first is "
            "SSD+ with 5.00 %); with 8 classes ORA's mean angle lets 10.00 % pass and its largest 30.00 %: "
            "here the mean does better (with few classes, compare both)",
        ),
        (
            {"msp": 4, "ours": 3, "largest": 3, "mean": 9, "best": 5},
            "MSP lets 4.00 % of the unknown pass, Relative Energy 3.00 % (place 1 of 5); with 8 classes "
            "ORA's mean angle lets 9.00 % pass and its largest 3.00 %: here the paper's largest does better",
        ),
        (
            {"msp": 3, "ours": 50, "largest": 9, "mean": 9, "best": 3},
            "Relative Energy 50.00 % (place 5 of 5, the first is MSP with 3.00 %); with 8 classes "
            "ORA's mean angle lets 9.00 % pass and its largest 9.00 %: here they do the same",
        ),
    ],
)
def test_the_lesson_is_read_off_the_table(shares: dict[str, int], said: str) -> None:
    assert said in lesson(made(**shares), "net")


def test_the_table_is_sorted_and_marks_the_recommended_row() -> None:
    table = demo_table(made(msp=40, ours=7, largest=30, mean=10, best=5), "net")
    labels = [label for label, _ in table.rows]
    assert labels == ["Relative Energy ◂", "ORA aggregate=mean", "ORA", "MSP"], "SSD+ is in the report only"
    assert table.header == ("score", "FPR95", "AUROC", "far")
    assert [cell.text for cell in table.rows[1][1]] == ["10.00", "95.00", "10.00"]
    assert re.search(r"◂ recommended; 4 of 5 scores, all of them in the report", table.legend)

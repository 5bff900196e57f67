"""OpenMax tells apart what is all but certainly unknown: on made and on real data few scores are shared."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

import theodolite as th
from realdata import load_head, load_split
from synthetic import make_problem


def shared(scores: Tensor) -> int:
    """How many scores another sample has as well."""
    return len(scores) - len(torch.unique(scores))


def test_unknown_rows_have_scores_of_their_own() -> None:
    """Logits far beyond those of ID rows: P(unknown) of most of them is 1 in float32."""
    problem = make_problem()
    far = 30 * problem.ood
    detector = th.OpenMax().fit(problem.train, problem.labels, head=problem.head)
    scores = detector.score(far)
    assert float((torch.sigmoid(-scores) == 1).double().mean()) > 0.25
    assert shared(scores) == 0
    torch.testing.assert_close(scores.double(), detector.score(far.double()), rtol=1e-4, atol=1e-3)


def test_a_guard_of_real_data_flags_what_is_out_of_scope(data_root: Path) -> None:
    """CLINC150: as −P(unknown), 17 % of ID scores and 85 % of the others were −1, and none was flagged."""
    name = "clinc150-minilm"
    detector = th.OpenMax().fit(*load_split(data_root, name, "id_fit"), head=load_head(data_root, name))
    known = detector.score(load_split(data_root, name, "id_test")[0])
    strange = detector.score(load_split(data_root, name, "oos")[0])
    assert shared(known) < 0.005 * len(known)
    assert shared(strange) < 0.005 * len(strange)
    calibration = th.Calibration(known[::2])
    assert float(calibration.is_ood(strange, 0.05).double().mean()) > 0.05
    assert float(calibration.is_ood(known[1::2], 0.05).double().mean()) > 0.03

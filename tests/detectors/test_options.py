"""Options and edge cases of single scores that the contract suite cannot know of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import InputError

PROBLEM = make_problem(rows=600)


def test_knn_against_scikit_learn() -> None:
    unit = torch.nn.functional.normalize
    search = NearestNeighbors(n_neighbors=17, algorithm="brute").fit(unit(PROBLEM.train.double()).numpy())
    distances, _ = search.kneighbors(unit(PROBLEM.ood.double()).numpy())
    scores = th.KNN(k=17).fit(PROBLEM.train).score(PROBLEM.ood)
    np.testing.assert_allclose(-scores.numpy(), distances[:, -1], rtol=1e-5)


def test_knn_finds_its_own_row_at_no_distance() -> None:
    assert float(th.KNN(k=1).fit(PROBLEM.train).score(PROBLEM.train).abs().max()) == 0


def test_mds_against_scikit_learn() -> None:
    rows, labels = PROBLEM.train.double().numpy(), PROBLEM.labels.numpy()
    means = np.stack([rows[labels == c].mean(axis=0) for c in range(6)])
    model = EmpiricalCovariance(assume_centered=True).fit(rows - means[labels])
    test = PROBLEM.ood.double().numpy()
    distances = np.stack([model.mahalanobis(test - mean) for mean in means])
    scores = th.MDS().fit(PROBLEM.train, PROBLEM.labels).score(PROBLEM.ood)
    np.testing.assert_allclose(-scores.numpy(), distances.min(axis=0), rtol=1e-5)


def test_neco_against_scikit_learn() -> None:
    scaler = StandardScaler().fit(PROBLEM.train.double().numpy())
    pca = PCA(n_components=0.9, svd_solver="full").fit(scaler.transform(PROBLEM.train.double().numpy()))
    rows = scaler.transform(PROBLEM.ood.double().numpy())
    share = np.linalg.norm(pca.transform(rows), axis=1) / np.linalg.norm(rows, axis=1)
    detector = th.NECO(use_logit=False).fit(PROBLEM.train, head=PROBLEM.head)
    assert detector.directions.shape[1] == pca.n_components_
    np.testing.assert_allclose(detector.score(PROBLEM.ood).numpy(), share, rtol=1e-5)
    assert th.NECO(dimension=3).fit(PROBLEM.train, head=PROBLEM.head).directions.shape == (48, 3)


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5])
def test_bank_share_is_stratified_and_seeded(fraction: float) -> None:
    uneven = torch.cat([torch.zeros(300), torch.ones(200), torch.full((100,), 2)]).long()
    bank = th.KNN(fraction=fraction).fit(PROBLEM.train, uneven).bank
    wanted = sum(int(np.ceil(fraction * n)) for n in (300, 200, 100))
    assert len(bank) == wanted
    again = th.KNN(fraction=fraction, seed=0).fit(PROBLEM.train, uneven).bank
    assert torch.equal(bank, again)
    assert not torch.equal(bank, th.KNN(fraction=fraction, seed=1).fit(PROBLEM.train, uneven).bank)
    streamed = [(PROBLEM.train[s : s + 50], uneven[s : s + 50]) for s in range(0, 600, 50)]
    assert torch.equal(bank, th.KNN(fraction=fraction).fit(streamed).bank)


def test_a_share_of_a_long_stream_stays_small() -> None:
    detector = th.NNGuide(fraction=0.01)
    reference = detector.collect(
        [(PROBLEM.train, PROBLEM.labels, torch.arange(600) + 600 * n) for n in range(100)], head=PROBLEM.head
    )
    assert reference.count == 60_000
    assert len(reference.statistics.bank) < 0.04 * 60_000
    assert len(detector.fit(reference).bank) == 600


def test_fewer_rows_than_k() -> None:
    detector = th.KNN(k=50).fit(PROBLEM.train[:5])
    unit = torch.nn.functional.normalize
    far = torch.cdist(unit(PROBLEM.test.double()), unit(PROBLEM.train[:5].double())).amax(dim=1)
    torch.testing.assert_close(detector.score(PROBLEM.test).double(), -far, rtol=1e-5, atol=1e-6)


def test_scores_without_a_head() -> None:
    for name in ("knn", "mds", "maha+", "rmds", "ssd+", "pcos", "rcos", "csi"):
        with_head = th.create(name).fit(PROBLEM.train, PROBLEM.labels, head=PROBLEM.head).score(PROBLEM.test)
        without = th.create(name).fit(PROBLEM.train, PROBLEM.labels).score(PROBLEM.test)
        torch.testing.assert_close(with_head, without)
    with pytest.raises(InputError, match="MCM needs a head"):
        th.MCM().fit(PROBLEM.train)


def test_rank_deficient_mahalanobis_is_the_pseudo_inverse() -> None:
    """Features in a plane of five dimensions: distances are those within the plane."""
    rng = torch.Generator().manual_seed(0)
    basis, _ = torch.linalg.qr(torch.randn(48, 5, generator=rng, dtype=torch.float64))
    inner = torch.randn(300, 5, generator=rng, dtype=torch.float64)
    labels = torch.arange(300) % 3
    inner[labels == 1] += 2
    flat = th.MDS().fit(inner @ basis.T, labels)
    assert flat.factor.shape == (48, 5)
    small = th.MDS().fit(inner, labels)
    torch.testing.assert_close(flat.score(inner @ basis.T), small.score(inner), rtol=1e-8, atol=1e-8)


def test_ssd_plus_refuses_what_does_not_fit() -> None:
    with pytest.raises(InputError, match=r"SSD\+ needs 0\.0 GiB .* memory_limit is 1e-06 GiB"):
        th.SSDPlus(memory_limit=1e-6).fit(PROBLEM.train, PROBLEM.labels)
    with pytest.raises(InputError, match="no class has two samples"):
        th.SSDPlus().fit(PROBLEM.train[:4], PROBLEM.labels[:4])


def test_csi_sums_over_views_and_shift_logits() -> None:
    rng = torch.Generator().manual_seed(0)
    train = torch.randn(50, 4, 9, generator=rng, dtype=torch.float64) + 1
    test = torch.randn(8, 4, 9, generator=rng, dtype=torch.float64)
    detector = th.CSI(views=4, shift_logits=True).fit(train.flatten(1))
    expected = np.zeros(8)
    for view in range(4):
        rows, logits = train[:, view, :-1].numpy(), train[:, view, -1].numpy()
        for i in range(8):
            z, q = test[i, view, :-1].numpy(), float(test[i, view, -1])
            norm = np.linalg.norm(z)
            nearest = max(z @ row / (norm * np.linalg.norm(row)) for row in rows)
            expected[i] += nearest * norm / np.linalg.norm(rows, axis=1).mean() + q / logits.mean()
    np.testing.assert_allclose(detector.score(test.flatten(1)).numpy(), expected, rtol=1e-5)
    with pytest.raises(InputError, match="width 36, which 5 views cannot share"):
        th.CSI(views=5).fit(train.flatten(1))
    with pytest.raises(InputError, match="shaping would change the shift logits"):
        th.CSI(shift_logits=True, shaping="react")


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5))
        self.head = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(inputs))
        return logits


def test_odin_perturbs_by_the_formula_and_leaves_the_model_alone() -> None:
    torch.manual_seed(0)
    model = Small()
    model(torch.randn(64, 5))
    model.train()
    model.body[1].eval()
    model.head.bias.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inputs = torch.randn(10, 5)
    with torch.no_grad():
        nudged = th.ODIN(noise=0.01).prepare(model, inputs)
    assert model.training
    assert not model.body[1].training
    assert not model.head.bias.requires_grad
    assert model.head.weight.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    model.eval()
    for row in range(10):
        x = inputs[row : row + 1].clone().requires_grad_(True)
        probabilities = torch.log_softmax(model(x) / 1000, dim=1)
        (gradient,) = torch.autograd.grad(probabilities[0, probabilities[0].argmax()], x)
        expected = inputs[row] - 0.01 * torch.sign(-gradient[0])
        torch.testing.assert_close(nudged[row], expected)
    assert th.ODIN(noise=0).prepare(model, inputs) is inputs
    assert th.MSP().prepare(model, inputs) is inputs


def test_odin_restores_the_model_after_an_error() -> None:
    model = Small().train()
    with pytest.raises(RuntimeError):
        th.ODIN().prepare(model, torch.randn(3, 7))
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_mcm_on_a_cosine_head() -> None:
    head = th.Head.cosine(PROBLEM.head.weight)
    scores = th.MCM(temperature=0.5).fit(head=head).score(PROBLEM.test)
    torch.testing.assert_close(scores, (head(PROBLEM.test) / 0.5).softmax(dim=1).amax(dim=1))


def test_vim_dimensions() -> None:
    from theodolite.geometry.residual import default_dimension

    assert [default_dimension(width) for width in (2048, 1280, 768, 512, 84)] == [1000, 512, 512, 256, 42]
    with pytest.raises(InputError, match="dimension must be below the feature width 48"):
        th.ViM(dimension=48).fit(PROBLEM.train, head=PROBLEM.head)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("knn", {"k": 0}, "k must be a whole number, at least 1, got 0"),
        ("knn", {"fraction": 0}, r"fraction must lie in \(0, 1\]"),
        ("nnguide", {"fraction": 1.5}, r"fraction must lie in \(0, 1\]"),
        ("energy", {"temperature": 0}, "temperature must be positive"),
        ("rcos", {"temperature": -1}, "temperature must be positive"),
        ("mcm", {"temperature": 0}, "temperature must be positive"),
        ("odin", {"temperature": 0}, "temperature must be positive"),
        ("odin", {"noise": -1}, "noise must not be negative"),
        ("neco", {"variance": 2}, r"variance must lie in \(0, 1\]"),
        ("neco", {"dimension": 0}, "dimension must be at least 1"),
        ("vim", {"dimension": 0}, "dimension must be at least 1"),
        ("csi", {"views": 0}, "views must be at least 1"),
    ],
)
def test_options_are_checked(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        th.create(name, **options)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("R-Mah", "rmds"), ("NNG", "nnguide"), ("KNN+", "knn"), ("Maha+", "maha+"), ("MaxL", "maxlogit"),
        ("Pcos", "pcos"), ("R_Cos", "rcos"), ("SSD+", "ssd+"), ("ViM", "vim"), ("Mahalanobis++", "maha+"),
        ("RMh", "rmds"), ("fDBD", "fdbd"), ("NNGuide", "nnguide"),
    ],
)  # fmt: skip
def test_the_papers_own_spellings(spelling: str, name: str) -> None:
    assert th.create(spelling).record.name == name

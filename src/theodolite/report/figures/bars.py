"""FPR95 by method as bars, with a tick where a paper's number stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from ...evaluation.evaluation import Evaluation
from .style import ID_COLOUR, INK, QUIET, panels, plain

AVERAGE = "average"


def fpr_bars(
    evaluation: Evaluation,
    *,
    published: Mapping[tuple[str, str, str], float] | None = None,
    ood: str = AVERAGE,
    detectors: Sequence[str] | None = None,
    highlight: Sequence[str] = ("ORA",),
    title: str,
) -> Figure:
    """One bar a method, the best on top; ``ood`` is one OOD set or the average over all.

    ``published`` holds percentages as printed, by (method, OOD set or "average", "fpr95").
    """
    known = published or {}
    values = {
        name: 100
        * (evaluation.average(name, "fpr95") if ood == AVERAGE else evaluation.metrics[name][ood].fpr95)
        for name in detectors or evaluation.metrics
    }
    names = sorted(values, key=lambda name: -values[name])
    longest = max(len(name) for name in names)
    figure, grid = panels(
        1,
        1,
        size=(5.0, 0.27 * len(names)),
        gap=(0, 0),
        margin=(0.35 + 0.085 * longest, 0.35, 0.6, 0.6),
        title=title,
    )
    panel = grid[0][0]
    ticks = {name: known[name, ood, "fpr95"] for name in names if (name, ood, "fpr95") in known}
    for place, name in enumerate(names):
        panel.barh(place, values[name], height=0.68, color=ID_COLOUR, alpha=1.0 if name in highlight else 0.5)
        # Beyond both the bar and the published tick, so that the number stays readable.
        end = max(values[name], ticks.get(name, 0.0))
        panel.text(end + 1, place, f"{values[name]:.1f}", va="center", fontsize=8, color=INK)
    if ticks:
        panel.plot(
            list(ticks.values()),
            [names.index(name) for name in ticks],
            linestyle="none",
            marker="|",
            markersize=13,
            markeredgewidth=2,
            color=INK,
            label="published",
        )
        panel.legend(fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1, 1))
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(-0.6, len(names) - 0.4)
    panel.set_xlim(0, max([*values.values(), *ticks.values()]) * 1.08 + 1)
    panel.set_xlabel(f"FPR95 in % ({ood}), lower is better", fontsize=9, color=INK)
    panel.grid(axis="x", color=QUIET, alpha=0.25, linewidth=0.6)
    panel.set_axisbelow(True)
    plain(panel, "top", "right", "left")
    panel.tick_params(axis="y", length=0)
    return figure

"""How the site looks, and the order of its pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

# A page by its file, or a heading with what stands below it.
Entry: TypeAlias = "tuple[str, str | list[Entry]]"

START: list[Entry] = [
    ("Quick start", "index.md"),
    ("Concepts", "concepts.md"),
    ("A tour of everything", "tour.md"),
    ("Questions", "faq.md"),
]
HOW_TO: list[Entry] = [
    ("My model", "models.md"),
    ("My data", "data.md"),
    ("One picture and a threshold", "one-picture.md"),
    ("Guards: calibration and what it promises", "guard.md"),
    ("Shaping", "shaping.md"),
    ("Ensembles", "ensembles.md"),
    ("CLIP", "clip.md"),
    ("Texts and other samples", "text.md"),
    ("Thousands of pictures", "many-pictures.md"),
    ("Features on disk", "features.md"),
    ("A cluster", "cluster.md"),
    ("ONNX", "export.md"),
    ("The service", "serving.md"),
    ("Drift", "monitor.md"),
    ("Why a verdict is what it is", "explain.md"),
    ("Reading a report", "report.md"),
    ("Benchmarks", "benchmarks.md"),
    ("Training", "training.md"),
]
SCORES: list[Entry] = [
    ("All scores", "scores.md"),
    ("Which score for my model?", "which-score.md"),
    ("The recommended score", "metric.md"),
    ("Scores that ask more", "model-scores.md"),
]
RESULTS: list[Entry] = [("What we measured", "results.md"), ("Ours beside published", "reproduction.md")]
REFERENCE: list[Entry] = [
    ("Performance", "performance.md"),
    ("Scale", "scale.md"),
    ("Security", "security.md"),
    ("Compatibility", "compatibility.md"),
    ("Adding a score", "adding-a-score.md"),
    ("Contributing", "contributing.md"),
    ("Gallery", "gallery.md"),
    ("Bibliography", "bibliography.md"),
    ("Changes", "changelog.md"),
    ("Licences of data", "licences.md"),
    ("Licence", "licence.md"),
]


def navigation(
    scores: Sequence[Entry], tables: Sequence[Entry], examples: Sequence[Entry], api: Sequence[Entry]
) -> list[Entry]:
    """All pages in their order: those that are written, and the given ones that are made."""
    return [
        ("Start", START),
        ("How to", [*HOW_TO, ("Examples", list(examples))]),
        ("Scores", [*SCORES, *scores]),
        ("Results", [*RESULTS, ("Tables", list(tables))]),
        ("API", list(api)),
        ("More", REFERENCE),
    ]


def configuration(nav: Sequence[Entry]) -> dict[str, object]:
    """What Zensical reads, in the words of mkdocs.yml: nothing in it asks for the network."""
    return {
        "site_name": "theodolite",
        "site_description": "Out-of-distribution detection with relative angles: a guard for any classifier",
        "docs_dir": "docs",
        "site_dir": "site",
        "use_directory_urls": False,
        "nav": [_plain(entry) for entry in nav],
        "theme": {
            "name": "material",
            "font": False,
            "language": "en",
            "features": [
                "content.code.copy",
                "navigation.footer",
                "navigation.tabs",
                "navigation.top",
                "search.highlight",
                "search.suggest",
                "toc.follow",
            ],
            "palette": _palette(),
        },
        "extra": {"generator": False},
        "extra_css": ["assets/site.css"],
        "plugins": ["search", "offline"],
        "markdown_extensions": [
            "admonition",
            "attr_list",
            "md_in_html",
            "tables",
            {"toc": {"permalink": "¶"}},
            {"pymdownx.highlight": {"anchor_linenums": False}},
            "pymdownx.inlinehilite",
            "pymdownx.superfences",
        ],
    }


def _palette() -> list[dict[str, object]]:
    """Light or dark as the reader's system is, and a button to change it."""
    light, dark = "(prefers-color-scheme: light)", "(prefers-color-scheme: dark)"
    return [
        {
            "media": light,
            "scheme": "default",
            "primary": "indigo",
            "toggle": {"icon": "lucide/moon", "name": "Dark colours"},
        },
        {
            "media": dark,
            "scheme": "slate",
            "primary": "indigo",
            "toggle": {"icon": "lucide/sun", "name": "Light colours"},
        },
    ]


def _plain(entry: Entry) -> dict[str, object]:
    title, below = entry
    return {title: below if isinstance(below, str) else [_plain(inner) for inner in below]}

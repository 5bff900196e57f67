"""Tables as LaTeX, for booktabs and graphicx: each a table environment to go into a paper as it is.

A tabular that is wider than its column is scaled down to it; a smaller one stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.files import slug
from .table import Table, TableCell

PREAMBLE = "% \\usepackage{booktabs,graphicx}\n"
_MARKS = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")
_FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
# Lines of more signs take the width of the page where a page has two columns.
_WIDE = 55
_SIGNS = {
    "\\": r"\textbackslash{}",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\textasciigrave{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "’": "'",
    "‖": r"$\|$",
    "ε": r"$\varepsilon$",
    "θ": r"$\theta$",
    "α": r"$\alpha$",
    "μ": r"$\mu$",
    "†": r"$^{\dagger}$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
}


def latex_document(tables: Sequence[Table]) -> str:
    """All tables, each under a label of its own, behind a line that names the package they need."""
    taken: set[str] = set()
    parts = [PREAMBLE]
    for table in tables:
        label = stem = slug(table.name or table.title)
        number = 1
        while label in taken:
            number += 1
            label = f"{stem}-{number}"
        taken.add(label)
        parts.append(latex(table, label))
    return "\n".join(parts)


def latex(table: Table, label: str | None = None) -> str:
    """One table environment with its label; title and legend are its caption, the best is bold."""
    kind = "table*" if _width(table) > _WIDE else "table"
    head = " & ".join([_escaped(table.header[0].capitalize()), *map(_escaped, table.header[1:])])
    body = [" & ".join([_escaped(name), *(_cell(cell) for cell in row)]) + r" \\" for name, row in table.rows]
    legend = f": {_escaped(table.legend)}" if table.legend else ""
    lines = [
        rf"\begin{{{kind}}}[t]",
        r"\centering",
        rf"\caption{{{_escaped(table.title)}{legend}.}}",
        rf"\label{{tab:{label or slug(table.name or table.title)}}}",
        _FITTED,
        rf"\begin{{tabular}}{{l{''.join('r' if numeric else 'l' for numeric in table.numeric)}}}",
        r"\toprule",
        *_group_lines(table),
        rf"{head} \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}}",
        rf"\end{{{kind}}}",
        "",
    ]
    return "\n".join(lines)


def _width(table: Table) -> int:
    """The signs of a line: of every column its longest entry, and two between columns."""
    columns = [
        [name, *(f"{row[place].text} {row[place].extras}" for _, row in table.rows)]
        for place, name in enumerate(table.header[1:])
    ]
    labels = [table.header[0], *(name for name, _ in table.rows)]
    return sum(max(map(len, column)) + 2 for column in [labels, *columns])


def _group_lines(table: Table) -> list[str]:
    """Headings over several columns, with a rule below each."""
    if not table.groups:
        return []
    heads, rules, start = [""], [], 2
    for group, width in table.groups:
        heads.append(rf"\multicolumn{{{width}}}{{c}}{{{_escaped(group)}}}")
        rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    return [" & ".join(heads) + r" \\", " ".join(rules)]


def _cell(cell: TableCell) -> str:
    value = _MARKS[cell.rank].format(_escaped(cell.text))
    return f"{value} {_escaped(cell.extras)}" if cell.extras else value


def _escaped(text: str) -> str:
    return "".join(_SIGNS.get(sign, sign) for sign in text)

"""Tables as LaTeX, for the package booktabs."""

from __future__ import annotations

from .table import Table, TableCell

_MARKS = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")
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
    "ε": r"$\varepsilon$",
    "†": r"$^{\dagger}$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
}


def latex(table: Table) -> str:
    """One table environment, with its title and legend as caption."""
    first, *others = table.header
    head = " & ".join([_escaped(first.capitalize()), *(_escaped(column) for column in others)])
    body = [
        " & ".join([_escaped(label), *(_cell(cell) for cell in row)]) + r" \\" for label, row in table.rows
    ]
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{_escaped(table.title)}: {_escaped(table.legend)}.}}",
        rf"\begin{{tabular}}{{l{''.join('r' if numeric else 'l' for numeric in table.numeric)}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _cell(cell: TableCell) -> str:
    value = _MARKS[cell.rank].format(_escaped(cell.text))
    return f"{value} {_escaped(cell.extras)}" if cell.extras else value


def _escaped(text: str) -> str:
    return "".join(_SIGNS.get(sign, sign) for sign in text)

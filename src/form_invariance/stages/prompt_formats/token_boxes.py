"""Prompt formats with their tokens (paper, Figure 1)."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from form_invariance.drawing import style

_SIZE = 6.5
_PADDING = 2.2
_LINE = 13.0
_INDENT = 62.0


def draw(rows: Sequence[tuple[str, str, Sequence[str], str]]) -> Figure:
    """Draw prompts as rows of token boxes, the answer last.

    Args:
        rows: (format, operator, tokens, answer) of each prompt.
    """
    font = FontProperties(family="DejaVu Sans Mono", size=_SIZE)
    limit = style.TWO_COLUMNS * 72 - 6

    def width(text: str) -> float:
        return float(TextPath((0, 0), "x" * len(text), prop=font).get_extents().width) + 2 * _PADDING

    figure = Figure()
    axes = figure.add_axes((0, 0, 1, 1))
    y, previous = 0.0, ""
    names = style.colours(list(dict.fromkeys(name for name, *_ in rows)))
    for name, operator, tokens, answer in rows:
        colour = names[name]
        if name != previous:
            axes.text(0, y + _LINE * 0.5, name, color=colour, weight="bold", size=8, va="center")
            y += _LINE * 1.5
        previous = name
        axes.text(6, y, operator, size=_SIZE, va="center")
        x = _INDENT
        for kind, token in [*(("token", style.visible(one)) for one in tokens), ("answer", answer)]:
            if x + width(token) > limit:
                x, y = _INDENT, y + _LINE
            box = {"boxstyle": f"square,pad={_PADDING / _SIZE}", "lw": 0.6, "ec": colour}
            box["fc"], ink = (colour, "white") if kind == "answer" else ("white", "black")
            axes.text(x + _PADDING, y, token, color=ink, va="center", fontproperties=font, bbox=box)
            x += width(token) + 1.5
        y += _LINE * 1.15
    figure.set_size_inches(style.TWO_COLUMNS, (y + 6) / 72)
    axes.set(xlim=(-4, style.TWO_COLUMNS * 72 - 4), ylim=(y, -6))
    axes.axis("off")
    return figure

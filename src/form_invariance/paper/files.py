"""A table as CSV, Markdown and LaTeX (booktabs)."""

from pathlib import Path

import pandas as pd

from form_invariance.tables.files import write_text


def _shown(column: pd.Series) -> pd.Series:
    """A column as text: whole numbers plain, others with three digits, nothing where there is no number."""
    if not pd.api.types.is_float_dtype(column):
        return column.map(str)
    whole = (column.dropna() % 1 == 0).all()

    def cell_text(value: float) -> str:
        if pd.isna(value):
            return ""
        if value != 0 and abs(value) < 0.001:
            return f"{value:.0e}"
        return f"{value:.0f}" if whole or (value % 1 == 0 and abs(value) >= 10) else f"{value:.3f}"

    return column.map(cell_text)


def write_files(table: pd.DataFrame, base: Path, caption: str) -> None:
    """Write `base`.csv with all digits, and `base`.md and `base`.tex with three."""
    shown = table.apply(_shown)
    markdown = f"{caption}\n\n{shown.to_markdown(index=False, disable_numparse=True)}\n"
    text = [not pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes]
    latex = shown.to_latex(
        index=False,
        escape=True,
        caption=caption.replace("%", r"\%").replace("_", r"\_"),
        label=f"tab:{base.name}",
        column_format="".join("l" if is_text else "r" for is_text in text),
    )
    for suffix, content in ((".csv", table.to_csv(index=False)), (".md", markdown), (".tex", latex)):
        write_text(base.with_name(base.name + suffix), content)

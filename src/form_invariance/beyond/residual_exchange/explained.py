"""What the explained page shows of the exchange."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.beyond.residual_exchange.figure import LOOKS
from form_invariance.beyond.residual_exchange.table import COPIED, OTHERS, OWN, RESIDUAL_SHARES
from form_invariance.drawing import style
from form_invariance.drawing.lines import legend_handles

INPUTS = {"residual_shares": RESIDUAL_SHARES}


def picture(tables: Mapping[str, pd.DataFrame], operator: str, width: float) -> Figure | None:
    """The share of outputs that are the donor's, by the layer of the exchange; None if nothing was exchanged."""
    shares = tables["residual_shares"]
    shares = shares[shares["operator"] == operator]
    if shares.empty:
        return None
    figure, ((axes,),) = style.panels(1, 1, width=width, height=1.9)
    looks = {name: LOOKS[name] for name in (OWN, OTHERS, COPIED) if name in set(shares["donor"])}
    for name, look in reversed(looks.items()):
        rows = shares[shares["donor"] == name]
        axes.fill_between(rows["layer"], rows["low"], rows["high"], color=look.colour, alpha=0.2, lw=0)
        axes.plot(rows["layer"], rows["donor_answer"], color=look.colour, **look.arguments())
    axes.set(xlabel="layer of the exchange", ylabel="outputs that are the donor's", ylim=(-0.05, 1.05))
    style.legend_below(figure, legend_handles(looks))
    return figure

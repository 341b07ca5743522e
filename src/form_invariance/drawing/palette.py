"""The colours and dashes of all figures, without the libraries that draw."""

# Okabe and Ito's palette, for readers without colour vision too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
GREY = "#777777"
LIGHT = "#BBBBBB"
SOLID, DASHED, DOTTED, DASH_DOT = "-", "--", ":", "-."

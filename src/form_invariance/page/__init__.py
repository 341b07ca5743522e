"""How every page is made: the layout, the style and the words that report, explainer and browser share."""

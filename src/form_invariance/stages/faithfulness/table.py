"""Faithfulness over the size of the kept part."""

from form_invariance.tables.columns import Schema, integer, number, text

MEAN, RESAMPLE = "mean", "resample"
FAITHFULNESS, CPR, CMD = "faithfulness", "cpr", "cmd"
GAIN = "_gain"
RETAINED = "cpr_retained"
EXACT, RANDOM = "exact", "random"

FAITHFULNESS_AREAS = Schema(
    "faithfulness",
    {
        "format": text("format"),
        "order": text(
            "in which order neurons are kept: exact (the format's own ranking), attribution (the first stage's), "
            "shared (by the worst place over the formats), random (mean over draws)"
        ),
        "ablation": text(
            "what the other late neurons take at the last token: mean (of the format's prompts) or resample (of "
            "another eval prompt with another answer)"
        ),
        "measure": text(
            "faithfulness at a size; cpr, the area under it; cmd, the area of its distance from 1; cpr_gain and "
            "cmd_gain, these minus those of random; cpr_retained, cpr_gain divided by that of exact (NaN if the "
            "latter is not positive in 97.5 % of the resamples)"
        ),
        "share": number("share of each late layer's neurons that is kept; NaN for areas"),
        "n_neurons": integer("neurons of a layer that are kept; -1 for areas"),
        "value": number("the measure, from means over prompts"),
        "low": number("95 % lower limit by bootstrap over prompts"),
        "high": number("95 % upper limit"),
        "prompts": integer("eval prompts for which there is another with another answer"),
    },
)

"""Every table that the pipeline writes: its columns, their types and what they mean."""

from dataclasses import dataclass
from typing import Literal

ColumnType = Literal["int64", "float64", "bool", "string"]


@dataclass(frozen=True)
class Column:
    """Type and meaning of one column."""

    type: ColumnType
    meaning: str


@dataclass(frozen=True)
class Schema:
    """Name and columns of one kind of table, in order."""

    name: str
    columns: dict[str, Column]


def _integer(meaning: str) -> Column:
    return Column("int64", meaning)


def _number(meaning: str) -> Column:
    return Column("float64", meaning)


def _flag(meaning: str) -> Column:
    return Column("bool", meaning)


def _text(meaning: str) -> Column:
    return Column("string", meaning)


_PROBLEM = {
    "a": _integer("first operand"),
    "b": _integer("second operand"),
    "answer": _integer("right answer"),
    "prompt": _text("the prompt, without BOS"),
}
_NEURON = {"layer": _integer("layer, from 0"), "neuron": _integer("MLP neuron within its layer, from 0")}

MODEL_FILES = Schema(
    "model_files",
    {
        "file": _text("name of a file in the model's folder"),
        "bytes": _integer("its length"),
        "checksum": _text("XXH3, 128 bits, of its content: what every job of the model compares"),
        "sha256": _text("sha256 of the file, as sha256sum and the hub tell it"),
    },
)
CENSUS = Schema(
    "census",
    {
        **_PROBLEM,
        "uniform": _flag("part of the uniform sample of the pool; rates use these rows alone"),
        "predicted_token": _integer("the most probable next token's id"),
        "predicted": _text("the most probable next token's text"),
        "correct": _flag("the most probable next token is the answer"),
        "probability": _number("probability of the answer"),
        "logit": _number("logit of the answer, centred over the vocabulary"),
        "rank": _integer("rank of the answer among all tokens, 1 = most probable"),
    },
)
PROBE = Schema(
    "probe",
    {
        "trained": _text("formats whose prompts train the probe, joined by +"),
        "tested": _text("formats whose prompts test it, joined by +"),
        "operator": _text("operator of both, or all"),
        "layer": _integer("layer whose output (resid_post) is read, from 0"),
        "position": _integer("token counted from the last, 0 = the last"),
        "token": _text(
            "what stands there in the first operator's prompts: a token, {a} or {b}; empty where mixed"
        ),
        "train_prompts": _integer("training prompts"),
        "test_prompts": _integer("test prompts, of other operand pairs"),
        "answers": _integer("distinct answers of both"),
        "accuracy": _number("fraction of test prompts whose answer the probe reads"),
        "low": _number("Wilson 95 % lower limit of it"),
        "high": _number("Wilson 95 % upper limit of it"),
        "majority": _number("the same if the training prompts' most frequent answer is always said"),
        "shuffled": _number("the same for a probe whose training prompts' answers were shuffled"),
    },
)
DATASET = Schema(
    "dataset",
    {
        "split": _text("train or eval"),
        "index": _integer("number of the prompt within its split, from 0"),
        **_PROBLEM,
        "answer_token": _integer("the answer's token id"),
    },
)
CORRUPT = Schema(
    "corrupt",
    {
        "corrupt_seed": _integer("which draw of partners, from 0; 0 is the one that ranks"),
        "index": _integer("number of the train prompt that the partner belongs to"),
        "operator": _text("the partner's operator"),
        **_PROBLEM,
        "answer_token": _integer("the partner's answer's token id"),
    },
)
ATTRIBUTION = Schema(
    "attribution",
    {
        **_NEURON,
        "mean": _number("mean over train prompts of the first-order indirect effect"),
        "std": _number("sample standard deviation of the same"),
        "score": _number("mean + std, the stage-1 score"),
        "rank": _integer("rank by score within the layer, 1 = best"),
        "candidate": _flag("goes on to exact patching"),
    },
)
RANKING = Schema(
    "ranking",
    {
        **_NEURON,
        "rank": _integer("rank by ie_mean within the layer, 1 = best"),
        "ie_mean": _number("mean over train prompts of the exact indirect effect"),
        "ie_std": _number("sample standard deviation of the same"),
        "ie_median": _number("median of the same"),
        "ie_trimmed_mean": _number("mean of the same without the lowest and highest 10 %"),
        "attribution_score": _number("stage-1 score"),
        "attribution_rank": _integer("stage-1 rank within the layer"),
    },
)
AUDIT = Schema(
    "audit",
    {
        "format": _text("format"),
        "operator": _text("operator"),
        "layer": _integer("layer, from 0; -1 = mean over the late layers"),
        "k": _integer("circuit size"),
        "candidates": _integer("neurons of a layer that the first stage lets through"),
        "recall": _number("share of the exact top-k that is among them"),
        "rank_correlation": _number("Spearman's correlation of the first stage's score and the exact effect"),
    },
)
HEADS = Schema(
    "heads",
    {
        "layer": _integer("layer, from 0"),
        "head": _integer("attention head within its layer, from 0"),
        "rank": _integer("rank by ie_mean over the heads of all layers, 1 = best"),
        "ie_mean": _number("mean over train prompts of the exact indirect effect of the head's last-token output"),
        "ie_std": _number("sample standard deviation of the same"),
        "ie_median": _number("median of the same"),
        "attention_a": _number("attention from the last token to the first operand, mean over train prompts"),
        "attention_b": _number("attention from the last token to the second operand, the same mean"),
        "attention_bos": _number("attention from the last token to BOS, the same mean; NaN without BOS"),
    },
)
HEAD_OVERLAP = Schema(
    "head_overlap",
    {
        "layers": _text("whose heads are ranked: all layers', or routing: those below the first late layer"),
        "ranked": _integer("heads of these layers, of which the best are taken"),
        "h": _integer("heads that are taken in each format"),
        "formats": _text("the formats compared, joined by +"),
        "intersection": _integer("heads in the best h of all of them"),
        "union": _integer("heads in the best h of any of them"),
        "jaccard": _number("intersection / union"),
        "chance": _number("expected Jaccard of random sets of the same size"),
        "low": _number("95 % interval's lower limit, by bootstrap over train prompts"),
        "high": _number("95 % interval's upper limit"),
        "ceiling": _number("mean Jaccard of the best h by disjoint halves of a format's train prompts"),
    },
)
PLANTED = Schema(
    "planted",
    {
        "circuit": _text("shared: the planted neurons serve every format; separate: each format has its own"),
        "format": _text("format; all = over the formats; transfer: DONOR_to_TARGET"),
        "layer": _integer("layer, from 0; -1 = over the late layers"),
        "measure": _text(
            "first_stage, ranking (share of the planted neurons among a stage's first, as many as are planted: "
            "recall and precision in one), overlap (Jaccard of the formats' best), keep_only, knockout "
            "(faithfulness), transfer (share of wrong answers mended)"
        ),
        "of": _integer("neurons (overlap: their union), eval prompts or pairs: the denominator"),
        "expected": _number("the value by construction"),
        "value": _number("the value that the pipeline found"),
        "low": _number("its 95 % lower limit"),
        "high": _number("its 95 % upper limit"),
        "random": _number("the same of as many random neurons; first_stage, ranking, overlap: by chance"),
    },
)
PRECISION = Schema(
    "precision",
    {
        "dtype": _text("the precision that is compared with float32"),
        "layer": _integer("layer, from 0; -1 = mean over the late layers"),
        "prompts": _integer("train prompts of the sample"),
        "candidates": _integer("neurons that are ranked"),
        "rank_correlation": _number("Spearman's correlation of the mean exact effects"),
        "top": _integer("size of the two circuits compared"),
        "overlap": _number("share of their neurons that they have in common"),
    },
)
BENCHMARK = Schema(
    "benchmark",
    {
        "suite": _text("replay (against hooked passes), cost (what it depends on) or stages (of one cell)"),
        "stage": _text("what ran; in suite cost, what was varied"),
        "tokens": _integer("tokens of a prompt, with BOS"),
        "prompts": _integer("prompts"),
        "candidates": _integer("neurons of a layer that are patched; 0 = none"),
        "layer": _integer("layer that is patched; -1 = all late layers, or none"),
        "seconds": _number("fastest of several runs"),
        "units": _integer("units of work in that time"),
        "unit": _text("patches, pairs, prompts or transfers"),
        "operations": _number("floating-point operations of a unit, by count"),
        "share": _number("units * operations / seconds over the measured rate of matrix products"),
        "speedup": _number("time of a hooked forward pass over that of a replayed patch"),
        "difference": _number("largest difference of the indirect effects of these two"),
    },
)
OVERLAP = Schema(
    "overlap",
    {
        "k": _integer("circuit size: neurons per layer and format"),
        "layer": _integer("layer, from 0; -1 = pooled over the late layers"),
        "formats": _text("the formats compared, joined by +"),
        "intersection": _integer("neurons in the top-k of all of them"),
        "union": _integer("neurons in the top-k of any of them"),
        "jaccard": _number("intersection / union"),
        "chance": _number("expected Jaccard of random sets of the same size"),
        "low": _number("2.5 % bootstrap percentile over train prompts (pooled rows)"),
        "high": _number("97.5 % bootstrap percentile over train prompts (pooled rows)"),
    },
)
RELIABILITY = Schema(
    "reliability",
    {
        "k": _integer("circuit size: neurons per layer"),
        "format": _text("format"),
        "kind": _text(
            "what is compared within the format: split_half (disjoint halves of the train prompts), "
            "corrupt_seed (other corrupt partners), median or trimmed_mean (ranked so instead of by the mean)"
        ),
        "jaccard": _number("mean Jaccard of the two top-k sets, pooled over the late layers"),
        "low": _number("2.5 % percentile over repeats"),
        "high": _number("97.5 % percentile over repeats"),
    },
)
VARIANTS = Schema(
    "variants",
    {
        "first_format": _text("format of the first wording"),
        "first": _text("the first wording of the operator's problems: canonical, variant_1, ..."),
        "second_format": _text("format of the second wording; where it is another one, both are canonical"),
        "second": _text("the second wording"),
        "asked": _integer("train pairs of a cell"),
        "right": _integer("one format: pairs right in both wordings; two formats: pairs of each, all right"),
        "prompts": _integer("prompts that rank each; 0 where fewer than 10 are right"),
        "partners_right": _integer("one format: prompts whose corrupt partner is right in both wordings too"),
        "k": _integer("circuit size: neurons per layer"),
        "layer": _integer("layer, from 0; -1 = pooled over the late layers"),
        "intersection": _integer("neurons in the top-k of both"),
        "union": _integer("neurons in the top-k of either"),
        "jaccard": _number("intersection / union; one format: both ranked by the same operand pairs"),
        "chance": _number("expected Jaccard of random sets of the same size"),
        "low": _number("lower 95 % limit, by bootstrap over the prompts of each (pooled rows)"),
        "high": _number("upper 95 % limit (pooled rows)"),
        "across_halves": _number("mean Jaccard, each ranked by another half of the prompts (pooled rows)"),
        "within_halves": _number("the same of a wording and itself, mean of the two: the ceiling (pooled rows)"),
        "effect_of_first": _number("effect in the second of the first's top-k, over that of the second's own"),
        "effect_of_second": _number("effect in the first of the second's top-k, over that of the first's own"),
    },
)
CIRCUIT = Schema("circuit", {"k": _integer("circuit size: neurons per layer and format"), **_NEURON})

_VARIANT = {
    "intervention": _text("keep_only or knockout; in the table by prompt also good and bad"),
    "positions": _text("ablated positions: all (but BOS) or last"),
    "neurons": _text("circuit, random, random_variance or random_effect"),
    "k": _integer("circuit size: neurons per layer and format"),
    "seed": _integer("draw of the random control; -1 for the circuit"),
}
INTERVENTIONS = Schema(
    "interventions",
    {
        **_VARIANT,
        "n_neurons": _integer("neurons kept or knocked out, over all late layers"),
        "prompts": _integer("eval prompts"),
        "undefined": _integer("prompts whose good - bad gap is nearly zero, left out of the mean of ratios"),
        "faithfulness_mean": _number("mean over prompts of (circuit - bad) / (good - bad)"),
        "mean_low": _number("2.5 % bootstrap percentile over prompts"),
        "mean_high": _number("97.5 % bootstrap percentile over prompts"),
        "faithfulness_ratio": _number("(mean circuit - mean bad) / (mean good - mean bad)"),
        "ratio_low": _number("2.5 % bootstrap percentile over prompts"),
        "ratio_high": _number("97.5 % bootstrap percentile over prompts"),
        "normalized_logit": _number("mean normalised logit under the intervention"),
        "good": _number("mean normalised logit of the unmodified model"),
        "bad": _number("mean normalised logit with all heads and neurons at their means"),
        "accuracy": _number("fraction of prompts whose most probable token is the answer"),
        "probability": _number("mean probability of the answer"),
        "centered": _flag("logits centred over the vocabulary"),
    },
)
INTERVENTIONS_PROMPTS = Schema(
    "interventions_prompts",
    {
        **_VARIANT,
        "index": _integer("number of the eval prompt"),
        "normalized_logit": _number("logit[answer] / largest logit"),
        "faithfulness": _number("(circuit - bad) / (good - bad); NaN where the gap is nearly zero"),
        "correct": _flag("the most probable token is the answer"),
        "probability": _number("probability of the answer"),
    },
)
NEURON_EFFECTS = Schema(
    "neuron_effects",
    {
        **_NEURON,
        "knockout_probability": _number(
            "probability of the answer with this neuron alone at its mean, minus without"
        ),
        "knockout_normalized_logit": _number("the same of the normalised logit"),
        "keep_probability": _number(
            "probability of the answer with the circuit alone at work, minus the same without this neuron"
        ),
        "keep_normalized_logit": _number("the same of the normalised logit"),
    },
)
TRANSFER = Schema(
    "transfer",
    {
        "donor": _text("format whose activations are transferred"),
        "target": _text("format of the run that receives them"),
        "k": _integer("circuit size: neurons per layer and format"),
        "condition": _text(
            "matched (same operands), mismatched (another pair), random (other neurons), same_answer "
            "(other operands, equal answer), same_format (another pair, target's own format), harm_matched, "
            "harm_random (pairs right in both formats)"
        ),
        "pairs": _integer("pairs, the denominator of every rate of the row"),
        "n_neurons": _integer("neurons transferred, over all late layers"),
        "recovered": _number("fraction whose output is the right answer (harm: whose output is wrong)"),
        "low": _number("Wilson 95 % lower limit of it"),
        "high": _number("Wilson 95 % upper limit of it"),
        "donor_answer": _number("fraction whose output is the donor's answer"),
        "normalized_logit_before": _number("mean normalised logit of the right answer before"),
        "normalized_logit_after": _number("mean normalised logit of the right answer after"),
        "centered": _flag("logits centred over the vocabulary"),
    },
)
DOSE = Schema(
    "dose",
    {
        "donor": _text("format whose activations are transferred"),
        "target": _text("format of the run that receives them"),
        "k": _integer("circuit size: neurons per layer and format"),
        "kind": _text(
            "strength (every shared neuron moves the dose's fraction of the way to the donor's activation), "
            "neurons (the dose's fraction of each layer's shared neurons, the best by mean rank over the formats, "
            "take it), neurons_random (as many shared neurons in a random order)"
        ),
        "seed": _integer("draw of the random order; -1 for the other kinds"),
        "dose": _number("from 0 (nothing) to 1 (every shared neuron takes the donor's activation)"),
        "pairs": _integer("pairs right in the donor and wrong in the target, the denominator of recovered"),
        "n_neurons": _integer("neurons that move, over all late layers"),
        "recovered": _number("fraction whose output is the right answer"),
        "low": _number("Wilson 95 % lower limit of it"),
        "high": _number("Wilson 95 % upper limit of it"),
        "normalized_logit": _number("mean normalised logit of the right answer"),
        "centered": _flag("logits centred over the vocabulary"),
    },
)
_SCORE = {
    "neuron": _integer("number of the neuron: its column, from 0"),
    "heuristic": _text("name of the heuristic"),
    "score": _number("share of the neuron's top pairs that the heuristic holds for"),
}
PUBLISHED_SCORES = Schema("published_scores", dict(_SCORE))
STRICT_SCORES = Schema(
    "strict_scores",
    {
        **_SCORE,
        "base_rate": _number("share of all pairs that the heuristic holds for"),
        "lift": _number("score / base_rate"),
        "p_value": _number("binomial, Bonferroni-corrected over all heuristics tried on the neuron"),
        "label": _flag("the neuron carries this label"),
    },
)
HEURISTICS = Schema(
    "heuristics",
    {
        "mode": _text("reference (the published scores) or strict (its faults mended)"),
        "activations": _text("observed, or shuffled over the pairs (what the value vector alone gives)"),
        **_NEURON,
        "heuristic": _text("name of the heuristic"),
        "family": _text("family of the heuristic"),
        "score": _number("share of the neuron's top pairs that the heuristic holds for"),
        "base_rate": _number("share of all pairs that the heuristic holds for"),
        "lift": _number("score / base_rate"),
        "p_value": _number("strict: binomial, corrected over all heuristics tried on the neuron; else NaN"),
        "label": _flag("the neuron carries this heuristic"),
    },
)
_LABELS = {
    "mode": _text("reference or strict labels"),
    "activations": _text("labels of observed or of shuffled activations"),
}
AGREEMENT = Schema(
    "agreement",
    {
        **_LABELS,
        "over": _text(
            "which neurons: shared (all), any (labelled in some format), all (labelled in every format)"
        ),
        "scope": _text("where the null permutes family sets: all neurons, or within each layer"),
        "neurons": _integer("how many neurons, the denominator"),
        "statistic": _text("common, exact, pair_jaccard or three_way_jaccard (of all formats)"),
        "observed": _number("the statistic; NaN where there is no neuron"),
        "null_mean": _number("its mean over the permutations"),
        "null_max": _number("its maximum over the permutations"),
        "p": _number("(1 + permutations at least as large) / (1 + permutations)"),
    },
)
LABELLED = Schema(
    "labelled",
    {
        **_LABELS,
        "formats": _integer("number of formats"),
        "neurons": _integer("shared neurons that are labelled in exactly so many formats"),
    },
)

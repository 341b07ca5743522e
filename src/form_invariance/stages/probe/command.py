"""Linear probes."""

from pathlib import Path

from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import Files, ModelOptions, Seed, recorded
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.probe import compute
from form_invariance.stages.probe.table import PROBE
from form_invariance.tables.columns import ALL
from form_invariance.tables.files import read_tables, write_table
from form_invariance.tables.keys import by_cell, common_keys


def probe(*, model: ModelOptions, censuses: Files, prompts: int, seed: Seed, output: Path) -> None:
    """Fit linear probes of the answer to the residual stream.

    Args:
        censuses: census tables; of one format to probe every position, of several to probe the last token
        prompts: prompts of each operator, over all formats
        output: probe table
    """
    settings = recorded(locals())

    prompt_rows = compute.choose_prompts(read_tables(by_cell(censuses), CENSUS), prompts, seed)
    formats = list(prompt_rows["format"].unique())
    decoder, tokenizer = load_model(model)
    table = compute.run(decoder, tokenizer, prompt_rows, seed, last_only=len(formats) > 1)
    labels = compute.token_labels(tokenizer, prompt_rows) if len(formats) == 1 else [""]
    provenance = {
        **settings,
        "device": str(decoder.device),
        "formats": formats,
        "prompts": prompt_rows.groupby(["format", "operator"], sort=False).size().unstack().T.to_dict(),
        "test_share": compute.TEST_SHARE,
    }
    tokens = table["position"].map(dict(enumerate(labels)))
    keys = {"format": ALL, **common_keys(*censuses)}
    write_table(table.assign(token=tokens), output, PROBE, provenance, keys)

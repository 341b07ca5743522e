"""What a job asks of a cluster: memory and minutes by the model's size, partition and account by the site."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError
from form_invariance.workflow.config_check import load
from form_invariance.workflow.config_schema import closest
from form_invariance.workflow.model_checks import known_folder

UNKNOWN = 8_000_000_000
"""Parameters of a model of which nothing is known but a name without a number."""

SITE_KEYS = (
    "slurm_account",
    "slurm_partition",
    "qos",
    "constraint",
    "gpu_model",
    "gres",
    "slurm_extra",
    "clusters",
)
"""What the cluster file may say of a kind of job: resources of Snakemake's SLURM executor."""

_SHELL = set(";&|<>$`\\\n()")
"""Signs that a shell acts on: SLURM's executor quotes all other keys, but takes `slurm_extra` as it is."""

_DEVICES = Path("/dev")
_NAMED = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([bm])(?![a-z])", re.IGNORECASE)
_CPU_BASE, _GPU_BASE = 3000, 4000
_PARAMETERS_A_MINUTE = 5e7


def has_gpu() -> bool:
    """Whether this machine has a GPU, NVIDIA's, AMD's (kfd) or WSL's (dxg), whatever torch can do with it."""
    return any(found for pattern in ("nvidia[0-9]*", "kfd", "dxg") for found in _DEVICES.glob(pattern))


@cache
def parameters(source: str, revision: str | None = None) -> int:
    """A model's parameters, without reading weights or asking the network.

    From config.json, where the folder is here or the hub's file is cached; else from the name, such as
    Llama-3.2-1B; else `UNKNOWN`.
    """
    folder = known_folder(source, revision)
    if folder is not None:
        return _counted(folder)
    found = _NAMED.findall(source.replace("-", " ").replace("_", " ").replace("/", " "))
    if not found:
        return UNKNOWN
    number, unit = found[-1]
    return int(float(number) * (1e9 if unit.lower() == "b" else 1e6))


def _counted(folder: Path) -> int:
    from form_invariance.model.families import tied
    from form_invariance.model.files import read_config

    c, raw = read_config(folder)
    embeddings = 1 if tied(raw) else 2
    return c.n_layers * c.layer_parameters + embeddings * c.vocabulary * c.d_model


def memory_mb(n: int, on_gpu: bool, attempt: int) -> int:
    """Main memory of a job that runs a model of n parameters, MB; more at every attempt.

    On a CPU the weights stand there in float32, beside the file's bfloat16 while they are read, and so do
    activations. On a GPU the file's pages alone pass through.
    """
    megabytes = _GPU_BASE + 2.2e-6 * n if on_gpu else _CPU_BASE + 8e-6 * n
    return int(megabytes * attempt)


def minutes(n: int, base: int, attempt: int) -> int:
    """Time limit of such a job: `base`, and a minute for every 50 million parameters; more at every attempt."""
    return int((base + n / _PARAMETERS_A_MINUTE) * attempt)


def read_site(path: Path) -> dict[str, dict[str, Any]]:
    """What the cluster file says of `cpu` jobs and of `gpu` jobs; nothing where there is no file.

    Raises:
        UserError: it is not of the form that config/cluster.example.yaml shows.
    """
    site: dict[str, dict[str, Any]] = {"cpu": {}, "gpu": {}}
    if not path.exists():
        return site
    for kind, given in load(path).items():
        if kind not in site:
            raise UserError(f"{path}: {kind!r} is no kind of job; there are cpu and gpu")
        if not isinstance(given, Mapping):
            raise UserError(f"{path}: {kind} must hold keys with values, such as slurm_partition: short")
        for key, value in given.items():
            _check(path, kind, key, value)
        site[kind] = dict(given)
    return site


def _check(path: Path, kind: str, key: object, value: object) -> None:
    if key not in SITE_KEYS:
        near = closest(key, SITE_KEYS)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(SITE_KEYS)}"
        raise UserError(f"{path}: {kind} has the unknown key {key!r}; {hint}")
    if not (isinstance(value, str) and value):
        raise UserError(f"{path}: {kind}.{key} must be text, not {value!r}; put it in quotes")
    acted_on = sorted(_SHELL & set(value)) if key == "slurm_extra" else []
    if acted_on:
        raise UserError(f"{path}: {kind}.{key} has {acted_on[0]!r}, on which a shell would act; take it out")

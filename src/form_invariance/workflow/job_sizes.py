"""Resources that a job asks a cluster for: memory and time by the model's size, the rest from the cluster file."""

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from form_invariance.model.files import is_gguf
from form_invariance.model.sizes import Sizes, read_sizes
from form_invariance.workflow.config_check import load
from form_invariance.workflow.config_schema import check_schema
from form_invariance.workflow.model_checks import known_folder

ASSUMED_PARAMETERS = 8_000_000_000
"""Assumed number of parameters of a model that is not on this machine and has no size in its name."""

_TEXT = {"type": "string", "minLength": 1, "description": "text that is not empty"}
_NOT_FOR_A_SHELL = {
    "type": "string",
    "pattern": r"^[^;&|<>$`\\\n()]+\Z",
    "description": r"text without the characters ; & | < > $ ` \ ( ) and line breaks, which a shell interprets",
}
_KEYS = {"type": "object", "description": "names with their values"}
_JOBS = {
    **_KEYS,
    "additionalProperties": False,
    "properties": {
        **dict.fromkeys(["slurm_account", "slurm_partition", "qos", "constraint", "gpu_model", "gres"], _TEXT),
        "slurm_extra": _NOT_FOR_A_SHELL,  # the SLURM executor quotes all other keys
        "clusters": _TEXT,
    },
}
_SITE = {**_KEYS, "additionalProperties": False, "properties": {"cpu": _JOBS, "gpu": _JOBS}}
"""Schema of the cluster file: resources of Snakemake's SLURM executor for each kind of job."""

_DEVICES = Path("/dev")
_NAMED = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([bm])(?![a-z])", re.IGNORECASE)
_CPU_BASE, _GPU_BASE = 3000, 4000
_LEAST_MINUTES, _MARGIN = 10, 3
_COMPARING = 4e-8
"""Assumed seconds of a CPU core for each parameter, to read a model and compare its logits on 512 tokens."""


def has_gpu() -> bool:
    """Whether this machine has a GPU (NVIDIA; AMD: kfd; WSL: dxg), whether or not torch can use it."""
    return any(device for pattern in ("nvidia[0-9]*", "kfd", "dxg") for device in _DEVICES.glob(pattern))


# Cached: every job asks several times, and transformers, which reads a config.json without some sizes, is slow.
_sizes_of_folder = cache(read_sizes)


def known_sizes(model: Mapping[str, Any]) -> Sizes | None:
    """The sizes of a model of the configuration; None if its config.json is not on this machine."""
    folder = known_folder(model)
    return None if folder is None else _sizes_of_folder(folder)


def parameters(model: Mapping[str, Any]) -> int:
    """Number of parameters of a model of the configuration, without reading weights or using the network.

    It is computed from config.json if that is on this machine, else read from a name such as Llama-3.2-1B, else
    `ASSUMED_PARAMETERS`.
    """
    sizes, source = known_sizes(model), model["source"]
    if sizes is not None:
        return sizes.parameters
    if is_gguf(source):
        return 2 * Path(source).expanduser().stat().st_size  # most files have 4 to 8 bits a weight
    named_sizes = _NAMED.findall(source.replace("-", " ").replace("_", " ").replace("/", " "))
    if not named_sizes:
        return ASSUMED_PARAMETERS
    number, unit = named_sizes[-1]
    return int(float(number) * (1e9 if unit.lower() == "b" else 1e6))


def memory_mb(n: int, on_gpu: bool, attempt: int) -> int:
    """Main memory in MB of a job that runs a model of n parameters; it grows with every attempt.

    On a CPU it holds the weights in float32, a copy in the file's precision while they are read, and activations.
    On a GPU the weights only pass through it.
    """
    megabytes = _GPU_BASE + 2.2e-6 * n if on_gpu else _CPU_BASE + 8e-6 * n
    return int(megabytes * attempt)


def proof_mb(model: Mapping[str, Any], attempt: int) -> int:
    """Main memory in MB of the job that compares a model's logits with transformers', on a CPU."""
    n = parameters(model)
    return memory_mb(n // 2 if model.get("dtype") == "bfloat16" else n, False, attempt)


def proof_minutes(model: Mapping[str, Any], attempt: int) -> int:
    """Minutes of the job that compares a model's logits with transformers'."""
    return math.ceil(_LEAST_MINUTES + _MARGIN * _COMPARING * parameters(model) / 60) * attempt


def kind(model: Mapping[str, Any]) -> str:
    """The key of the cluster file for jobs that run a model: gpu, unless the configuration puts it on a CPU."""
    return "cpu" if model.get("device") == "cpu" else "gpu"


def gpus(model: Mapping[str, Any], site: Mapping[str, Mapping[str, Any]], gpu_here: bool) -> int | None:
    """GPUs that a job which runs a model asks for.

    Args:
        model: the model's part of the configuration.
        site: the cluster file. If it has a gres, which names the GPU, the result is None.
        gpu_here: whether the job may run where a GPU is.
    """
    if kind(model) == "cpu":
        return 0
    if site["gpu"].get("gres"):
        return None
    return 1 if gpu_here or model.get("device", "auto") != "auto" else 0


def model_job(
    models: Mapping[str, Mapping[str, Any]],
    site: Mapping[str, Mapping[str, Any]],
    gpu_here: Callable[[], bool],
    on_cluster: Callable[[], bool],
    seconds: Callable[[str, Mapping[str, str]], float],
    rule: str,
    *,
    extra_mb: int = 0,
) -> dict[str, Callable[..., Any]]:
    """Resources of a rule whose jobs run a model, by the model's size, the expected time and the attempt.

    Jobs get three times the expected time, because a GPU may be slower than the assumed one (an A100 has a third
    of its rate in float32).

    Args:
        models: the configuration's models, by the wildcard `model`.
        gpu_here: as in `gpus`, called when a job is made.
        on_cluster: as in `table_job`.
        seconds: expected seconds of a job, by its rule and wildcards.
        extra_mb: memory beyond the model's.
    """

    def mem_mb(wildcards: Any, attempt: int) -> int:
        model = models[wildcards.model]
        on_gpu = gpus(model, site, gpu_here()) != 0
        return extra_mb * attempt + memory_mb(parameters(model), on_gpu, attempt)

    def runtime(wildcards: Any, attempt: int) -> int:
        return math.ceil(_LEAST_MINUTES + _MARGIN * seconds(rule, dict(wildcards.items())) / 60) * attempt

    def of_site(key: str) -> Callable[..., Any]:
        return lambda wildcards: site[kind(models[wildcards.model])].get(key)

    return {
        "gpu": lambda wildcards: gpus(models[wildcards.model], site, gpu_here()),
        "mem_mb": mem_mb,
        "runtime": runtime,
        "turn": lambda wildcards: 1 if on_cluster() else None,
        **{key: of_site(key) for key in {**site["cpu"], **site["gpu"]}},
    }


def table_job(
    site: Mapping[str, Mapping[str, Any]],
    on_cluster: Callable[[], bool],
    *,
    mem_mb: int,
    minutes: int = _LEAST_MINUTES,
) -> dict[str, Any]:
    """Resources of a rule whose jobs read and write tables or figures, by the attempt.

    Members of a cluster's group run one after another. Each takes the group's only `turn`, so that the group asks
    for the sum of their times, and for the cores and memory of the largest.

    Args:
        on_cluster: whether jobs run on a cluster.
    """
    return {
        "mem_mb": lambda wildcards, attempt: mem_mb * attempt,
        "runtime": lambda wildcards, attempt: minutes * attempt,
        "turn": lambda wildcards: 1 if on_cluster() else None,
        **site["cpu"],
    }


def read_site(path: Path) -> dict[str, dict[str, Any]]:
    """The resources that the cluster file sets for `cpu` jobs and for `gpu` jobs; empty if there is no file.

    Raises:
        UserError: the file does not have the form of config/cluster.example.yaml.
    """
    site = load(path) if path.exists() else {}
    check_schema(site, _SITE, str(path))
    return {"cpu": {}, "gpu": {}, **site}

"""What jobs ask a cluster for."""

from functools import partial

import pytest
import yaml
from configurations import SHIPPED
from snakemake.iocontainers import Wildcards

from form_invariance.errors import UserError
from form_invariance.workflow import job_costs, job_sizes, plan


@pytest.mark.parametrize("name", ["nvidia0", "nvidia12", "kfd", "dxg"])
def test_a_gpu_is_seen_by_its_device(tmp_path, monkeypatch, name):
    monkeypatch.setattr(job_sizes, "_DEVICES", tmp_path)
    for other in ("null", "nvidiactl", "nvidia-uvm", "dri"):
        (tmp_path / other).touch()
    assert not job_sizes.has_gpu()
    (tmp_path / name).touch()
    assert job_sizes.has_gpu()


def test_a_models_name_tells_its_parameters():
    for source, number in (("nobody/Meta-Llama-3-8B", 8e9), ("nobody/pythia-160m", 160e6)):
        assert job_sizes.parameters({"source": source}) == number
    assert job_sizes.parameters({"source": "nobody/gpt2"}) == job_sizes.ASSUMED_PARAMETERS


def test_more_for_larger_models_and_later_attempts():
    small, large = 1e9, 8e9
    for on_gpu in (True, False):
        once = job_sizes.memory_mb(large, on_gpu, 1)
        assert job_sizes.memory_mb(small, on_gpu, 1) < once
        assert job_sizes.memory_mb(large, on_gpu, 3) == pytest.approx(3 * once, abs=3)
    of_tables = job_sizes.table_job({"cpu": {}}, lambda: True, mem_mb=500, minutes=4)
    assert [of_tables[name]({}, 3) for name in ("mem_mb", "runtime")] == [1500, 12]
    # A cluster's gres asks for a GPU; Snakemake does not know that.
    asks = {"m": {"source": "nobody/none-8b"}}, {"cpu": {}, "gpu": {"gres": "gpu:1"}}, lambda: False, lambda: True
    of_model = job_sizes.model_job(*asks, lambda rule, wildcards: 60, "census")
    one = Wildcards(fromdict={"model": "m"})
    assert of_model["gpu"](one) is None
    assert of_model["mem_mb"](one, 1) == job_sizes.memory_mb(large, True, 1)
    # float32 weights, and the file's bfloat16 weights
    assert job_sizes.memory_mb(large, False, 1) > 6 * large / 1e6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus: {}", ": unknown key 'gpus'; did you mean 'gpu'"),
        ("gpu: {slurm_account: 17}", " key gpu.slurm_account: 17 is wrong; it must be text"),
        ("gpu: {qos: 010}", "YAML reads 010 as the number 8"),
        ('gpu: {slurm_extra: "; touch pwned"}', " key gpu.slurm_extra: .*must be text without the char"),
    ],
)
def test_a_mistake_in_the_cluster_file_is_named(tmp_path, text, said):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"{path}.*{said}"):
        job_sizes.read_site(path)


def test_the_cluster_file_may_have_quoted_and_bracketed_text(tmp_path):
    path = tmp_path / "cluster.yaml"
    options = {"gpu": {"slurm_extra": "--mail-user='a b@c.d' --exclude=node[1-3],n4", "constraint": "(a&b)|c"}}
    path.write_text(yaml.safe_dump(options))
    assert job_sizes.read_site(path) == {"cpu": {}, **options}


CONFIG = SHIPPED | {"models": {"m": {"source": "meta-llama/Llama-3.2-1B"}}}


def asked(config, rule, wildcards, attempt=1):
    """Minutes that a rule's job asks for, as Snakemake computes it."""
    seconds = partial(job_costs.expected_seconds, config)
    site = {"cpu": {}, "gpu": {}}
    resources = job_sizes.model_job(config["models"], site, lambda: True, lambda: False, seconds, rule)
    return resources["runtime"](Wildcards(fromdict=wildcards), attempt)


@pytest.mark.parametrize("rule", job_costs.OPERATIONS)
@pytest.mark.parametrize("config", [CONFIG, CONFIG | {"train_prompts": 1000, "candidates": 8192}])
def test_a_job_asks_for_more_than_twice_the_time_that_plan_expects(tmp_path, config, rule):
    for wildcards in ({"model": "m", "format": "word", "operator": "addition"}, {"model": "m"}):
        job = plan.PlannedJob(rule, wildcards, "b.tsv", "", True)
        (seconds,) = plan.make([job], [job], tmp_path, config)["seconds"]
        assert 10 + 2 * seconds / 60 < asked(config, rule, wildcards) < 12 + 3 * seconds / 60
        assert asked(config, rule, wildcards, 2) == 2 * asked(config, rule, wildcards)


def test_the_job_that_compares_a_model_asks_for_time_by_its_size():
    """8 billion parameters, 512 tokens: 8.2e12 operations, at 2e10 a second on a slow core."""
    assert 10 + 8.2e12 / 2e10 / 60 < job_sizes.proof_minutes({"source": "owner/model-8B"}, 1) < 40

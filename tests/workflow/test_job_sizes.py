"""What jobs ask a cluster for."""

import pytest
import yaml

from form_invariance.errors import UserError
from form_invariance.workflow import job_sizes


@pytest.mark.parametrize("name", ["nvidia0", "nvidia12", "kfd", "dxg"])
def test_a_gpu_is_seen_by_its_device(tmp_path, monkeypatch, name):
    monkeypatch.setattr(job_sizes, "_DEVICES", tmp_path)
    for other in ("null", "nvidiactl", "nvidia-uvm", "dri"):
        (tmp_path / other).touch()
    assert not job_sizes.has_gpu()
    (tmp_path / name).touch()
    assert job_sizes.has_gpu()


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("meta-llama/Meta-Llama-3-8B", 8e9),
        ("EleutherAI/pythia-160m", 160e6),
        ("openai-community/gpt2", job_sizes.UNKNOWN),
    ],
)
def test_parameters_by_name(source, number):
    assert job_sizes.parameters(source) == number


def test_more_for_larger_models_and_later_attempts():
    small, large = 1e9, 8e9
    for on_gpu in (True, False):
        assert job_sizes.memory_mb(small, on_gpu, 1) < job_sizes.memory_mb(large, on_gpu, 1)
        assert job_sizes.memory_mb(large, on_gpu, 3) == pytest.approx(
            3 * job_sizes.memory_mb(large, on_gpu, 1), abs=3
        )
    # float32 weights, and the file's bfloat16 weights
    assert job_sizes.memory_mb(large, False, 1) > 6 * large / 1e6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus: {}", ": unknown key 'gpus'; did you mean 'gpu'"),
        ("gpu: {slurm_account: 17}", " key gpu.slurm_account: 17 is wrong; it must be text"),
        ("gpu: {qos: 010}", "YAML reads 010 as the number 8"),
        ('gpu: {slurm_extra: "; touch pwned"}', " key gpu.slurm_extra: .*must be text without the char"),
        (
            'gpu: {slurm_extra: "--nice=5 \\n touch pwned"}',
            " key gpu.slurm_extra: .*must be text without the char",
        ),
    ],
)
def test_mistakes_in_the_cluster_file(tmp_path, text, said):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"{path}.*{said}"):
        job_sizes.read_site(path)


def test_the_cluster_file_may_have_quoted_and_bracketed_text(tmp_path):
    path = tmp_path / "cluster.yaml"
    options = {"gpu": {"slurm_extra": "--mail-user='a b@c.d' --exclude=node[1-3],n4", "constraint": "(a&b)|c"}}
    path.write_text(yaml.safe_dump(options))
    assert job_sizes.read_site(path) == {"cpu": {}, **options}

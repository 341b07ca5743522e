"""Stage 2 in pieces gives what it gives in one, byte by byte."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from small_cells import MODEL, attribute, write_prompts

from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.stages.patching.shards import layers_of, merge

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """A small cell up to its attribution table, and its stage 2 in one job."""
    folder = tmp_path_factory.mktemp("cell")
    files = write_prompts(folder, train=6, draws=2)
    attribute(files, candidates=9)
    patching = [
        *("patching", *MODEL, "--dataset", files["dataset"], "--corrupt-table", files["corrupt"]),
        *("--attribution", files["attribution"], "--late-from", "half_depth"),
    ]
    assert main([*patching, "--output", str(folder / "whole.safetensors")]) == 0
    return folder, patching


@pytest.mark.parametrize("count", [2, 3])
def test_joined_pieces_equal_the_whole(cell, tmp_path, count):
    folder, patching = cell
    pieces = [str(tmp_path / f"{number}.safetensors") for number in range(1, count + 1)]
    for number, piece in enumerate(pieces, start=1):
        assert main([*patching, "--shard", f"{number}/{count}", "--output", piece]) == 0
    joined = tmp_path / "joined.safetensors"
    assert main(["merge-effects", "--shards", *pieces[::-1], "--output", str(joined)]) == 0
    assert joined.read_bytes() == (folder / "whole.safetensors").read_bytes()


def test_more_pieces_than_late_layers(cell, tmp_path, capsys):
    _, patching = cell
    output = tmp_path / "piece.safetensors"
    assert main([*patching, "--shard", "1/4", "--output", str(output)]) == 2
    assert "patching_shards: 4 is more than the 3 late layers" in capsys.readouterr().err
    assert not output.exists()


def test_other_late_layers_than_attributions(cell, tmp_path, capsys):
    _, patching = cell
    assert main([*patching, "--late-from", "1", "--output", str(tmp_path / "x.safetensors")]) == 2
    assert "attribution.parquet has no candidates in layer 1" in capsys.readouterr().err


def test_pieces_cover_every_layer_once():
    found = sorted(layer for number in (1, 2, 3) for layer in layers_of(f"{number}/3", range(16, 32)))
    assert found == list(range(16, 32))
    for shard in ("0/3", "4/3", "1", "a/b", "1/0"):
        with pytest.raises(UserError, match="such as 1/4"):
            layers_of(shard, range(16, 32))


def test_pieces_that_do_not_belong_together():
    def piece(layers, **provenance):
        tensors = {f"effects.{layer}": np.zeros(1) for layer in layers}
        return tensors, {"model": "x", "first_late_layer": 2, "n_layers": 4, "shard": str(layers), **provenance}

    assert set(merge({"a": piece([2]), "b": piece([3])})[0]) == {"effects.2", "effects.3"}
    for shards, words in (
        ({"a": piece([2])}, "no piece holds layer 3"),
        ({"a": piece([2]), "b": piece([2])}, "b holds layers that another"),
        ({"a": piece([2]), "b": piece([3], model="y")}, "b is of another model"),
    ):
        with pytest.raises(UserError, match=words):
            merge(shards)


@pytest.fixture(scope="module")
def piece(cell):
    """The command of a piece without its output, the piece as it is written undisturbed, and its seconds."""
    folder, patching = cell
    call = [sys.executable, "-m", "form_invariance", *patching, "--shard", "1/2", "--output"]
    start = time.monotonic()
    subprocess.run([*call, str(folder / "piece.safetensors")], check=True, capture_output=True)
    return call, (folder / "piece.safetensors").read_bytes(), time.monotonic() - start


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_killed_piece_leaves_nothing_or_all_and_is_the_same_the_next_time(piece, tmp_path, share):
    call, whole, duration = piece
    cut = tmp_path / "cut.safetensors"
    running = subprocess.Popen([*call, str(cut)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(share * duration)
    running.kill()
    # On a machine that was busier before than now, it may have ended in time.
    assert running.wait() == -signal.SIGKILL or cut.exists()
    assert not cut.exists() or cut.read_bytes() == whole
    assert share > 0.5 or not cut.exists()
    subprocess.run([*call, str(cut)], check=True, capture_output=True)
    assert cut.read_bytes() == whole

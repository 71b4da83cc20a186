"""What was read is what is loaded: every folder and every buffer that reading lets pass."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from tests.llama.test_reading import BUFFERS, named
from tests.llama.tiny import checkpoint, config, ids, load, read, weights, wide_plan
from tf_plugins.types import Device, Window


def logits(folder: Path, device: Device) -> mx.array:
    """Of a window after a prompt."""
    model = load(folder, device)
    model.use(wide_plan(model, device.kind))
    prompt = ids(70)
    found = model.verify([Window(read(model, prompt), prompt[-1:])])
    mx.eval(found)
    model.release()
    return found


@pytest.mark.parametrize("name", ["llama[8b]", "llama*", "llama?", "[!a]", "ll[a-z]ma"])
def test_a_folder_of_any_name(tmp_path: Path, device: Device, name: str) -> None:
    checkpoint(tmp_path / "llama", tie_word_embeddings=False)
    checkpoint(tmp_path / name, tie_word_embeddings=False)
    assert mx.array_equal(logits(tmp_path / name, device), logits(tmp_path / "llama", device)).item()


def test_another_folder_that_the_name_would_match_is_not_read(tmp_path: Path, device: Device) -> None:
    checkpoint(tmp_path / "llama[8b]")
    other = checkpoint(tmp_path / "llama8")
    mx.save_safetensors(str(other / "model.safetensors"), weights(config(), seed=1))
    assert not mx.array_equal(logits(tmp_path / "llama[8b]", device), logits(other, device)).item()


@pytest.mark.parametrize("name", [*BUFFERS, "lm_head.weight"])
def test_what_is_no_weight_is_left_out(tmp_path: Path, device: Device, name: str) -> None:
    checkpoint(tmp_path / "plain")
    checkpoint(tmp_path / "more")
    named(name, BUFFERS.get(name, mx.ones((320, 64))))(tmp_path / "more")
    assert mx.array_equal(logits(tmp_path / "more", device), logits(tmp_path / "plain", device)).item()


def test_a_left_over_window_changes_nothing(tmp_path: Path, device: Device) -> None:
    checkpoint(tmp_path / "plain")
    checkpoint(tmp_path / "window", sliding_window=8)
    assert mx.array_equal(logits(tmp_path / "window", device), logits(tmp_path / "plain", device)).item()

"""Weights that cannot fit are refused before one of them is read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.drafter.tiny import checkpoint
from tf_host.checkpoints import Pair
from tf_host.plugins import Plugins
from tf_host.settings import load
from tf_host.start import compose
from tf_host.start.weights import refuse_weights
from tf_llama.family import LlamaFamily
from tf_plugins import Refused
from tf_plugins.types import Device, Refusal

GIB = 1 << 30
STORED = Device("gpu", "cuda", "a GPU")
FLOAT32 = Device("cpu", "cpu", "a CPU", dtype="float32")


def pair(target: float, drafter: float = 0.0, dtype: str = "bfloat16") -> Pair:
    """A pair with weights of so many GiB."""
    facts: dict[str, Any] = {"dtype": dtype, "folder": Path("x")}
    big = checkpoint(name="big", weight_bytes=int(target * GIB), **facts)
    small = checkpoint(name="small", weight_bytes=int(drafter * GIB), **facts) if drafter else None
    return Pair(LlamaFamily(), big, small)


def refused(pair: Pair, device: Device, memory: int, limit: int | None = None) -> Refusal:
    with pytest.raises(Refused) as caught:
        refuse_weights(pair, device, memory * GIB, None if limit is None else limit * GIB, 1)
    return caught.value.refusal


@pytest.mark.parametrize(
    ("weights", "device", "memory", "limit"),
    [
        (pair(15), STORED, 16, None),
        (pair(12, 4), STORED, 16, None),
        (pair(8), FLOAT32, 16, None),
        (pair(8), STORED, 64, 8),
        (pair(16, dtype="float32"), FLOAT32, 16, None),
        # Packed weights are served as they are stored, whatever the device computes in.
        (pair(15, dtype="q4_0"), FLOAT32, 16, None),
        # Whoever gives more than the machine says it has knows better.
        (pair(18), STORED, 16, 20),
    ],
)
def test_weights_that_fit_are_loaded(weights: Pair, device: Device, memory: int, limit: int | None) -> None:
    refuse_weights(weights, device, memory * GIB, None if limit is None else limit * GIB, 0)


def test_weights_past_the_limit_are_refused_with_one_above_them() -> None:
    refusal = refused(pair(15, 2), STORED, 64, 12)
    assert refusal.reason == "the weights of big and small take 17.0 GiB in bfloat16, past the 12.0 GiB of --memory-gib"
    assert refusal.hint == (
        "give --memory-gib above 17, or leave out --drafter and give --memory-gib above 15;"
        " caches and a reserve come on top"
    )
    assert refusal.param == "--memory-gib"
    assert refused(pair(10, 3), STORED, 64, 12).hint.startswith(
        "give --memory-gib above 13, or leave out --drafter; caches"
    )


def test_a_context_of_which_no_stream_fits_is_refused() -> None:
    wanted = pair(15)
    wanted = replace(wanted, target=replace(wanted.target, kv_bytes=1 << 17))
    refuse_weights(wanted, STORED, 16 * GIB, None, 8_192)
    with pytest.raises(Refused) as caught:
        refuse_weights(wanted, STORED, 16 * GIB, None, 8_193)
    assert str(caught.value) == (
        "one stream of --context 8193 takes 1.0 GiB beside the weights of big, 15.0 GiB in bfloat16: past the 16.0 GiB"
        " that the device has\nhint: give a --context of less than 8192; a reserve comes on top"
    )
    with pytest.raises(Refused, match=re.escape("past the 15.5 GiB of --memory-gib")):
        refuse_weights(wanted, STORED, 64 * GIB, int(15.5 * GIB), 4_097)
    # Keys and values in float32 take twice as much.
    with pytest.raises(Refused, match=re.escape("takes 0.5 GiB beside the weights of big, 30.0 GiB in float32")):
        refuse_weights(wanted, FLOAT32, 64 * GIB, int(30.4 * GIB), 2_048)


def test_weights_past_the_device_are_refused_with_what_makes_them_less() -> None:
    refusal = refused(pair(15), FLOAT32, 16)
    assert refusal.reason == "the weights of big take 30.0 GiB in float32, past the 16.0 GiB that the device has"
    assert refusal.hint == "give --dtype bfloat16; caches and a reserve come on top"
    assert refused(pair(30, dtype="float32"), STORED, 16).hint.startswith("give --dtype bfloat16; ")
    assert refused(pair(15, 2), STORED, 16).hint == "leave out --drafter; caches and a reserve come on top"
    both = "give --dtype bfloat16, leave out --drafter; caches and a reserve come on top"
    assert refused(pair(15, 2), FLOAT32, 16).hint == both


def test_packed_weights_are_refused_as_they_are_stored() -> None:
    refusal = refused(pair(12, 2, dtype="q4_0"), FLOAT32, 64, 13)
    assert refusal.reason == "the weights of big and small take 14.0 GiB in q4_0, past the 13.0 GiB of --memory-gib"
    assert refusal.hint == "give --memory-gib above 14, or leave out --drafter; caches and a reserve come on top"


@pytest.mark.parametrize("served", [None, "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("stored", ["float32", "bfloat16", "float16", "q4_0", "uint32"])
@pytest.mark.parametrize("drafter", [0, 3])
def test_a_dtype_that_is_named_is_one_that_the_setting_takes(drafter: int, stored: str, served: str | None) -> None:
    hint = refused(pair(12, drafter, stored), Device("cpu", "cpu", "a CPU", dtype=served), 16, 5).hint
    named = re.findall(r"--dtype (\w+)", hint)
    numbers = stored in ("float32", "bfloat16", "float16")
    assert bool(named) == (numbers and (served or stored) == "float32")
    for dtype in named:
        assert load(["--dtype", dtype]).settings.dtype == dtype


@pytest.mark.parametrize("limit", [None, 8, 17])
def test_no_setting_is_named_where_none_would_do(limit: int | None) -> None:
    for weights, device in ((pair(18), STORED), (pair(17.5, 2), FLOAT32), (pair(40, dtype="float32"), STORED)):
        hint = refused(weights, device, 16, limit).hint
        assert hint == (
            "no setting makes it fit here: serve a smaller checkpoint, or this one on a machine with more memory"
        )


def test_a_start_is_refused_before_anything_is_loaded(
    demo_folders: object, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(*_: object) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(LlamaFamily, "load", loaded)
    settings = load(["demo", "--drafter", "--context", "512", "--memory-gib", "0.01"]).settings
    with pytest.raises(
        Refused, match=r"the weights of demo and demo-drafter take .* past the 10\.2 MiB of --memory-gib"
    ):
        compose(settings, device, Plugins.load(settings), lambda doing, done: None)

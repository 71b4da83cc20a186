"""The packaged drafter, through the plugin's hook."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.models import llama

import tf_demo
from tests.drafter.tiny import checkpoint, proposed, request, target
from tf_llama.drafter.plugin import LlamaDrafterPlugin
from tf_llama.drafter.proposer import LlamaDrafter
from tf_plugins.types import Checkpoint, Device

FOLDER = Path(tf_demo.__file__).parent / "drafter"
CONFIG = json.loads((FOLDER / "config.json").read_text())


def facts(**changes: object) -> Checkpoint:
    base = {"folder": FOLDER, "name": "demo-drafter", "vocab": 49_152, "context": 8_192, "dtype": "bfloat16"}
    return checkpoint(**base | {"config": CONFIG} | changes)


@pytest.fixture(scope="module")
def made(device: Device) -> Iterator[LlamaDrafter]:
    given = target(vocab=49_152, device=device, drafter=facts(), parallel=2)
    (proposer,) = LlamaDrafterPlugin(None).proposers(given)
    assert isinstance(proposer, LlamaDrafter)
    yield proposer
    proposer.release()


@pytest.fixture(scope="module")
def reference() -> llama.Model:
    model = llama.Model(llama.ModelArgs.from_dict(CONFIG))
    weights = mx.load(str(FOLDER / "model.safetensors"))
    model.load_weights(list(model.sanitize(weights).items()))
    model.set_dtype(mx.float32)
    return model


@pytest.mark.parametrize("length", [1, 30, 300])
def test_it_drafts_what_mlx_lm_says(made: LlamaDrafter, reference: llama.Model, length: int) -> None:
    tokens = [random.Random(at).randrange(20, 4_000) for at in range(length)]
    cache = reference.make_cache()
    said, new = list(tokens), list(tokens)
    for _ in range(15):
        new = [int(mx.argmax(reference(mx.array([new]), cache=cache)[0, -1]).item())]
        said += new
    made.open(length, tokens, 1_000)
    (draft,) = proposed(made, request(length, tokens, 15))
    made.close(length)
    assert draft == tuple(said[length:])


def test_its_costs_are_known_before_the_first_request(made: LlamaDrafter) -> None:
    costs = made.costs()
    assert 0 < costs.read < costs.step
    assert made.label == "Llama drafter (demo-drafter)"


def test_no_drafter_no_proposer(device: Device) -> None:
    plugin = LlamaDrafterPlugin(None)
    assert plugin.proposers(target(device=device)) == ()
    other = target(device=device, drafter=facts(family="qwen"), checkpoint=checkpoint(family="qwen"))
    assert plugin.proposers(other) == ()

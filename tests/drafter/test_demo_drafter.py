"""The packaged drafter, through the plugin's hook."""

from __future__ import annotations

import json
import operator
import random
from collections.abc import Iterator
from itertools import accumulate
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


def test_it_knows_how_likely_its_drafts_are(made: LlamaDrafter, reference: llama.Model, device: Device) -> None:
    """Of 49,152 ids, by mlx-lm's own logits; with them a chain ends where it should, on a GPU one step later."""
    tokens = [random.Random(at).randrange(20, 4_000) for at in range(40)]
    drafts = []
    for least in (0.0, 0.01):
        made.open(7, tokens, 1_000)
        drafts += made.propose([request(7, tokens, 15, least=least)])
        made.close(7)
    whole, ended = drafts
    assert whole is not None
    assert ended is not None
    logits = reference(mx.array([[*tokens, *whole.tokens[:-1]]]))[0, 39:]
    shares = mx.softmax(logits, axis=-1, precise=True)
    assert [share for (share,) in whole.probabilities] == pytest.approx(
        [shares[at, token].item() for at, token in enumerate(whole.tokens)], rel=1e-3 if device.kind == "cpu" else 0.15
    )
    chances = accumulate((share for (share,) in whole.probabilities), operator.mul)
    length = 1 + next(at for at, chance in enumerate(chances) if chance < 0.01)
    assert length < 14
    assert len(ended.tokens) in ((length,) if device.kind == "cpu" else (length, length + 1))
    assert ended.tokens == whole.tokens[: len(ended.tokens)]


def test_its_costs_are_known_before_the_first_request(made: LlamaDrafter) -> None:
    costs = made.costs()
    assert 0 < costs.read < costs.step
    assert made.label == "Llama drafter (demo-drafter)"


def test_no_drafter_no_proposer(device: Device) -> None:
    plugin = LlamaDrafterPlugin(None)
    assert plugin.proposers(target(device=device)) == ()
    other = target(device=device, drafter=facts(family="qwen"), checkpoint=checkpoint(family="qwen"))
    assert plugin.proposers(other) == ()

"""Exact rows on tiny models, each check with the faults that it catches."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import pytest

from tests.llama.exactness import CAUGHT_BY, reply, windows
from tests.llama.faults import FAULTS, plant
from tests.llama.tiny import ids, read
from tf_llama.model import LlamaModel
from tf_plugins.types import Window

Check = Callable[[LlamaModel], None]


@pytest.mark.exact
@pytest.mark.parametrize("check", CAUGHT_BY, ids=lambda check: check.__name__)
def test_exact(model: LlamaModel, check: Check) -> None:
    check(model)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("check", "fault"),
    [(check, fault) for check, faults in CAUGHT_BY.items() for fault in faults],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_control_a_planted_fault_is_caught(model: LlamaModel, check: Check, fault: str) -> None:
    with pytest.raises(AssertionError):
        check(plant(model, fault))


def test_control_every_fault_is_caught_by_a_check() -> None:
    assert {fault for faults in CAUGHT_BY.values() for fault in faults} == set(FAULTS)


@pytest.mark.exact
def test_a_nan_in_a_stale_row_is_caught(model: LlamaModel) -> None:
    prompt = ids(200, 8)
    tokens, expected = reply(model, prompt, 4)
    cache = read(model, prompt)
    windows(model, cache, tokens[:2], expected[:2])
    layer = cache.layers[1]
    layer[-1, cache.length + 20] = mx.nan  # past the tile of padding rows that a GPU writes
    cache.layers[1] = layer
    with pytest.raises(AssertionError):
        windows(model, cache, tokens[2:], expected[2:])


@pytest.mark.exact
def test_stale_rows_stay_finite(model: LlamaModel) -> None:
    cache = read(model, ids(250, 9))
    for size in (1, min(16, model.plan.top), 2):
        mx.eval(model.verify([Window(cache, ids(min(size, model.plan.room(cache.length))))]))
        model.keep(cache, 1)
    assert all(mx.all(mx.isfinite(layer)).item() for layer in cache.layers)


@pytest.mark.exact
@pytest.mark.parametrize("lost", [False, True], ids=["", "control: a row is lost"])
def test_a_cache_that_grows_keeps_its_rows(model: LlamaModel, lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = ids(490, 11)
    tokens, expected = reply(model, prompt, 40, held=True)
    cache = read(model, prompt)
    small, hold = cache.held, cache.hold

    def losing(positions: int) -> None:
        if positions > cache.held:
            cache.layers[1][:, 300] = 0
        hold(positions)

    if lost:
        monkeypatch.setattr(cache, "hold", losing)
    if small == cache.capacity:
        pytest.skip("on a GPU a cache has all of its memory from the start")
    if lost:
        with pytest.raises(AssertionError):
            windows(model, cache, tokens, expected, wrong=2)
    else:
        windows(model, cache, tokens, expected, wrong=2)
        assert (small, cache.held) == (model.plan.capacity(1), cache.capacity)


@pytest.mark.exact
def test_rejected_rows_change_nothing_after_every_prefix(model: LlamaModel) -> None:
    prompt = ids(60, 10)
    tokens, expected = reply(model, prompt, 12)
    for cut in range(1, 12):
        cache = read(model, prompt)
        windows(model, cache, tokens[:cut], expected[:cut], wrong=cut % 5)
        windows(model, cache, tokens[cut:], expected[cut:])

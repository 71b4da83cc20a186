"""Who owns a drafter while it starts, and that nothing of it is left when that fails."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import mlx.core as mx
import pytest

from tests.drafter.tiny import checkpoint, module, proposed, request, target
from tf_llama.drafter import start as starting
from tf_llama.drafter.forward import Forward
from tf_llama.drafter.proposer import LlamaDrafter
from tf_llama.drafter.start import start
from tf_plugins import Refused


class Watched:
    """Weak references to everything that a start makes, and the memory before it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        mx.eval(mx.random.uniform())  # MLX keeps a key from the first random number on
        gc.collect()
        mx.clear_cache()
        self.memory = mx.get_active_memory()
        self.made: list[weakref.ref[Any]] = []
        for where, name in ((starting, "Chain"), (starting, "LlamaDrafter"), (starting, "Forward")):
            real = getattr(where, name)
            monkeypatch.setattr(where, name, lambda *args, _real=real: self.noted(_real(*args)))

    def noted(self, thing: Any) -> Any:
        self.made.append(weakref.ref(thing))
        return thing

    def loaded(self, **changes: Any) -> Any:
        return self.noted(module(**changes))

    def assert_gone(self, things: int) -> None:
        """While whoever looks still holds the error, its traceback and all."""
        gc.collect()
        mx.clear_cache()
        assert len(self.made) >= things
        assert [ref() for ref in self.made if ref() is not None] == []
        assert mx.get_active_memory() == self.memory


@pytest.mark.parametrize("form", ["cpu", "gpu"])
def test_a_failed_warm_up_frees_the_drafter(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    watched = Watched(monkeypatch)
    calls = 0
    real = Forward._one

    def fails_later(self: Forward, *args: Any) -> mx.array:
        nonlocal calls
        calls += 1
        if calls > 20:
            weights = self._form.weights  # a local that holds all of them
            raise RuntimeError(f"no kernel for {len(weights.layers)} layers")
        return real(self, *args)

    monkeypatch.setattr(Forward, "_one", fails_later)
    with pytest.raises(RuntimeError, match="no kernel") as caught:
        start(watched.loaded(), checkpoint(), target(form))
    watched.assert_gone(4)
    assert caught.value.__traceback__ is not None


def test_weights_that_compute_no_numbers_are_refused_and_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)

    def poisoned() -> Any:
        made = watched.loaded()
        made.model.norm.weight = mx.full([32], mx.nan)
        return made

    with pytest.raises(Refused, match="the drafter tiny computes values that are no numbers") as caught:
        start(poisoned(), checkpoint(), target())
    watched.assert_gone(4)
    assert caught.value.refusal.name == "drafter_not_finite"
    assert caught.value.refusal.param == "drafter"


def test_a_refusal_whose_message_fails_frees_the_drafter(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)

    class Unspeakable:
        def __str__(self) -> str:
            raise MemoryError("no room for a message")

    def poisoned() -> Any:
        made = watched.loaded()
        made.model.norm.weight = mx.full([32], mx.nan)
        return made

    with pytest.raises(MemoryError, match="no room for a message") as caught:
        start(poisoned(), checkpoint(folder=Unspeakable()), target())
    watched.assert_gone(4)
    assert caught.value.__traceback__ is not None


def test_a_module_that_cannot_be_packed_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)

    def incomplete() -> Any:
        made = watched.loaded()
        del made.model.layers[1].mlp["down_proj"]
        return made

    with pytest.raises(AttributeError) as caught:
        start(incomplete(), checkpoint(), target())
    watched.assert_gone(1)
    assert caught.value.__traceback__ is not None


def test_an_interrupt_while_it_warms_up_frees_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)

    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(starting, "warm", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        start(watched.loaded(), checkpoint(), target())
    watched.assert_gone(4)
    assert caught.value.__traceback__ is not None


def test_start_takes_the_weights_out_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second copy lives on beside the packed one, even where somebody kept the module."""
    for form in ("cpu", "gpu"):
        gc.collect()
        mx.clear_cache()
        before = mx.get_active_memory()
        made = start(module(), checkpoint(), target(form))
        mx.clear_cache()
        packed = sum(array.nbytes for array in made._running._form.weights.arrays())
        mask = made._running._forward._causal.nbytes
        assert mx.get_active_memory() - before < 1.1 * packed + mask
        made.release()


def test_a_warm_start_leaves_no_stream_and_no_byte() -> None:
    made = start(module(), checkpoint(), target())
    assert made.kept() == 0
    assert made._slots == {}
    assert made.costs().step > 0
    assert made.costs().read > 0
    assert made.label == "Llama drafter (tiny)"
    assert made.name == "drafter"


@pytest.mark.parametrize("context", [1, 2, 7, 80])
def test_a_drafter_with_a_short_context_starts(context: int) -> None:
    made = start(module(), checkpoint(context=context), target())
    made.open(1, [5], 10)
    (draft,) = proposed(made, request(1, [5], 3))
    assert draft is not None
    assert len(draft) == min(3, context)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("form", ["cpu", "gpu"])
def test_every_dtype_is_served(dtype: str, form: str) -> None:
    made = start(module(), checkpoint(dtype=dtype), target(form))
    assert made._running._form.weights.dtype == (mx.float32 if form == "cpu" else getattr(mx, dtype))
    made.open(1, list(range(40)), 100)
    (draft,) = proposed(made, request(1, list(range(40)), 6, temperature=0.5))
    assert draft is not None
    assert len(draft) == 6


def test_a_released_drafter_says_so() -> None:
    made: LlamaDrafter = start(module(), checkpoint(), target())
    made.release()
    with pytest.raises(RuntimeError, match="the drafter was released"):
        made.open(1, [1], 10)

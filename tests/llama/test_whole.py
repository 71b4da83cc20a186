"""A forward as one operation: when it is used, and how it is left. The operations play it here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest

from tests.llama.tiny import checkpoint, ids, load, read
from tf_llama import model as model_module
from tf_llama.config import LlamaConfig
from tf_llama.model import LlamaModel
from tf_llama.rows.cache import Layout
from tf_llama.rows.cuda.trial import what_differs
from tf_llama.rows.cuda.turns import Turns
from tf_llama.rows.forward import Rows
from tf_llama.rows.span import Span
from tf_plugins.types import Device, Window

CPU = Device("cpu", "cpu", "cpu", dtype="bfloat16", compiled=False)


class Played:
    """As ``Whole``. Counts its calls; may be off, or fail."""

    most = 16

    def __init__(self, rows: Rows, by: float = 1.0) -> None:
        self._rows, self._by = Rows(rows.weights, rows.form, compiled=False), by
        self.calls: list[int] = []
        self.lost = False

    def __call__(self, tokens: mx.array | Sequence[int], spans: Sequence[Span]) -> mx.array:
        self.calls.append(len(tokens))
        return self._rows.decode(tokens, spans, 1) * self._by


class Failing(Played):
    def __call__(self, tokens: mx.array | Sequence[int], spans: Sequence[Span]) -> mx.array:
        raise RuntimeError("no context")


def played(folder: Path, widths: tuple[int, ...] = tuple(range(1, 17))) -> tuple[LlamaModel, Played]:
    model = load(checkpoint(folder, mx.bfloat16), CPU)
    model.use(model.plan.with_band(widths, 1))
    whole = Played(model.rows)
    model.rows.whole = whole
    return model, whole


def test_windows_go_through_it_and_prompts_do_not(tmp_path: Path) -> None:
    model, whole = played(tmp_path)
    prompt = ids(40)
    cache, other = read(model, prompt), read(model, prompt)
    assert whole.calls == []
    mx.eval(model.verify([Window(cache, prompt[-1:]), Window(other, [3, 4, 5])]))
    mx.eval(model.verify([Window(cache, mx.array(prompt[-1:]))]))
    assert whole.calls == [4, 1]


def test_padded_and_wide_forwards_go_by_operations(tmp_path: Path) -> None:
    model, whole = played(tmp_path, widths=(4, 5, 6))
    prompt = ids(40)
    cache = read(model, prompt)
    mx.eval(model.verify([Window(cache, [1])]))  # padded to four
    assert whole.calls == []
    mx.eval(model.verify([Window(cache, [1, 2, 3, 4])]))
    assert whole.calls == [4]
    mx.eval(model.verify([Window(cache, mx.array([1]))]))
    cache.hold(cache.capacity)
    span = Span(cache, 1, cache.capacity)
    mx.eval(model.rows.decode([1], [span], 32))  # so many queries a call are MLX's
    mx.eval(model.rows.decode([1] * 17, [Span(cache, 17, cache.capacity)], 1))
    mx.eval(model.rows.decode([1], [span], 1, watch=lambda *given: None))  # what is inside is asked for
    assert whole.calls == [4]
    mx.eval(model.rows.decode([1], [span], 1))
    assert whole.calls == [4, 1]


def test_a_write_past_a_cache_is_refused_before_it_runs(tmp_path: Path) -> None:
    model, whole = played(tmp_path)
    cache = read(model, ids(40))
    span = Span(cache, 8, cache.capacity)
    cache.length = cache.capacity - 7
    with pytest.raises(IndexError, match="do not fit a cache"):
        model.rows.decode([0] * 8, [span], 1)
    assert whole.calls == []


def test_one_that_failed_is_left_when_the_next_request_begins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, whole = played(tmp_path)
    model.make_cache(64)
    assert model.rows.whole is whole
    whole.lost = True
    cache = model.make_cache(64)
    assert model.rows.whole is None
    assert "forwards go operation by operation now" in caplog.text
    mx.eval(model.verify([Window(cache, [1])]))
    assert whole.calls == []


def test_a_prompt_notices_that_it_failed(tmp_path: Path) -> None:
    model, whole = played(tmp_path)
    cache = model.make_cache(64)
    whole.lost = True
    model.prefill(cache, ids(20))
    assert model.rows.whole is None


def test_one_that_cannot_be_sent_fails_one_round(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, _ = played(tmp_path)
    cache = read(model, ids(40))

    model.rows.whole = Failing(model.rows)
    with pytest.raises(RuntimeError, match="no context"):
        model.verify([Window(cache, [1])])
    assert "could not be sent" in caplog.text
    mx.eval(model.verify([Window(cache, [1])]))


def test_a_trial_compares_its_bits_with_the_operations(tmp_path: Path) -> None:
    model, whole = played(tmp_path)
    model.rows.whole = None
    model.rows.form.mask = _blind(model)  # type: ignore[method-assign]
    assert what_differs(model.rows, whole, model.layout) == ""
    assert whole.calls == [1, 8, 16]
    assert what_differs(model.rows, Played(model.rows, 1.05), model.layout) == "logits of 1 rows of 1 streams differ"


def test_a_trial_compares_what_is_written(tmp_path: Path) -> None:
    model, _ = played(tmp_path)
    model.rows.whole = None
    model.rows.form.mask = _blind(model)  # type: ignore[method-assign]

    class Stray(Played):
        def __call__(self, tokens: mx.array | Sequence[int], spans: Sequence[Span]) -> mx.array:
            logits = super().__call__(tokens, spans)
            spans[0].cache.layers[-1][0, 3] = 1.0
            return logits

    assert what_differs(model.rows, Stray(model.rows), model.layout) == "what 1 rows of 1 streams wrote differs"


def _blind(model: LlamaModel):  # type: ignore[no-untyped-def]
    """The CPU's form takes no leaves: their places do not matter to it, and here it need not be right."""
    stock = model.rows.form.mask
    return lambda positions, keys, tile, leaves=(): stock(positions, keys, tile)


def test_a_model_of_a_device_that_has_one_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(tmp_path, mx.bfloat16)
    made: list[Played] = []

    def whole(config: LlamaConfig, rows: Rows, layout: Layout) -> Played:
        made.append(Played(rows))
        return made[-1]

    monkeypatch.setattr(model_module, "whole", whole)
    assert load(folder, CPU).rows.whole is made[0]


def test_angles_are_those_of_their_positions_however_far_they_were_asked_for() -> None:
    rope = nn.RoPE(64)
    turns = Turns(rope, 64)
    near = turns.up_to(5)
    assert near.shape == (4_096, 64)
    assert turns.up_to(4_095) is near
    far = turns.up_to(4_096)
    assert far.shape == (8_192, 64)
    assert mx.array_equal(far[:4_096], near)
    unit = mx.concatenate([mx.ones((2, 32)), mx.zeros((2, 32))], axis=1).reshape(2, 1, 1, 64)
    for position in (0, 4_095, 4_096, 8_191):
        wanted = rope(unit, offset=mx.array([position, position])).reshape(2, 64)
        assert mx.array_equal(far[position], wanted[0]), position


def test_addresses_are_forgotten_where_mlx_writes(tmp_path: Path) -> None:
    model, _ = played(tmp_path)
    model.rows.whole = None
    prompt = ids(40)
    cache = read(model, prompt)

    def known() -> bool:
        there, cache.addresses = cache.addresses is not None, mx.zeros(3)
        return there

    known()
    assert known()
    mx.eval(model.verify([Window(cache, [1])]))
    assert not known()
    model.prefill(cache, prompt[:5])
    assert not known()
    fresh = model.make_cache(64)
    fresh.addresses = mx.zeros(3)
    model.restore(fresh, model.save(cache, 8))
    assert fresh.addresses is None

"""What a start has to give, and the refusals that name what would fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from tests.budget.fakes import FakeDrafter, FakeStates, Recorder
from tf_llama.budget.plugin import LlamaBudgetPlugin
from tf_llama.budget.sizes import gib, most_tokens
from tf_llama.budget.sizing import BudgetSettings, size
from tf_plugins import Refused
from tf_plugins.types import Resources

GIB = 1 << 30
EXACT = BudgetSettings(reserve_gib=0)


def resources(
    bytes_for: Callable[[int], int] = lambda tokens: tokens * (1 << 20), context: int = 8_192, **more: Any
) -> Resources:
    recorder = Recorder()
    return Resources(
        **{
            "memory": 64 * GIB,
            "weights": 8 * GIB,
            "limit": None,
            "states_limit": None,
            "context": context,
            "parallel": None,
            "stream_bytes": bytes_for(context),
            "bytes_for": bytes_for,
            "shedding": {"drafter": FakeDrafter(recorder)},
            "states": FakeStates(recorder),
            **more,
        }
    )


def test_the_default_is_seventy_percent_less_weights_less_the_reserve() -> None:
    found = size(resources(), BudgetSettings())
    assert found.total == int(0.7 * 64 * GIB)
    assert found.reserve == found.total // 16
    assert found.budget == found.total - 8 * GIB - found.reserve
    assert found.parallel == found.budget // (8 * GIB) == 4


@pytest.mark.parametrize(("total_gib", "reserve_gib"), [(2, 0.5), (8, 0.5), (32, 2), (64, 4), (512, 4)])
def test_the_reserve_is_a_sixteenth_within_bounds(total_gib: int, reserve_gib: float) -> None:
    found = size(resources(lambda tokens: tokens, limit=total_gib * GIB, weights=0), BudgetSettings())
    assert found.reserve == reserve_gib * GIB


def test_memory_gib_counts_weights_and_reserve() -> None:
    found = size(resources(limit=20 * GIB), BudgetSettings(reserve_gib=2))
    assert (found.total, found.weights, found.reserve, found.budget) == (20 * GIB, 8 * GIB, 2 * GIB, 10 * GIB)
    assert found.parallel == 1
    assert str(found) == ("memory 20.0 GiB: weights 8.0 GiB, reserve 2.0 GiB, 10.0 GiB for caches and kept prompts")


def test_parallel_is_what_was_asked_for_and_auto_has_a_top() -> None:
    assert size(resources(parallel=7, limit=17 * GIB), EXACT).parallel == 7
    assert size(resources(limit=17 * GIB), EXACT).parallel == 1
    assert size(resources(lambda tokens: tokens), EXACT).parallel == 64
    assert size(resources(lambda tokens: tokens), BudgetSettings(most_streams=5)).parallel == 5


def test_the_start_passes_with_two_streams_that_fit_in_turn_only() -> None:
    """100 GiB for caches, 272 KiB a token, context 262,144, two streams."""
    found = size(resources(lambda n: n * (272 << 10), context=262_144, limit=108 * GIB, parallel=2), EXACT)
    assert (found.budget, found.parallel) == (100 * GIB, 2)


def test_a_context_that_does_not_fit_is_refused_with_the_one_that_would() -> None:
    with pytest.raises(Refused) as caught:
        size(resources(context=16_384, limit=20 * GIB), EXACT)
    refusal = caught.value.refusal
    assert refusal.param == "--context"
    assert "--context 16384 takes 16.0 GiB" in refusal.reason
    assert "leaves 12.0 GiB beside 8.0 GiB of weights" in refusal.reason
    assert refusal.hint == "--context 12288 fits, or --memory-gib 24 would do"
    # Both ways out are true.
    assert size(resources(context=12_288, limit=20 * GIB), EXACT).parallel == 1
    assert size(resources(context=16_384, limit=24 * GIB), EXACT).parallel == 1
    with pytest.raises(Refused):
        size(resources(context=12_289, limit=20 * GIB), EXACT)


@pytest.mark.parametrize("weights_gib", [0.3, 3, 9, 70, 200])
@pytest.mark.parametrize("context", [512, 100_000])
def test_the_memory_that_is_named_is_enough_and_a_little_less_is_not(weights_gib: float, context: int) -> None:
    asked = resources(weights=int(weights_gib * GIB), context=context, limit=GIB // 4, memory=512 * GIB)
    with pytest.raises(Refused) as caught:
        size(asked, BudgetSettings())
    refusal = caught.value.refusal
    assert refusal.hint.startswith("no context fits; ")
    assert refusal.param == "--memory-gib"
    named = float(refusal.hint.split("--memory-gib ")[1].split()[0])
    fits = resources(weights=int(weights_gib * GIB), context=context, limit=int(named * GIB))
    assert size(fits, BudgetSettings()).parallel >= 1
    less = resources(weights=int(weights_gib * GIB), context=context, limit=int((named - 0.2) * GIB))
    with pytest.raises(Refused):
        size(less, BudgetSettings())


def way_out(**asked: Any) -> str:
    with pytest.raises(Refused) as caught:
        size(resources(**asked), BudgetSettings())
    return caught.value.refusal.hint


def test_no_more_memory_is_named_than_the_device_has() -> None:
    nothing = (
        "no --memory-gib makes it fit in the device's 16.0 GiB: serve a smaller checkpoint, "
        "or this one on a machine with more memory"
    )
    assert way_out(memory=16 * GIB, weights=15 * GIB + (GIB // 2)) == nothing
    assert way_out(memory=16 * GIB, weights=20 * GIB) == nothing
    assert way_out(memory=16 * GIB, weights=20 * GIB, limit=18 * GIB) == nothing


def test_a_shorter_context_is_named_with_the_memory_that_it_takes() -> None:
    whole = "--context 8192 takes 19.2 GiB in all, and the device has 16.0 GiB"
    assert way_out(memory=16 * GIB, weights=10 * GIB) == (
        f"--context 512 fits, or --memory-gib 16 with --context 5120 would do; {whole}"
    )
    assert way_out(memory=16 * GIB, weights=10 * GIB, limit=10 * GIB) == (
        f"--memory-gib 16 with --context 5120 would do; {whole}"
    )
    assert way_out(memory=16 * GIB, weights=10 * GIB, limit=16 * GIB) == f"--context 5120 fits; {whole}"
    # What was named is so.
    assert size(resources(memory=16 * GIB, weights=10 * GIB, context=512), BudgetSettings()).parallel == 1
    fits = resources(memory=16 * GIB, weights=10 * GIB, context=5_120, limit=16 * GIB)
    assert size(fits, BudgetSettings()).parallel == 1


def test_the_refusal_names_the_default_share_where_no_limit_was_given() -> None:
    with pytest.raises(Refused, match=r"44\.8 GiB \(70% of the device's memory\)"):
        size(resources(context=65_536), EXACT)


def test_steps_of_the_cache_ladder_are_followed() -> None:
    def stepped(tokens: int) -> int:
        return -(-tokens // 512) * 512

    assert most_tokens(stepped, 1_500, 8_192) == 1_024
    assert most_tokens(stepped, 511, 8_192) == 0
    assert most_tokens(stepped, 1 << 40, 8_192) == 8_192


def test_sizes_for_people() -> None:
    assert [gib(size) for size in (int(9.5 * GIB), GIB, 3 << 20, 0)] == ["9.5 GiB", "1.0 GiB", "3.0 MiB", "nothing"]


def test_settings_reject_what_they_do_not_know() -> None:
    with pytest.raises(ValidationError, match="reserve"):
        BudgetSettings.model_validate({"reserve": 1})
    with pytest.raises(ValidationError):
        BudgetSettings(share=1.5)


def test_the_plugin_sets_mlx_own_limit_and_answers_with_the_admission() -> None:
    import mlx.core as mx

    before = mx.set_memory_limit(1 << 40)
    try:
        admits = LlamaBudgetPlugin(BudgetSettings(reserve_gib=1)).admission(
            resources(limit=20 * GIB, states_limit=GIB, parallel=3)
        )
        assert mx.set_memory_limit(1 << 40) == 20 * GIB
        assert (admits.budget, admits.parallel) == (11 * GIB, 3)
        assert set(admits.used()) == {"streams", "drafter caches", "kept drafter caches", "prompt states"}
    finally:
        mx.set_memory_limit(before)


def test_the_plugin_has_defaults_without_a_settings_table() -> None:
    import mlx.core as mx

    before = mx.set_memory_limit(1 << 40)
    try:
        admits = LlamaBudgetPlugin(None).admission(resources(memory=100 * GIB))
        assert admits.budget == int(0.7 * 100 * GIB) - 8 * GIB - 4 * GIB
    finally:
        mx.set_memory_limit(before)


def test_nothing_of_the_budget_imports_mlx_before_the_host_does() -> None:
    import subprocess
    import sys

    code = "import sys, tf_llama.budget.plugin; sys.exit('mlx.core' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("limit", "told"), [(None, False), (64, False), (65, True)])
def test_more_than_the_device_has_is_taken_with_a_warning(
    limit: int | None, told: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlx.core as mx

    monkeypatch.setattr(mx, "set_memory_limit", lambda nbytes: None)
    LlamaBudgetPlugin(None).admission(resources(limit=None if limit is None else limit * GIB))
    assert ("--memory-gib is past the 64.0 GiB that the device has" in caplog.text) == told

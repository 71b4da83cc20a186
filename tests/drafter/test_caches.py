"""Caches of streams: opened, closed, kept, taken over, grown, shed, and every byte of them counted."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator

import mlx.core as mx
import pytest

from tests.drafter.tiny import CONTEXT, VOCAB, Reference, drafter, proposed, request
from tf_llama.drafter.kept import LEAST
from tf_llama.drafter.proposer import LlamaDrafter
from tf_plugins.types import Growth

PROMPT = [random.Random(at).randrange(VOCAB) for at in range(300)]

POSITION = 2 * 2 * 2 * 8 * 4
"""Bytes of a position: layers x (keys and values) x kv heads x head size x float32."""

TAIL = 64 * POSITION


def used(made: LlamaDrafter, stream: int, context: list[int], tokens: int, end: bool = True) -> tuple[int, ...] | None:
    """Open a stream, draft once, and close it."""
    made.open(stream, context, tokens)
    (draft,) = proposed(made, request(stream, context, 6))
    if end:
        made.close(stream)
    return draft


@pytest.fixture(autouse=True)
def _no_reuse() -> Iterator[None]:
    """MLX hands a freed buffer out again for a smaller array and counts all of it: not while bytes are counted."""
    before = mx.set_cache_limit(0)
    yield
    mx.set_cache_limit(before)


def active() -> int:
    mx.clear_cache()
    return mx.get_active_memory()


@pytest.mark.parametrize("tokens", [1, 64, 65, 500])
def test_a_fresh_cache_takes_what_growth_said(tokens: int) -> None:
    made = drafter()
    growth = made.growth(PROMPT[:10], tokens)
    assert growth == Growth(new=-(-tokens // 64) * 64 * POSITION + TAIL)
    assert made.growth([], tokens) == growth
    before = active()
    made.open(1, PROMPT[:10], tokens)
    assert active() - before == growth.new
    made.close(1)  # nothing was read: nothing to keep
    assert active() == before
    assert made.kept() == 0


def test_nothing_is_allocated_after_open() -> None:
    made = drafter()
    context = PROMPT[:20]
    made.open(1, context, CONTEXT)
    before = active()
    while len(context) < CONTEXT - 20:
        (draft,) = proposed(made, request(1, context, 8))
        assert draft is not None
        context = [*context, *draft[:3], 5]
        del draft
        assert active() == before


def test_the_tail_goes_into_the_cache_without_a_copy_of_it() -> None:
    made = drafter(context=65_536)
    context = PROMPT[:200]
    made.open(1, context, 60_000)
    slot = made._slots[1]
    proposed(made, request(1, context, 15))
    layer = slot.cache[0].nbytes
    for _ in range(8):
        context = [*context, *PROMPT[:7]]
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        proposed(made, request(1, context, 15))
        assert mx.get_peak_memory() - before < layer // 2
    assert len(slot.tokens) > 200  # it was flushed in between


def test_a_kept_cache_serves_the_next_prompt_that_begins_like_its_stream() -> None:
    made, reference = drafter(), Reference()
    first = PROMPT[:100]
    draft = used(made, 1, first, 300)
    kept = made.kept()
    assert kept == made.growth([], 300).new

    second = [*first, *(draft or ())[:3], 9, 8, 7]  # the prompt, a part of the reply, and a new turn
    assert made.growth(second, 300) == Growth(reused=kept)
    before = active()
    made.open(2, second, 300)
    assert active() == before
    assert made.kept() == 0
    assert made.unread(2, len(second)) == 3  # the shared prefix is there, drafts that stood included
    assert proposed(made, request(2, second, 6)) == [reference.draft(second, 6)]


@pytest.mark.parametrize("shared", [LEAST - 1, LEAST, 63, 64, 65, 99, 100])
def test_a_prompt_that_departs_from_the_kept_one_is_read_from_there(shared: int) -> None:
    made, reference = drafter(), Reference()
    used(made, 1, PROMPT[:100], 300)
    second = [*PROMPT[:shared], (PROMPT[shared] + 1) % VOCAB, *PROMPT[200:230]]
    made.open(2, second, 300)
    assert made.unread(2, len(second)) == len(second) - (shared if shared >= LEAST else 0)
    assert proposed(made, request(2, second, 6)) == [reference.draft(second, 6)]
    assert (made.kept() > 0) == (shared < LEAST)


def test_the_same_prompt_again_leaves_its_last_token_to_read() -> None:
    made, reference = drafter(), Reference()
    first = used(made, 1, PROMPT[:100], 300)
    made.open(2, PROMPT[:100], 300)
    assert made.unread(2, 100) == 1
    assert proposed(made, request(2, PROMPT[:100], 6)) == [first] == [reference.draft(PROMPT[:100], 6)]


def test_the_longest_common_prefix_wins() -> None:
    made = drafter()
    made.open(1, PROMPT[:40], 300)
    made.open(2, [*PROMPT[:80], 3], 300)
    made.open(3, PROMPT[:20], 300)
    for stream, context in ((1, PROMPT[:40]), (2, [*PROMPT[:80], 3]), (3, PROMPT[:20])):
        proposed(made, request(stream, context, 1))
    for stream in (1, 2, 3):
        made.close(stream)
    made.open(4, PROMPT[:200], 300)
    assert made.unread(4, 200) == 200 - 80


def test_a_kept_cache_that_is_too_short_grows() -> None:
    made, reference = drafter(), Reference()
    used(made, 1, PROMPT[:100], 120)
    old, new = made.growth([], 120).new, made.growth([], 400).new
    assert made.growth(PROMPT[:150], 400) == Growth(new=new, reused=old)
    before = active()
    assert made.kept() == old
    mx.reset_peak_memory()
    made.open(2, PROMPT[:150], 400)
    assert mx.get_peak_memory() - before <= new + 64  # and a scalar or two
    assert active() == before - old + new
    assert made.kept() == 0
    assert made.unread(2, 150) == 50
    assert proposed(made, request(2, PROMPT[:150], 6)) == [reference.draft(PROMPT[:150], 6)]


def test_growth_changes_nothing() -> None:
    made = drafter()
    used(made, 1, PROMPT[:100], 120)
    before = active(), made.kept()
    for tokens in (100, 400):
        made.growth(PROMPT[:150], tokens)
        made.growth(PROMPT[100:150], tokens)
    assert (active(), made.kept()) == before
    assert made.growth(PROMPT[:150], 120) == made.growth(PROMPT[:150], 120)


def test_what_was_found_may_be_shed_before_open() -> None:
    made, reference = drafter(), Reference()
    used(made, 1, PROMPT[:100], 300)
    made.growth(PROMPT[:150], 300)
    assert made.shed(0) > 0
    fresh = made.growth(PROMPT[:150], 300)
    before = active()
    made.open(2, PROMPT[:150], 300)
    assert active() - before == fresh.new
    assert proposed(made, request(2, PROMPT[:150], 6)) == [reference.draft(PROMPT[:150], 6)]


def test_shed_frees_the_least_recently_used_first_and_the_one_found_last() -> None:
    made = drafter()
    prompts = [[*PROMPT[at : at + 30]] for at in (0, 30, 60)]
    for stream, prompt in enumerate(prompts):
        made.open(stream, prompt, 64)
        proposed(made, request(stream, prompt, 1))
    for stream in (1, 0, 2):
        made.close(stream)
    one = made.growth([], 64).new
    assert made.kept() == 3 * one
    assert made.growth([*prompts[1], 1], 64) == Growth(reused=one)
    assert made.shed(3 * one) == 0
    assert made.shed(3 * one - 1) == one
    assert made.growth([*prompts[0], 1], 64) == Growth(new=one)  # the oldest but for the one that was found
    made.growth([*prompts[1], 1], 64)
    assert made.shed(one) == one
    assert made.growth([*prompts[2], 1], 64) == Growth(new=one)
    assert made.growth([*prompts[1], 1], 64) == Growth(reused=one)
    assert made.shed(0) == one
    assert made.kept() == 0
    assert made.shed(0) == 0


def test_no_more_caches_are_kept_than_there_are_streams() -> None:
    made = drafter(parallel=2)
    for stream in range(5):
        used(made, stream, PROMPT[stream * 30 : stream * 30 + 40], 64)
    assert made.kept() == 2 * made.growth([], 64).new


def test_where_as_many_streams_run_as_fit_the_ledger_says_how_many_are_kept() -> None:
    made = drafter(parallel=None)
    for stream in range(5):
        used(made, stream, PROMPT[stream * 30 : stream * 30 + 40], 64)
    assert made.kept() == 5 * made.growth([], 64).new


def test_all_bytes_come_back() -> None:
    made = drafter()
    baseline = active()
    chance = random.Random(1)
    live: dict[int, list[int]] = {}
    for stream in range(40):
        start = chance.choice([0, 0, 100])
        context = PROMPT[start : start + chance.randrange(1, 150)]
        growth = made.growth(context, len(context) + 40)
        kept = made.kept()
        made.open(stream, context, len(context) + 40)
        assert made.kept() == kept - growth.reused
        live[stream] = context
        proposed(made, *(request(s, c, chance.randrange(1, 16)) for s, c in live.items()))
        while len(live) > chance.randrange(4):
            made.close(live.popitem()[0])
    for stream in live:
        made.close(stream)
    assert active() - baseline == made.kept()
    made.shed(0)
    assert made.kept() == 0
    assert active() == baseline


def test_closing_twice_or_never_opened_is_no_error() -> None:
    made = drafter()
    used(made, 1, PROMPT[:30], 64)
    made.close(1)
    made.close(99)
    assert made.kept() == made.growth([], 64).new


def test_a_prompt_past_its_context_takes_nothing() -> None:
    made = drafter(context=64)
    assert made.growth(PROMPT[:65], 300) == Growth()
    before = active()
    made.open(1, PROMPT[:65], 300)
    assert active() == before
    assert proposed(made, request(1, PROMPT[:65], 4)) == [None]
    # One that only may grow past it gets a cache as long as that context.
    assert made.growth(PROMPT[:30], 300) == Growth(new=64 * POSITION + TAIL)


def test_a_failed_call_keeps_nothing_of_its_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    made, reference = drafter(), Reference()
    baseline = active()
    for stream in (1, 2):
        made.open(stream, PROMPT[:50], 100)
    proposed(made, request(1, PROMPT[:50], 4), request(2, PROMPT[:50], 4))

    def broken(*_arrays: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(mx, "async_eval", broken)
        with pytest.raises(RuntimeError, match="out of memory"):
            proposed(made, request(1, PROMPT[:60], 4))
    for stream in (1, 2):
        made.close(stream)
    assert made.kept() == made.growth([], 100).new  # the other stream's
    assert used(made, 3, PROMPT[:60], 100) == reference.draft(PROMPT[:60], 6)
    made.shed(0)
    assert active() == baseline


def test_a_write_past_the_end_is_refused() -> None:
    made = drafter()
    slot = made._running.slot(64)
    slot.tokens = [1] * 60
    slot.wrote(slot.tail, [1] * 5, 5)
    with pytest.raises(ValueError, match="65 positions in a drafter cache of 64"):
        slot.flush()


def test_release_frees_everything() -> None:
    gc.collect()
    baseline = active()
    made = drafter()
    made.open(1, PROMPT[:50], 300)
    used(made, 2, PROMPT[:50], 300)
    proposed(made, request(1, PROMPT[:50], 4))
    assert active() > baseline
    made.release()
    assert active() == baseline
    assert made.kept() == 0
    made.release()
    made.close(1)

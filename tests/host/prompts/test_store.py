"""Kept states: found by their ids, and given up in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host.prompts.fakes import TOKEN_BYTES, FakeModel, cpu_plan, gpu_plan, ids, state
from tf_host.prompts import Entry, PromptStore
from tf_plugins.rows import RowPlan

MARKER = 1


def store(limit: int | None = None, plan: RowPlan | None = None) -> PromptStore:
    return PromptStore(FakeModel(), plan or cpu_plan(), limit)


def lengths(kept: PromptStore, tokens: Sequence[int]) -> list[int]:
    """Lengths of the kept states that are prefixes of ``tokens``."""
    return sorted(entry.length for entry in kept._entries.values() if _decoded(entry) == list(tokens[: entry.length]))


def _decoded(entry: Entry) -> list[int]:
    return [int.from_bytes(entry.ids[n : n + 8], "little") for n in range(0, len(entry.ids), 8)]


# Finding.


def test_the_longest_prefix_is_found() -> None:
    kept, prompt = store(), ids(400)
    for length in (64, 256, 128):
        kept.add(prompt, state(length))
    found = kept.find(prompt)
    assert found is not None
    assert (found.length, found.nbytes, found.state.length) == (256, 256 * TOKEN_BYTES, 256)


def test_nothing_is_found_for_another_prompt() -> None:
    kept = store()
    kept.add(ids(400), state(128))
    assert kept.find(ids(400, seed=1)) is None


@pytest.mark.parametrize("differs", [0, 63, 127])
def test_a_prefix_that_differs_in_one_id_is_not_found(differs: int) -> None:
    kept, prompt = store(), ids(400)
    kept.add(prompt, state(128))
    prompt[differs] += 1
    assert kept.find(prompt) is None


@pytest.mark.parametrize("shift", [256, 65_536, 1 << 32])
def test_ids_equal_modulo_a_byte_are_other_ids(shift: int) -> None:
    kept, prompt = store(), ids(400)
    kept.add(prompt, state(128))
    assert kept.find([token + shift for token in prompt]) is None
    one = list(prompt)
    one[77] += shift
    assert kept.find(one) is None


def test_prompts_of_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lookup ends in a comparison of all ids, whatever a dictionary's hash says."""
    kept = store()

    class Colliding(bytes):
        def __hash__(self) -> int:
            return 1

    from tf_host.prompts import store as module

    real = module._encode
    monkeypatch.setattr(module, "_encode", lambda tokens: Colliding(real(tokens)))
    monkeypatch.setattr(Colliding, "__getitem__", lambda self, part: Colliding(bytes.__getitem__(self, part)))
    one, two = ids(200), ids(200, seed=1)
    kept.add(one, state(128, 1))
    kept.add(two, state(128, 2))
    found = kept.find(one), kept.find(two), kept.find(ids(200, seed=2))
    assert [entry and entry.nbytes for entry in found] == [1, 2, None]


def test_200_mixed_prompts_with_secrets_never_meet() -> None:
    """Prompts that are equal modulo 256, each with a secret of its own, in shuffled order."""
    kept = store()
    base = [token % 256 for token in ids(300)]
    prompts = [
        [token + 256 * ((number + position) % 180) for position, token in enumerate(base)] for number in range(200)
    ]
    for number, prompt in enumerate(prompts):
        kept.add(prompt, state(192, number + 1))
    # 200 numbers over 180 shifts: the last 20 repeat the first 20, whose states stay as they were.
    for number, prompt in enumerate(prompts):
        found = kept.find(prompt)
        assert found is not None
        assert found.nbytes == number % 180 + 1
        assert _decoded(found) == prompt[:192]


def test_the_last_token_is_left_to_read() -> None:
    kept, prompt = store(), ids(400)
    kept.add(prompt, state(128))
    assert kept.find(prompt[:128]) is None
    found = kept.find(prompt[:129])
    assert found is not None
    assert found.length == 128


def test_a_state_must_end_where_a_chunk_of_the_new_prompt_starts() -> None:
    """A marker starts a chunk at 300; without it there, a chunk runs over 300 and the state would be another's."""
    plan = gpu_plan(markers=frozenset({MARKER}))
    prompt = ids(400)
    prompt[300] = MARKER
    kept = store(plan=plan)
    assert 300 in set(plan.chunk_starts(prompt))
    kept.add(prompt, state(300))
    assert kept.find(prompt) is not None
    other = list(prompt)
    other[300] = 2
    assert kept.find(other) is None


def test_a_shorter_state_is_taken_where_the_longest_ends_inside_a_chunk() -> None:
    plan = gpu_plan(markers=frozenset({MARKER}))
    prompt = ids(900)
    prompt[300] = prompt[700] = MARKER
    kept = store(plan=plan)
    kept.add(prompt, state(300))
    kept.add(prompt, state(700))
    other = list(prompt)
    other[700] = 2
    found = kept.find(other)
    assert found is not None
    assert found.length == 300


@settings(max_examples=300, deadline=None)
@given(
    prompts=st.lists(st.lists(st.sampled_from([0, 1, 256, 257]), min_size=1, max_size=14), min_size=1, max_size=8),
    asked=st.lists(st.sampled_from([0, 1, 256, 257]), min_size=1, max_size=14),
)
def test_finding_agrees_with_looking_at_everything(prompts: list[list[int]], asked: list[int]) -> None:
    plan = replace(gpu_plan(markers=frozenset({1})), grid=4, gap=2)
    kept = PromptStore(FakeModel(), plan)
    states = []
    for prompt in prompts:
        for start in plan.chunk_starts(prompt):
            if start:
                kept.add(prompt, state(start))
                states.append(tuple(prompt[:start]))
    starts = set(plan.chunk_starts(asked))
    expected = max(
        (len(one) for one in states if len(one) in starts and len(one) < len(asked) and list(one) == asked[: len(one)]),
        default=0,
    )
    found = kept.find(asked)
    assert (found.length if found else 0) == expected
    assert kept.nbytes() == sum(len(one) * TOKEN_BYTES for one in set(states))


# Keeping.


def test_an_empty_store_is_still_a_store() -> None:
    """``states or NoStates()`` must not take it for none."""
    assert store()


def test_saves_are_past_the_start_the_most_wanted_first() -> None:
    kept, prompt = store(), ids(1_000)
    assert kept.plan_saves(prompt, (130, 700, 996), 0) == (960, 640, 128)
    assert kept.plan_saves(prompt, (130, 700, 996), 128) == (960, 640)
    assert kept.plan_saves(prompt, (130, 700, 996), 960) == ()
    assert kept.plan_saves([7], (), 0) == ()


def test_a_limit_of_zero_keeps_nothing() -> None:
    kept, prompt = store(limit=0), ids(1_000)
    assert kept.plan_saves(prompt, (130, 700), 0) == ()
    kept.add(prompt, state(128))
    assert (kept.count(), kept.nbytes(), kept.find(prompt)) == (0, 0, None)


def test_a_state_kept_twice_counts_once() -> None:
    kept, prompt = store(), ids(400)
    first = state(128)
    kept.add(prompt, first)
    kept.add(prompt[:128], state(128))
    found = kept.find(prompt)
    assert found is not None
    assert found.state is first
    assert kept.nbytes() == first.nbytes


def test_a_state_without_all_its_ids_is_an_error() -> None:
    with pytest.raises(ValueError, match="128 tokens was given 100 ids"):
        store().add(ids(100), state(128))


def test_the_least_recently_used_goes_first() -> None:
    kept = store(limit=300)
    prompts = [ids(200, seed) for seed in range(4)]
    for prompt in prompts[:3]:
        kept.add(prompt, state(64, 100))
    assert kept.find(prompts[0]) is not None
    kept.add(prompts[3], state(64, 100))
    assert [kept.find(prompt) is not None for prompt in prompts] == [True, False, True, True]
    assert kept.nbytes() == 300


@pytest.mark.parametrize(("limit", "wanted"), [(None, 960), (9_600, 960), (9_599, 896), (700, 64), (639, None)])
def test_of_a_prompt_past_the_limit_its_longest_start_that_fits_is_wanted(
    limit: int | None, wanted: int | None
) -> None:
    kept, prompt = store(limit), tuple(ids(1_000))
    assert kept.plan_saves(prompt, (), 0) == (() if wanted is None else (wanted,))
    if wanted is not None:
        kept.add(prompt, state(wanted))
        found = kept.find(prompt)
        assert found is not None
        assert found.length == wanted


def test_a_state_larger_than_the_limit_pushes_nothing_out() -> None:
    kept = store(limit=300)
    kept.add(ids(200), state(64, 100))
    kept.add(ids(200, seed=1), state(64, 301))
    assert kept.nbytes() == 100
    assert kept.find(ids(200)) is not None


def chat(turns: int) -> tuple[list[int], tuple[int, ...]]:
    """A system prefix of 512, then turns of 300 and replies of 300; the prompt ends with the mark of a reply."""
    messages = range(512, 512 + 600 * turns, 300)
    return ids(512 + 600 * turns - 300 + 3), tuple(messages)


def play(kept: PromptStore, turn: int) -> tuple[int, set[int]]:
    """Read a turn's prompt; returns where it started and what was kept."""
    prompt, boundaries = chat(turn)
    found = kept.find(prompt)
    start = found.length if found else 0
    saves = kept.plan_saves(prompt, boundaries, start)
    for length in sorted(saves):
        kept.add(prompt, state(length))
    return start, set(saves)


def test_a_chat_resumes_and_its_older_states_are_superseded() -> None:
    kept = store()
    assert play(kept, 1) == (0, {512, 768})
    # The second turn's message begins at 1,112 and its reply at 1,412.
    assert play(kept, 2) == (768, {1_088, 1_408})
    assert play(kept, 3) == (1_408, {1_664, 1_984})
    flags = {entry.length: entry.superseded for entry in kept._entries.values()}
    assert flags == {512: False, 768: True, 1_088: True, 1_408: True, 1_664: False, 1_984: False}


def test_superseded_states_go_before_older_ones() -> None:
    kept = store()
    other = ids(700, seed=3)
    kept.add(other, state(640))
    for turn in (1, 2, 3):
        play(kept, turn)
    prompt, _ = chat(3)
    for left in ([512, 1_088, 1_408], [512, 1_408], [512]):
        kept.trim(kept.nbytes() - 1, None)
        assert lengths(kept, prompt) == [*left, 1_664, 1_984]
    assert kept.find(other) is not None, "older, but not superseded"


def test_a_shared_system_prefix_outlives_the_chats_over_it() -> None:
    kept = store()
    for turn in range(1, 6):
        play(kept, turn)
    kept.trim(kept.nbytes() - 1, None)
    found = kept.find(chat(1)[0][:512] + ids(300, seed=9))
    assert found is not None
    assert found.length == 512


def test_an_edited_last_message_resumes_before_it() -> None:
    kept = store()
    for turn in (1, 2, 3):
        play(kept, turn)
    prompt, boundaries = chat(3)
    begins = boundaries[-2]
    found = kept.find(prompt[:begins] + ids(80, seed=5))
    assert found is not None
    assert found.length == begins // 64 * 64


def test_superseded_neighbours_nearer_than_the_gap_are_dropped_at_once() -> None:
    kept = store()
    for length in (300, 400, 500):
        prompt = ids(length)
        kept.plan_saves(prompt, (), 0)
        kept.add(prompt, state((length - 1) // 64 * 64))
    assert lengths(kept, ids(500)) == [448]


# Giving way.


def test_the_protected_entry_is_never_trimmed() -> None:
    kept = store()
    prompts = [ids(200, seed) for seed in range(3)]
    for prompt in prompts:
        kept.add(prompt, state(64, 100))
    protect = kept.find(prompts[0])
    assert kept.find(prompts[1]) is not None
    assert kept.find(prompts[2]) is not None
    assert kept.trim(150, protect) == 200
    assert [kept.find(prompt) is not None for prompt in prompts] == [True, False, False]
    assert kept.trim(0, protect) == 0
    assert kept.nbytes() == 100
    assert kept.trim(0, None) == 100


def test_a_dropped_entry_frees_its_bytes_once() -> None:
    kept, prompt = store(), ids(200)
    kept.add(prompt, state(64, 100))
    entry = kept.find(prompt)
    assert kept.drop(entry) == 100
    assert kept.drop(entry) == 0
    assert kept.drop(None) == 0
    assert (kept.nbytes(), kept.count(), kept.find(prompt)) == (0, 0, None)


def test_an_old_entry_is_not_taken_for_a_new_one_of_the_same_ids() -> None:
    kept, prompt = store(), ids(200)
    kept.add(prompt, state(64, 100))
    old = kept.find(prompt)
    kept.drop(old)
    kept.add(prompt, state(64, 50))
    assert kept.drop(old) == 0
    assert kept.nbytes() == 50

"""One stream's draws: the same row by row and in windows, along each row's own path."""

from __future__ import annotations

import random
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from tests.host.sampling import reference
from tf_host.requests import Sampling
from tf_host.sampling import Drawer, NotNumbers, Sampler, WindowDraws
from tf_plugins.types import Leaf

VOCAB, PADDED = 300, 320

KINDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "greedy, penalties": {"repetition": 1.3, "frequency": 0.2},
    "temperature": {"temperature": 0.8},
    "top-k": {"temperature": 0.8, "top_k": 20},
    "top-p": {"temperature": 0.8, "top_p": 0.9},
    "min-p": {"temperature": 1.2, "min_p": 0.05},
    "bias": {"temperature": 0.8, "logit_bias": {5: 3.0, 299: -100.0, 310: 5.0}},
    "everything": {
        "temperature": 0.9,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.02,
        "repetition": 1.1,
        "presence": 0.4,
        "frequency": 0.3,
        "logit_bias": {7: 2.0},
    },
}


def rows(count: int, seed: int = 0) -> mx.array:
    return mx.array(np.random.default_rng(seed).normal(size=(count, PADDED)).astype(np.float32) * 2).astype(mx.bfloat16)


def drawn(sampler: Sampler, logits: mx.array, position: int, drafts: tuple[int, ...] = ()) -> list[int]:
    draws = sampler.window(logits, position, drafts)
    mx.eval(draws.arrays())
    return [draws.token(row) for row in range(len(drafts) + 1)]


@pytest.mark.exact
@pytest.mark.parametrize("kind", KINDS)
def test_a_window_draws_what_single_rows_draw(kind: str) -> None:
    drawer, sampling = Drawer(VOCAB, PADDED), Sampling(seed=11, **KINDS[kind])
    logits, prompt = rows(40), [1, 2, 2, 9]
    plain = Sampler(drawer, sampling, prompt)
    reply: list[int] = []
    for row in range(40):
        [token] = drawn(plain, logits[row : row + 1], len(prompt) + row)
        plain.commit([token])
        reply.append(token)
    rng = random.Random(3)
    windowed = Sampler(drawer, sampling, prompt)
    done = 0
    while done < 40:
        size = min(rng.randint(1, 8), 40 - done)
        right = rng.randint(0, size - 1)
        drafts = tuple(
            reply[done : done + right] + [(token + 1) % VOCAB for token in reply[done + right : done + size]]
        )
        tokens = drawn(windowed, logits[done : done + size], len(prompt) + done, drafts[: size - 1])
        landed = tokens[: right + 1]
        assert landed == reply[done : done + len(landed)]
        windowed.commit(landed)
        done += len(landed)


@pytest.mark.parametrize("kind", ["greedy, penalties", "everything"])
def test_penalties_follow_a_rows_own_path(kind: str) -> None:
    sampling, drawer = Sampling(seed=4, **KINDS[kind]), Drawer(VOCAB, PADDED)
    logits, prompt, reply, drafts = rows(5), [3, 4, 4], [8, 8, 9], (3, 8, 20, 20)
    sampler = Sampler(drawer, sampling, prompt)
    sampler.commit(reply)
    tokens = drawn(sampler, logits, 6, drafts)
    for row in range(5):
        values = reference.processed(
            np.array(logits[row].astype(mx.float32)), sampling, VOCAB, prompt, [*reply, *drafts[:row]]
        )
        noise = np.array(drawer.noise(4, 6 + row))[:VOCAB]
        assert tokens[row] == reference.draw(values, sampling, noise).token


@pytest.mark.parametrize("kind", KINDS)
def test_a_leaf_draws_what_a_draft_in_its_place_would(kind: str) -> None:
    sampling, drawer = Sampling(seed=4, **KINDS[kind]), Drawer(VOCAB, PADDED)
    logits, prompt, drafts = rows(7), [3, 4, 4], (3, 8, 20)
    leaves = (Leaf(0, 4), Leaf(2, 3), Leaf(2, 9))
    draws = Sampler(drawer, sampling, prompt).window(logits, 3, drafts, None, leaves)
    mx.eval(draws.arrays())
    for at, leaf in enumerate(leaves, 4):
        path = (*drafts[: leaf.place], leaf.token)
        rows_of_path = mx.concatenate([logits[: len(path)], logits[at : at + 1]])
        assert draws.token(at) == drawn(Sampler(drawer, sampling, prompt), rows_of_path, 3, path)[-1]


def test_a_leaf_counts_for_the_row_behind_it() -> None:
    logits = mx.zeros((3, 8))
    logits[2, 5], logits[2, 6] = 1.0, 0.5
    draws = Sampler(Drawer(8, 8), Sampling(seed=0, frequency=1.0), [1]).window(logits, 1, [4], None, [Leaf(0, 5)])
    assert draws.token(2) == 6


def test_rejected_drafts_are_not_counted() -> None:
    sampling = Sampling(seed=0, frequency=100.0)
    flat = mx.zeros((4, PADDED))
    flat[:, 5] = 1.0
    sampler = Sampler(Drawer(VOCAB, PADDED), sampling, [5])
    # Drafted 5, 5, 5: the first row draws 5; along the drafts it is then out of the question.
    assert drawn(sampler, flat, 1, (5, 5, 5)) == [5, 0, 0, 0]
    assert drawn(sampler, flat[:1], 1) == [5]  # nothing was committed
    sampler.commit([5])
    assert drawn(sampler, flat[:1], 2) == [0]


def test_presence_and_frequency_leave_the_prompt_out_and_repetition_does_not() -> None:
    logits = mx.zeros((1, PADDED))
    logits[0, 5], logits[0, 6] = 2.0, 1.5
    for penalty in ({"presence": 9.0}, {"frequency": 9.0}):
        assert drawn(Sampler(Drawer(VOCAB, PADDED), Sampling(seed=0, **penalty), [5]), logits, 1) == [5]
    assert drawn(Sampler(Drawer(VOCAB, PADDED), Sampling(seed=0, repetition=2.0), [5]), logits, 1) == [6]


def test_ids_past_the_tokenizer_in_a_prompt_are_not_counted() -> None:
    sampler = Sampler(Drawer(VOCAB, PADDED), Sampling(seed=0, repetition=2.0), [VOCAB + 3, 5])
    logits = mx.zeros((1, PADDED))
    logits[0, 5], logits[0, 6] = 2.0, 1.5
    assert drawn(sampler, logits, 2) == [6]


def test_masks_belong_to_rows() -> None:
    logits = rows(3)
    masks = [None, mx.arange(VOCAB) == 7, mx.arange(VOCAB) == 9]
    draws = Sampler(Drawer(VOCAB, PADDED), Sampling(seed=0), []).window(logits, 0, (1, 2), masks)
    free = Sampler(Drawer(VOCAB, PADDED), Sampling(seed=0), []).window(logits, 0, (1, 2))
    assert [draws.token(row) for row in range(3)] == [free.token(0), 7, 9]


@pytest.mark.parametrize("kind", KINDS)
def test_logprobs_are_of_the_unfiltered_distribution_and_change_no_draw(kind: str) -> None:
    drawer, sampling, logits = Drawer(VOCAB, PADDED), Sampling(seed=2, **KINDS[kind]), rows(6)
    without = Sampler(drawer, sampling, [1]).window(logits, 1, (2, 3, 4, 5, 6))
    draws = Sampler(drawer, sampling, [1], logprobs=4).window(logits, 1, (2, 3, 4, 5, 6))
    mx.eval(draws.arrays())
    for row in range(6):
        token = draws.token(row)
        assert token == without.token(row)
        exact = np.array(logits[row].astype(mx.float32)).astype(np.float64)
        expected = exact - np.log(np.sum(np.exp(exact)))
        info = draws.info(row, token, "target")
        assert info.logprob == pytest.approx(expected[token], abs=1e-5)
        best = sorted(range(VOCAB), key=lambda t: (-exact[t], t))[:4]
        assert [token for token, _ in info.top] == best
        assert [value for _, value in info.top] == pytest.approx([expected[t] for t in best], abs=1e-5)


def test_logprobs_of_0_alternatives_are_the_tokens_own() -> None:
    draws = Sampler(Drawer(VOCAB, PADDED), Sampling(seed=0), [], logprobs=0).window(rows(1), 0)
    info = draws.info(0, draws.token(0), "target")
    assert info.logprob is not None
    assert info.top == ()
    plain = Sampler(Drawer(VOCAB, PADDED), Sampling(seed=0), []).window(rows(1), 0)
    assert plain.info(0, plain.token(0), "target").logprob is None


@pytest.mark.exact
@pytest.mark.parametrize("kind", KINDS)
def test_bits_of_a_row_do_not_depend_on_the_rows_beside_it(kind: str) -> None:
    drawer, sampling, logits = Drawer(VOCAB, PADDED), Sampling(seed=2, **KINDS[kind]), rows(16)
    alone = Sampler(drawer, sampling, [1], logprobs=5).window(logits[9:10], 10)
    mx.eval(alone.arrays())
    beside = Sampler(drawer, sampling, [1], logprobs=5).window(logits, 1, tuple(range(15)))
    mx.eval(beside.arrays())
    if "penalties" not in kind and kind != "everything":
        assert alone.info(0, alone.token(0), "x") == beside.info(9, beside.token(9), "x")
    else:  # another path, so other draws; the logprobs are of the row alone
        token = alone.token(0)
        assert alone.info(0, token, "x") == beside.info(9, token, "x")


@pytest.mark.parametrize("some", [False, True], ids=["none is a number", "one is not"])
@pytest.mark.parametrize("padded", [PADDED, VOCAB], ids=["padded head", "whole head"])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_that_are_no_numbers_give_no_token(kind: str, padded: int, some: bool) -> None:
    logits = rows(4)[:, :padded]
    strange = (mx.arange(4)[:, None] == 2) & ((mx.arange(padded)[None] == 7) | (not some))
    broken = mx.where(strange, mx.array(mx.nan, mx.bfloat16), logits)
    sampler = Sampler(Drawer(VOCAB, padded), Sampling(seed=1, **KINDS[kind]), [1])
    sound, draws = sampler.window(logits, 1, (2, 3, 4)), sampler.window(broken, 1, (2, 3, 4))
    mx.eval(draws.arrays(), sound.arrays())
    for row in (0, 1, 3):
        assert draws.token(row) == sound.token(row)
    with pytest.raises(NotNumbers, match="not numbers"):
        draws.token(2)
    assert 0 <= sound.token(2) < VOCAB
    pending = sampler.window(broken[2:3], 1).next_token()
    assert pending is None or 0 <= pending.item() < VOCAB  # a round that is queued behind takes it for an id


def test_nan_in_the_padding_of_a_head_is_of_no_matter() -> None:
    logits = mx.where(mx.arange(PADDED) >= VOCAB, mx.array(mx.nan, mx.bfloat16), rows(1))
    sampler = Sampler(Drawer(VOCAB, PADDED), Sampling(seed=1), [1])
    assert sampler.window(logits, 1).token(0) == sampler.window(rows(1), 1).token(0)


@pytest.mark.parametrize("kinds", [("greedy", "temperature"), ("top-p", "greedy", "greedy, penalties")])
def test_draws_of_several_streams_are_read_as_one_array(kinds: tuple[str, ...]) -> None:
    def made() -> list[WindowDraws]:
        drawer, found = Drawer(VOCAB, PADDED), []
        for seed, kind in enumerate(kinds):
            logits = rows(3 + seed, seed)
            broken = mx.where(mx.arange(3 + seed)[:, None] == 1 + seed, mx.array(mx.nan, mx.bfloat16), logits)
            sampler = Sampler(drawer, Sampling(seed=seed, **KINDS[kind]), [1])
            found.append(sampler.window(broken, 1, tuple(range(2, 4 + seed))))
        return found

    alone, beside = made(), made()
    WindowDraws.together(beside)
    mx.eval([draws.arrays() for draws in (*alone, *beside)])
    assert len({id(draws.arrays()[0]) for draws in beside}) == 1
    for seed, (one, other) in enumerate(zip(alone, beside, strict=True)):
        for row in range(3 + seed):
            if row == 1 + seed:
                with pytest.raises(NotNumbers):
                    other.token(row)
            else:
                assert other.token(row) == one.token(row)

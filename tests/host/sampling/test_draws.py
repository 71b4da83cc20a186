"""Draws against the reference, over small vocabularies where ties are common."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.host.sampling import reference
from tf_host.requests import Sampling
from tf_host.sampling import Drawer, kept_noise, noise_key
from tf_host.sampling import drawer as drawer_module
from tf_host.sampling.noise import gumbel
from tf_host.sampling.penalties import Counts

LEVELS = [-4.0, -1.5, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 3.0]
"""Few values, all exact in bfloat16, so that rows tie at every edge."""

SAMPLING = st.builds(
    Sampling,
    seed=st.integers(0, 2**64 - 1),
    temperature=st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0, 1.7]),
    top_k=st.sampled_from([-1, 0, 1, 2, 3, 5, 100]),
    top_p=st.sampled_from([1.0, 0.0, 0.1, 0.5, 0.77, 0.95]),
    min_p=st.sampled_from([0.0, 0.03, 0.2, 0.6, 1.0]),
    repetition=st.sampled_from([1.0, 1.2, 2.0, 0.7]),
    presence=st.sampled_from([0.0, 0.3, -0.4]),
    frequency=st.sampled_from([0.0, 0.25, -0.1]),
    logit_bias=st.dictionaries(st.integers(0, 11), st.sampled_from([-100.0, 0.5, 5.0]), max_size=3),
)


@settings(max_examples=400, deadline=None)
@given(data=st.data(), vocab=st.integers(1, 12), padding=st.integers(0, 4), sampling=SAMPLING)
def test_a_draw_is_the_references(data: Any, vocab: int, padding: int, sampling: Sampling) -> None:
    padded = vocab + padding
    row = np.array(data.draw(st.lists(st.sampled_from(LEVELS), min_size=padded, max_size=padded)), dtype=np.float32)
    row[vocab:] = 50.0  # ids past the tokenizer are never drawn, however likely
    ids = st.integers(0, vocab - 1)
    prompt, reply = data.draw(st.lists(ids, max_size=6)), data.draw(st.lists(ids, max_size=6))
    mask = data.draw(st.none() | st.lists(st.booleans(), min_size=vocab, max_size=vocab).filter(any))
    drawer = Drawer(vocab, padded)
    values = reference.processed(row, sampling, vocab, prompt, reply, mask)
    expected = reference.draw(values, sampling, np.array(drawer.noise(sampling.seed, 17))[:vocab])
    assume(expected.margin > 1e-5)
    counts = Counts.of(sampling, prompt, vocab)
    bias = mx.array([sampling.logit_bias.get(token, 0.0) for token in range(vocab)])
    drawn = drawer.draw(
        mx.array(row).astype(mx.bfloat16),
        sampling,
        17,
        counts=None if counts is None else counts.after(reply),
        bias=bias,
        mask=None if mask is None else mx.array(mask),
    )
    mx.eval(drawn.arrays())
    assert drawn.token() == expected.token


class Silent(Drawer):
    """No noise: the draw is the best survivor, and what the filters kept is seen by shifting one id's noise."""

    favourite: int | None = None
    given: tuple[float, ...] = ()

    def noise(self, seed: int, position: int) -> mx.array:
        noise = np.array(self.given or np.zeros(self.padded_vocab), dtype=np.float32)
        if self.favourite is not None:
            noise[self.favourite] = 1e4
        return mx.array(noise)


def survivors(row: Any, sampling: Sampling, **more: Any) -> list[int]:
    """Ids that can be drawn at all."""
    drawer = Silent(len(row), len(row))
    kept = []
    for token in range(len(row)):
        drawer.favourite = token
        if drawer.draw(mx.array(np.array(row, dtype=np.float32)), sampling, 0, **more).token() == token:
            kept.append(token)
    return kept


@settings(max_examples=80, deadline=None)
@given(row=st.lists(st.sampled_from(LEVELS), min_size=2, max_size=10), sampling=SAMPLING)
def test_what_survives_is_the_references(row: list[float], sampling: Sampling) -> None:
    assume(sampling.temperature > 0)
    plain = Sampling(sampling.seed, sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
    expected = reference.draw(np.array(row, dtype=np.float32), plain, np.zeros(len(row), dtype=np.float32))
    assume(expected.margin > 1e-5)
    assert survivors(row, plain) == sorted(expected.survivors)


def at(temperature: float = 1.0, **filters: Any) -> Sampling:
    return Sampling(seed=3, temperature=temperature, **filters)


def test_ties_at_the_edge_of_top_k_go_to_the_lower_id() -> None:
    assert survivors([1.0, 2.0, 1.0, 2.0, 1.0, 1.0], at(top_k=4)) == [0, 1, 2, 3]
    assert survivors([-0.0, 0.0, -0.0, 0.0], at(top_k=2)) == [0, 1]
    assert survivors([-1.0, -1.0, -2.0, -1.0], at(top_k=2)) == [0, 1]


@pytest.mark.parametrize("k", range(1, 8))
def test_exactly_k_survive(k: int) -> None:
    assert len(survivors([2.0] * 7 + [5.0], at(top_k=k))) == k


def test_ties_of_noisy_values_go_to_the_lower_id() -> None:
    row = mx.array([1.0, 3.0, 2.0, 3.0, 3.0])
    for filters in ({}, {"top_k": 4}, {"top_p": 0.9}, {"min_p": 0.1}, {"top_k": 4, "top_p": 0.9, "min_p": 0.1}):
        assert Silent(5, 5).draw(row, at(**filters), 0).token() == 1
    # Equal sums of unequal values: 2 + 1 and 3 + 0.
    row = mx.array([2.0, 3.0, 1.0, 1.0, 1.0])
    for filters in ({}, {"top_k": 4}, {"top_p": 0.999}, {"min_p": 0.01}):
        drawer = Silent(5, 5)
        drawer.given = (1.0, 0.0, -9.0, -9.0, -9.0)
        assert drawer.draw(row, at(**filters), 0).token() == 0


def test_top_p_is_taken_of_what_top_k_left_and_at_temperature() -> None:
    row = list(np.log([0.4, 0.3, 0.2, 0.1]).astype(np.float32))
    # Of all ids 0.4 and 0.3 reach 0.69; of the best three they hold 0.78, of the best two the first holds 0.57.
    assert survivors(row, at(top_p=0.69)) == [0, 1]
    assert survivors(row, at(top_k=2, top_p=0.56)) == [0]
    assert survivors(row, at(top_k=3, top_p=0.75)) == [0, 1]
    # A low temperature sharpens before top-p, a high one flattens.
    assert survivors(row, at(temperature=0.2, top_p=0.69)) == [0]
    assert survivors(row, at(temperature=5.0, top_p=0.69)) == [0, 1, 2]


def test_min_p_is_taken_at_temperature() -> None:
    row = list(np.log([0.5, 0.3, 0.15, 0.05]).astype(np.float32))
    assert survivors(row, at(min_p=0.25)) == [0, 1, 2]
    assert survivors(row, at(temperature=0.5, min_p=0.25)) == [0, 1]


def test_penalties_come_before_the_bias_and_the_bias_before_top_k() -> None:
    sampling = at(repetition=2.0, logit_bias={2: 4.0})
    counts = Counts.of(sampling, [2], 3)
    bias = mx.array([0.0, 0.0, 4.0])
    # 2 / 2 + 4 = 5 wins over 4; (2 + 4) / 2 = 3 would not.
    row = mx.array([4.0, 0.0, 2.0])
    top_1 = at(top_k=1, repetition=2.0, logit_bias={2: 4.0})
    assert Silent(3, 3).draw(row, top_1, 0, counts=counts, bias=bias).token() == 2


def test_the_mask_comes_before_top_k() -> None:
    mask = mx.array([False, True, False, True])
    assert survivors([9.0, 1.0, 8.0, 0.5], at(top_k=1), mask=mask) == [1]
    assert Silent(4, 4).draw(mx.array([9.0, 1.0, 8.0, 0.5]), Sampling(seed=0), 0, mask=mask).token() == 1


def test_ids_past_the_tokenizer_are_out_before_top_k() -> None:
    row = mx.array([1.0, 2.0, 9.0, 9.0])
    for sampling in (Sampling(seed=0), at(), at(top_k=1), at(top_p=0.5), at(min_p=0.9)):
        assert all(Drawer(2, 4).draw(row, sampling, position).token() < 2 for position in range(20))


def test_temperature_zero_ignores_filters_and_noise() -> None:
    row = mx.array([1.0, 3.0, 3.0, 2.0])
    for filters in ({}, {"top_k": 1}, {"top_p": 0.1}, {"min_p": 1.0}):
        assert Drawer(4, 4).draw(row, Sampling(seed=9, **filters), 5).token() == 1


def test_a_temperature_near_zero_stays_finite() -> None:
    row = mx.array([1.0, 30.0, -70.0, 29.0])
    for temperature in (1e-3, 1e-7, 1e-40):
        for filters in ({}, {"top_k": 2}, {"top_p": 0.9}, {"min_p": 0.1}):
            assert Drawer(4, 4).draw(row, at(temperature, **filters), 1).token() == 1


@pytest.mark.parametrize(
    "sampling", [at(top_p=0.999), at(2.5, top_p=0.99), at(top_p=0.6), at(0.7, top_p=0.9, min_p=0.01)]
)
def test_a_nucleus_past_the_first_ranks_is_drawn_from_the_whole_row(
    sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocab = 3_000
    rng = np.random.default_rng(5)
    small, whole = Drawer(vocab, vocab), Drawer(vocab, vocab)
    settled = []
    for position in range(12):
        row = mx.array(rng.normal(size=vocab).astype(np.float32) * rng.uniform(0.1, 4))
        monkeypatch.setattr(drawer_module, "_NUCLEUS", 64)
        draw = small.draw(row, sampling, position)
        assert draw.settled is not None
        settled.append(bool(draw.settled.item()))
        monkeypatch.setattr(drawer_module, "_NUCLEUS", vocab)
        expected = reference.draw(np.array(row), sampling, np.array(whole.noise(3, position)))
        assert draw.token() == expected.token == whole.draw(row, sampling, position).token()
    # The rows of this test need both ways.
    assert not all(settled)


def test_frequencies_follow_the_distribution() -> None:
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    row, drawer, draws = mx.array(np.log(shares).astype(np.float32)), Drawer(4, 4), 4_000
    drawn = [drawer.draw(row, at(), position) for position in range(draws)]
    mx.eval([draw.drawn for draw in drawn])
    counts = np.bincount([draw.token() for draw in drawn], minlength=4)
    # Four standard deviations: this seed's draws are fixed, so it passes always or never.
    assert np.all(np.abs(counts - draws * shares) < 4 * np.sqrt(draws * shares * (1 - shares)))


def test_a_vocabulary_must_fit_its_head() -> None:
    for vocab, padded in ((0, 4), (5, 4), (2**24, 2**24)):
        with pytest.raises(ValueError, match="vocabulary"):
            Drawer(vocab, padded)


def test_noise_is_made_once_for_a_drafter_and_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(vocab: int, seed: int, positions: range) -> mx.array:
        made.extend(positions)
        return gumbel(vocab, seed, positions)

    monkeypatch.setattr(kept_noise, "gumbel", counted)
    drawer = Drawer(50, 64)
    first = drawer.noise(3, 17)
    drawer.draw_all(mx.zeros((3, 64)), Sampling(seed=3, temperature=0.7), [17, 18, 17])
    assert made.count(17) == 1
    for position in range(600):  # and is not kept for long
        drawer.noise(3, position + 100)
    assert mx.array_equal(drawer.noise(3, 17), first).item()
    assert made.count(17) == 2


@pytest.mark.parametrize("streams", [1, 4, 20])
@pytest.mark.parametrize("together", [1, 8])
def test_noise_is_kept_for_all_that_the_streams_draw_in_a_round(
    monkeypatch: pytest.MonkeyPatch, streams: int, together: int
) -> None:
    made: list[tuple[int, int]] = []

    def counted(vocab: int, seed: int, positions: range) -> mx.array:
        made.extend((seed, position) for position in positions)
        return mx.zeros((len(positions), vocab))

    monkeypatch.setattr(kept_noise, "gumbel", counted)
    noise = kept_noise.KeptNoise(8, streams, together)
    for _ in range(3):  # the drafter, the target, and both again after a draft that did not stand
        for seed in range(streams):
            noise.of(seed, range(seed * 5 + 3, seed * 5 + 19))
    assert len(made) == len(set(made))


@pytest.mark.exact
@pytest.mark.parametrize("together", [1, 8])
@pytest.mark.parametrize("positions", [[5], [5, 6], [6, 7, 8, 9], [14, 15, 16, 16, 17, 15], [40, 3, 4, 3, 8], [7, 7]])
def test_noise_of_several_positions_is_that_of_each(positions: list[int], together: int) -> None:
    noise = kept_noise.KeptNoise(64, together=together)
    each = [mx.maximum(mx.random.gumbel([64], key=noise_key(9, position)), -1e30) for position in positions]
    assert mx.array_equal(noise.of(9, positions), mx.stack(each)).item()

"""What else may stand in a draft's place: the next best ids of a step, where the kernel drafts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from operator import mul

import mlx.core as mx
import pytest

from tests.drafter import reference, tiny
from tests.drafter.launched import made
from tests.drafter.tiny import request
from tests.llama.reference import H200
from tf_llama.drafter import start as starting
from tf_llama.drafter.cuda import chain as cuda
from tf_llama.drafter.cuda.chain import CudaChain, _drafted
from tf_llama.drafter.cuda.trial import _logits
from tf_llama.drafter.proposer import LlamaDrafter
from tf_plugins.types import Draft

CONTEXT = [7, 3, 80, 41, 5, 66, 12]


def asked(drafter: LlamaDrafter, alternatives: int, stream: int = 1, most: int = 8, **more: object) -> Draft:
    drafter.open(stream, CONTEXT, 100)
    (draft,) = drafter.propose([request(stream, CONTEXT, most, alternatives=alternatives, **more)])
    drafter.close(stream)
    assert draft is not None
    return draft


def near(draft: Draft) -> Draft:
    """Equals what another launch drafts: a product's sums may be rounded by how many rows it has."""
    shares = tuple(pytest.approx(shares, rel=1e-3) for shares in draft.probabilities)
    return replace(draft, probabilities=shares)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_they_are_the_next_best_ids_in_their_order(through_kernel: LlamaDrafter, temperature: float) -> None:
    """By MLX's logits, with the target's noise where there is a temperature."""
    draft = asked(through_kernel, 3, seed=4, temperature=temperature)
    chain = through_kernel._running
    logits = _logits(chain._form, chain._forward, [*CONTEXT, *draft.tokens[:-1]])[-8:].astype(mx.float32)
    assert len(draft.alternatives) == len(draft.tokens) == 8
    for step, (token, others) in enumerate(zip(draft.tokens, draft.alternatives, strict=True)):
        values = logits[step]
        if temperature:
            values = values / temperature + tiny.noise(4, len(CONTEXT) + step)[: chain.ids]
        best, near = sorted(values.tolist(), reverse=True), 0.15 * mx.std(values).item()
        assert len({token, *others}) == 4
        for rank, id in enumerate((token, *others)):
            assert values[id].item() >= best[rank] - near


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_there_are_as_many_as_asked_for_and_no_more_than_a_step_gives(
    through_kernel: LlamaDrafter, temperature: float
) -> None:
    whole = asked(through_kernel, 3, temperature=temperature)
    for alternatives in (1, 2, 9):
        draft = asked(through_kernel, alternatives, temperature=temperature)
        others = tuple(others[:alternatives] for others in whole.alternatives)
        assert draft == Draft(whole.tokens, others, tuple(shares[: 1 + alternatives] for shares in whole.probabilities))
    alone = tuple(shares[:1] for shares in whole.probabilities)
    assert asked(through_kernel, 0, temperature=temperature) == Draft(whole.tokens, (), alone)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_they_and_the_drafts_have_their_probabilities(through_kernel: LlamaDrafter, temperature: float) -> None:
    """By the softmax of MLX's logits, whatever the temperature is."""
    draft = asked(through_kernel, 3, seed=4, temperature=temperature)
    chain = through_kernel._running
    logits = _logits(chain._form, chain._forward, [*CONTEXT, *draft.tokens[:-1]])[-8:].astype(mx.float32)
    places = zip(draft.tokens, draft.alternatives, draft.probabilities, mx.softmax(logits, axis=-1), strict=True)
    for token, others, shares, wanted in places:
        assert list(shares) == pytest.approx([wanted[id].item() for id in (token, *others)], rel=0.2, abs=0.01)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_chain_ends_once_what_stands_is_unlikely(through_kernel: LlamaDrafter, temperature: float) -> None:
    whole = asked(through_kernel, 3, temperature=temperature)
    chances = list(accumulate((share for share, *_ in whole.probabilities), mul))
    for length in (1, 2, 5):
        least = chances[length - 1] * 1.01
        ended = asked(through_kernel, 3, temperature=temperature, least=least)
        first = 1 + next(at for at, chance in enumerate(chances) if chance < least)
        assert ended == Draft(whole.tokens[:first], whole.alternatives[:first], whole.probabilities[:first])
        assert len(ended.tokens) <= length


def test_each_stream_of_a_launch_has_its_own_end(through_kernel: LlamaDrafter) -> None:
    """What one has behind its end, while another goes on, is not told, and read again."""
    whole = asked(through_kernel, 0)
    least = whole.probabilities[0][0] * 1.01
    contexts = {1: CONTEXT, 2: [*CONTEXT]}
    for stream, context in contexts.items():
        through_kernel.open(stream, context, 100)
    short, long = through_kernel.propose([request(1, contexts[1], 8, least=least), request(2, contexts[2], 8)])
    assert short == near(Draft(whole.tokens[:1], (), whole.probabilities[:1]))
    assert long == near(whole)
    longer = [*CONTEXT, *whole.tokens[:3], 9]
    (one,), (two,) = (through_kernel.propose([request(stream, longer, 4)]) for stream in contexts)
    assert one == near(two)


def test_each_stream_of_a_call_has_its_own(through_kernel: LlamaDrafter) -> None:
    """Six streams, more than one launch takes; the longest drafts come first in it."""
    wishes = {stream: (2 + stream % 4, stream % 3, [*CONTEXT, stream]) for stream in range(1, 7)}
    alone, together = [], []
    for drafts, groups in ((alone, [[stream] for stream in wishes]), (together, [list(wishes)])):
        for stream, (_, _, context) in wishes.items():
            through_kernel.open(stream, context, 100)
        for group in groups:
            requests = [
                request(stream, wishes[stream][2], wishes[stream][0], alternatives=wishes[stream][1])
                for stream in group
            ]
            drafts += through_kernel.propose(requests)
        for stream in wishes:
            through_kernel.close(stream)
        through_kernel.shed(0)
    assert together == [near(draft) for draft in alone]
    for draft, (most, alternatives, _) in zip(together, wishes.values(), strict=True):
        assert [len(others) for others in draft.alternatives] == [alternatives] * (most if alternatives else 0)


def test_they_end_with_the_draft(through_kernel: LlamaDrafter) -> None:
    whole = asked(through_kernel, 2)
    at = next(at for at in range(2, 8) if whole.tokens[at] not in whole.tokens[:at])
    cut = asked(through_kernel, 2, end_ids=frozenset({whole.tokens[at]}))
    assert cut == Draft(whole.tokens[: at + 1], whole.alternatives[: at + 1], whole.probabilities[: at + 1])
    # An end among the alternatives ends nothing.
    other = next(id for others in whole.alternatives for id in others if id not in whole.tokens)
    assert asked(through_kernel, 2, end_ids=frozenset({other})) == whole


def test_mlx_gives_none(through_mlx: LlamaDrafter) -> None:
    draft = asked(through_mlx, 3)
    assert len(draft.tokens) == 8
    assert draft.alternatives == ()


def test_a_step_may_have_fewer_ids() -> None:
    steps = [[(5, 0.5), (7, 0.4), (-1, 0.0), (-1, 0.0)], [(5, 0.9), (8, 0.05), (9, 0.03), (2, 0.02)]]
    assert _drafted(steps, 3, 0.0) == Draft((5, 5), ((7,), (8, 9, 2)), ((0.5, 0.4), (0.9, 0.05, 0.03, 0.02)))


def test_steps_that_were_not_made_are_no_drafts() -> None:
    steps = [[(5, 0.5), (7, 0.4)], [(-1, 0.0), (-1, 0.0)]]
    assert _drafted(steps, 1, 0.0) == Draft((5,), ((7,),), ((0.5, 0.4),))


def test_of_equal_ids_the_lowest_come_first(through_kernel: LlamaDrafter) -> None:
    """All logits are 0 after a norm of zeros; which weights are changed, the kernel and MLX share."""
    stacks = through_kernel._running._form.stacks
    stacks.norm[:] = mx.zeros_like(stacks.norm)
    mx.eval(stacks.norm)
    draft = asked(through_kernel, 3)
    assert (draft.tokens, draft.alternatives) == ((0,) * 8, ((1, 2, 3),) * 8)
    shares = [share for shares in draft.probabilities for share in shares]
    assert shares == pytest.approx([1 / tiny.VOCAB] * 32, rel=1e-4)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda best: [best[0], best[1], best[1], best[3]], "are not 4 ids"),
        (lambda best: [best[0], best[1], best[2], -1], "are not 4 ids"),
        (lambda best: [best[0], best[40], best[1], best[2]], "its id of rank 2 is"),
        (lambda best: [best[0], best[1], best[2], best[40]], "its id of rank 4 is"),
        (lambda best: [best[3], best[1], best[2], best[0]], "its id of rank 1 is"),
    ],
    ids=["twice", "too few", "a wrong one", "a wrong last one", "turned"],
)
def test_a_kernel_with_other_alternatives_is_left_out(
    wrong: Callable[[list[int]], list[int]],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(starting, "processor", lambda: H200)
    monkeypatch.setattr(cuda, "DraftKernel", reference.ReferenceKernel)
    assert isinstance(made()._running, CudaChain)
    monkeypatch.setattr(
        reference, "_best", lambda values: wrong(sorted(range(len(values)), key=lambda id: -values[id]))
    )
    assert not isinstance(made()._running, CudaChain)
    assert said in caplog.text


def test_a_kernel_with_other_probabilities_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(starting, "processor", lambda: H200)
    monkeypatch.setattr(cuda, "DraftKernel", reference.ReferenceKernel)
    monkeypatch.setattr(reference, "_softmax", lambda logits: mx.softmax(logits / 3))
    assert not isinstance(made()._running, CudaChain)
    assert "its id of rank 1 has a probability of" in caplog.text

"""How likely a drafter takes its drafts to be, and chains that end where a further one no longer pays."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import mlx.core as mx
import pytest

from tests.drafter.test_drafts import prompt
from tests.drafter.tiny import CONTEXT, VOCAB, Reference, drafter, module, noise, request
from tf_llama.drafter import chain
from tf_llama.drafter.cpu_form import CpuForm
from tf_llama.drafter.forward import Forward
from tf_llama.drafter.proposer import LONGEST, LlamaDrafter
from tf_plugins.types import Draft

AHEAD = {"cpu": 0, "gpu": 1}
"""Steps that are under way when the one is read that ends a chain; their tokens are drafted too."""

TEMPERATURES = (0.0, 0.7)
LENGTHS = (1, 30, 70)


def asked(made: LlamaDrafter, context: Sequence[int], most: int, seed: int = 3, **more: Any) -> Draft:
    """One draft of a stream that is new to the drafter."""
    made.open(1, context, CONTEXT)
    (draft,) = made.propose([request(1, context, most, seed=seed, **more)])
    made.close(1)
    made.shed(0)
    assert draft is not None
    return draft


def chances(draft: Draft) -> list[float]:
    """That all of its tokens stand down to each."""
    assert [len(place) for place in draft.probabilities] == [1] * len(draft.tokens)
    return list(accumulate((share for (share,) in draft.probabilities), operator.mul))


def softmaxed(model: Any, context: Sequence[int], tokens: Sequence[int], ids: int = VOCAB) -> list[float]:
    """Of mlx-lm's own logits, those of the first ``ids``."""
    logits = model(mx.array([[*context, *tokens[:-1]]]))[0, len(context) - 1 :, :ids]
    shares = mx.exp(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
    return [shares[at, token].item() for at, token in enumerate(tokens)]


@pytest.mark.parametrize("form", AHEAD)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("vocab", [VOCAB, VOCAB + 900])
def test_they_are_the_softmax_of_its_own_logits(form: str, temperature: float, vocab: int) -> None:
    """At temperature 1 and without noise, whatever the stream's; of the ids that may be proposed."""
    made, model = drafter(form, vocab_size=vocab), module(vocab_size=vocab)
    for length in LENGTHS:
        context = prompt(length, length)
        draft = asked(made, context, 10, temperature=temperature)
        expected = softmaxed(model, context, draft.tokens)
        assert [share for (share,) in draft.probabilities] == pytest.approx(expected, rel=1e-3)
        assert all(type(share) is float and 0 < share <= 1 for (share,) in draft.probabilities)


@pytest.mark.parametrize("form", AHEAD)
def test_a_certain_token_is_no_more_than_that_and_a_hopeless_one_no_error(form: str) -> None:
    logits = mx.random.normal([3, 50_000], key=mx.random.key(1))
    logits[0, 7], logits[2, 9] = 300.0, -300.0
    shares = drafter(form)._running._form.shares(logits, mx.array([7, 8, 9]))
    assert shares.dtype == mx.float32
    assert shares.tolist() == [1.0, pytest.approx(mx.softmax(logits[1])[8].item(), rel=1e-3), 0.0]


def test_what_a_gpu_rounds_is_summed_up_in_full() -> None:
    """50,000 equal ids, in bfloat16: added up there, they would be 256."""
    shares = drafter("gpu")._running._form.shares(mx.zeros([1, 50_000], mx.bfloat16), mx.array([7]))
    assert shares.dtype == mx.float32
    assert shares.tolist() == [pytest.approx(1 / 50_000, rel=1e-3)]


def check_ends(form: str, temperature: float) -> None:
    """A chain ends with the first token down to which the chance is less than what was asked for, wherever that is."""
    made, whole_model, context = drafter(form), module(), prompt(30)
    whole = asked(made, context, LONGEST, temperature=temperature)
    assert len(whole.tokens) == LONGEST
    expected = softmaxed(whole_model, context, whole.tokens)
    fell = [1.0, *accumulate(expected, operator.mul)]
    for at in range(LONGEST):
        # Between two chances, so that rounding decides nothing.
        draft = asked(made, context, LONGEST, temperature=temperature, least=(fell[at] * fell[at + 1]) ** 0.5)
        length = min(LONGEST, at + 1 + AHEAD[form])
        assert draft == Draft(whole.tokens[:length], (), whole.probabilities[:length])


@pytest.mark.parametrize("form", AHEAD)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_a_chain_ends_where_the_next_draft_no_longer_pays(form: str, temperature: float) -> None:
    check_ends(form, temperature)


def warmer(form: CpuForm, logits: mx.array, tokens: mx.array) -> mx.array:
    shares = mx.softmax(logits / 0.7, axis=-1)
    return mx.take_along_axis(shares, tokens[:, None], axis=-1)[:, 0]


BROKEN: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "never": (chain._Stream, "goes_on", lambda one, step: step < one.turn.most),
    "one late": (
        chain._Stream,
        "goes_on",
        lambda one, step: step < one.turn.most and one.chance / (one.shares or [1])[-1] >= one.turn.least,
    ),
    "one token alone": (
        chain._Stream,
        "goes_on",
        lambda one, step: step < one.turn.most and (one.shares or [1])[-1] >= one.turn.least,
    ),
    "a temperature": (CpuForm, "shares", warmer),
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_a_chain_that_ends_by_another_rule_is_found_out(
    how: str, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*BROKEN[how])
    with pytest.raises(AssertionError):
        check_ends("cpu", temperature)


def test_an_equal_chance_is_not_below_it() -> None:
    made, context = drafter(), prompt(30)
    whole = asked(made, context, 8)
    for at, chance in enumerate(chances(whole)):
        assert len(asked(made, context, 8, least=chance).tokens) == min(8, at + 2)


@pytest.mark.parametrize("form", AHEAD)
def test_streams_of_a_call_end_each_by_its_own(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first, one in the middle, the last, one by its ``most`` and one that has no ``least``: each as alone."""
    made, alone = drafter(form, parallel=8), drafter(form)
    ends = {1: (15, 0), 2: (15, 4), 3: (15, None), 4: (12, 2), 5: (9, 7), 6: (3, None), 7: (6, 0)}
    wishes, lengths = [], []
    for stream, (most, end) in ends.items():
        context, temperature = prompt(20 + stream, stream), 0.7 * (stream % 2)
        whole = asked(alone, context, most, seed=stream, temperature=temperature)
        # A little more than the chance at its end, a little less than that before.
        least = 0.0 if end is None else chances(whole)[end] * 1.001
        made.open(stream, context, CONTEXT)
        wishes.append(request(stream, context, most, seed=stream, temperature=temperature, least=least))
        length = most if end is None else min(most, end + 1 + AHEAD[form])
        lengths.append((whole, length))
    random.Random(5).shuffle(order := list(range(len(wishes))))
    rows: list[int] = []
    plain = Forward.logits
    monkeypatch.setattr(Forward, "logits", lambda own, of: (rows.append(of.shape[0]), plain(own, of))[1])
    drafts = made.propose([wishes[at] for at in order])
    monkeypatch.undo()
    for at, draft in zip(order, drafts, strict=True):
        whole, length = lengths[at]
        assert draft is not None
        assert draft.tokens == whole.tokens[:length]
        assert chances(draft) == pytest.approx(chances(whole)[:length], rel=1e-3)
    # Nothing is computed for those that ended.
    assert rows == [sum(length > step for _, length in lengths) for step in range(LONGEST)]


@pytest.mark.parametrize("form", AHEAD)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_after_an_early_end_drafts_are_what_they_were(form: str, temperature: float) -> None:
    """Rounds of two streams, with drafts that stand in full, in part or not at all: always as from the start."""
    made, reference = drafter(form), Reference()
    chance = random.Random(7)
    contexts = {stream: prompt(20 * stream, stream) for stream in (1, 2)}
    for stream, context in contexts.items():
        made.open(stream, context, CONTEXT)
    early = 0
    for _ in range(15):
        wishes = [
            request(stream, context, 12, seed=stream, temperature=temperature, least=10 ** -chance.uniform(0, 6))
            for stream, context in contexts.items()
        ]
        for wish, draft in zip(wishes, made.propose(wishes), strict=True):
            assert draft is not None
            count = len(draft.tokens)
            assert draft.tokens == reference.draft(wish.context, count, seed=wish.stream, temperature=temperature)
            early += count < 12
            stands = chance.choice([count, count, chance.randrange(count + 1), 0])
            more = prompt(chance.choice([0, 0, 3, 40]) if len(wish.context) < 300 else 0, early)
            contexts[wish.stream] += [*draft.tokens[:stands], chance.randrange(VOCAB), *more]
    assert early > 20


@pytest.mark.parametrize("form", AHEAD)
def test_a_step_waits_for_no_other_than_it_must(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, context = drafter(form), prompt(10)
    did: list[str] = []
    send, read = mx.async_eval, chain._read
    monkeypatch.setattr(mx, "async_eval", lambda *arrays: (did.append("send"), send(*arrays))[1])
    monkeypatch.setattr(chain, "_read", lambda sent: (did.extend(["read"] * bool(sent)), read(sent))[1])
    made.open(1, context, CONTEXT)
    monkeypatch.setattr(mx, "eval", None)
    made.propose([request(1, context, 4)])
    assert did == [*["send"] * 4, "read"]
    did.clear()
    made.propose([request(1, context, 4, least=1e-30)])
    assert did == {"cpu": ["send", "read"] * 4, "gpu": ["send", *["send", "read"] * 3, "read"]}[form]


@pytest.mark.parametrize("form", AHEAD)
def test_the_steps_that_were_made_are_priced(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, context = drafter(form), prompt(10)
    whole = asked(made, context, 12)
    costs, least = made.costs(), chances(whole)[2] * 1.001
    for stream in (1, 2):
        made.open(stream, context, CONTEXT)
    now = iter(range(0, 1_000, 10))
    monkeypatch.setattr("tf_llama.drafter.proposer.time.perf_counter", lambda: next(now))
    # An end token is no concern of the chain's: the steps behind it were made.
    (draft,) = made.propose([request(1, context, 12, least=least, end_ids=frozenset(whole.tokens[:1]))])
    assert draft == Draft(whole.tokens[:1], (), whole.probabilities[:1])
    steps = 3 + AHEAD[form]
    step = costs.step + 0.2 * (10 / steps - costs.step)
    assert made.costs().step == pytest.approx(step)
    made.propose([request(1, context, 8, least=least), request(2, context, 12)])
    batch = (10 - step * 12) / steps
    assert batch > 0
    assert made.costs().batch == pytest.approx(costs.batch + 0.2 * (batch - costs.batch))


def test_they_end_with_the_draft() -> None:
    made, context = drafter(), prompt(30)
    whole = asked(made, context, 8)
    at = next(at for at in range(2, 8) if whole.tokens[at] not in whole.tokens[:at])
    cut = asked(made, context, 8, end_ids=frozenset({whole.tokens[at]}))
    assert cut == Draft(whole.tokens[: at + 1], (), whole.probabilities[: at + 1])


def test_the_noise_decides_what_is_drawn_and_not_how_likely_it_is() -> None:
    """A control of the first test: of the values that a token is drawn by it would be another number."""
    made, model, context = drafter(), module(), prompt(30)
    draft = asked(made, context, 1, temperature=0.7)
    logits = model(mx.array([context]))[0, -1]
    values = logits / 0.7 + noise(3, len(context))[:VOCAB]
    assert draft.tokens == (int(mx.argmax(values).item()),)
    ((share,),) = draft.probabilities
    assert share == pytest.approx(mx.softmax(logits)[draft.tokens[0]].item(), rel=1e-3)
    for other in (values, logits / 0.7):
        assert share != pytest.approx(mx.softmax(other)[draft.tokens[0]].item(), rel=0.1)

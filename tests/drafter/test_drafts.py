"""Drafts are what the same Llama says in mlx-lm's own code, whatever became of earlier ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

import mlx.core as mx
import pytest

from tests.drafter.tiny import CONTEXT, VOCAB, Reference, drafter, proposed, request
from tf_llama.drafter.proposer import AT_ONCE, LlamaDrafter

FORMS = ["cpu", "gpu"]

LAYOUTS = {
    "grouped": {},
    "one query head a key head": {"num_key_value_heads": 4},
    "one key head": {"num_key_value_heads": 1},
    "a head of its own": {"tie_word_embeddings": False},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "linear rope": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "llama3 rope": {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
}


def prompt(length: int, seed: int = 0) -> list[int]:
    return [random.Random(seed + at).randrange(VOCAB) for at in range(length)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_drafts_equal_the_reference(form: str, layout: str) -> None:
    reference = Reference(**LAYOUTS[layout])
    made = drafter(form, **LAYOUTS[layout])
    for stream, length in enumerate((1, 2, AT_ONCE, AT_ONCE + 1, 63, 64, 65, 200)):
        context = prompt(length, stream)
        made.open(stream, context, CONTEXT)
        expected = reference.draft(context, 6)
        assert proposed(made, request(stream, context, 6)) == [expected]


def decode(
    made: LlamaDrafter, reference: Reference, context: list[int], rounds: int, temperature: float = 0.0
) -> tuple[int, int]:
    """Rounds of drafting in which the target's draw departs now and then; returns drafts offered and kept.

    The target is the drafter's twin, so that each draft has to be what it would draw after the context as it is.
    """
    chance = random.Random(len(context))
    offered = kept = 0
    for _ in range(rounds):
        most = chance.choice([1, 2, 5, 15])
        ((*draft,),) = proposed(made, request(1, context, most, seed=9, temperature=temperature))
        truth = list(reference.draft(context, most + 1, seed=9, temperature=temperature))
        offered += len(draft)
        kept += sum(a == b for a, b in zip(draft, truth, strict=False))
        # As a target of its own would have it: all stand, or some do and then comes another token, or none was sent.
        stands = chance.choice([most, most, chance.randrange(most + 1), 0])
        new = truth[: stands + 1]
        if stands < most:
            new[-1] = chance.randrange(VOCAB)
        context += new
        context += prompt(chance.choice([0, 0, 0, 1, 3, 40]), len(context))  # rounds that it was not asked in
    return offered, kept


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_twin_of_the_target_is_always_right_after_rejections_too(form: str, temperature: float) -> None:
    made = drafter(form)
    context = prompt(20)
    made.open(1, context, CONTEXT)
    offered, kept = decode(made, Reference(), context, 25, temperature)
    assert offered > 100
    assert kept == offered


@pytest.mark.parametrize("form", FORMS)
def test_streams_in_one_call_draft_what_each_drafts_alone(form: str) -> None:
    together, alone = drafter(form), drafter(form)
    chance = random.Random(3)
    contexts = {stream: prompt(length, 50 * stream) for stream, length in enumerate((3, 40, 17, 120))}
    for stream, context in contexts.items():
        together.open(stream, context, CONTEXT)
        alone.open(stream, context, CONTEXT)
    for _ in range(12):
        present = [stream for stream in contexts if chance.random() < 0.8] or [0]
        chance.shuffle(present)
        requests = [
            request(stream, contexts[stream], chance.randrange(1, 16), seed=stream, temperature=0.7 * (stream % 2))
            for stream in present
        ]
        drafts = proposed(together, *requests)
        assert drafts == [proposed(alone, one)[0] for one in requests]
        for one, draft in zip(requests, drafts, strict=True):
            assert draft is not None
            assert len(draft) == one.most
            contexts[one.stream] += [*draft[: chance.randrange(len(draft) + 1)], chance.randrange(VOCAB)]


def test_noise_is_keyed_by_seed_and_position() -> None:
    made, reference = drafter(), Reference()
    context = prompt(30)
    drafts = set()
    for stream, seed in enumerate((1, 2, 3)):
        made.open(stream, context, CONTEXT)
        (draft,) = proposed(made, request(stream, context, 8, seed=seed, temperature=1.0))
        assert draft == reference.draft(context, 8, seed=seed, temperature=1.0)
        drafts.add(draft)
    assert len(drafts) == 3


def test_a_draft_ends_with_an_end_token() -> None:
    made = drafter()
    context = prompt(30)
    made.open(1, context, CONTEXT)
    (whole,) = proposed(made, request(1, context, 8))
    assert whole is not None
    at = next(at for at in range(2, 8) if whole[at] not in whole[:at])
    made.open(2, context, CONTEXT)
    assert proposed(made, request(2, context, 8, end_ids=frozenset({whole[at]}))) == [whole[: at + 1]]
    # What was drafted past the end does no harm to a stream that goes on.
    assert proposed(made, request(2, [*context, *whole[:4]], 4)) == [whole[4:]]


def test_ids_past_the_shared_ones_are_never_proposed_nor_read() -> None:
    # A head with more rows than the tokenizer has ids; left alone, most of its drafts would be past them.
    made = drafter(vocab_size=VOCAB + 900)
    for stream in range(5):
        context = prompt(10, stream)
        made.open(stream, context, CONTEXT)
        for temperature in (0.0, 1.0):
            (draft,) = proposed(made, request(stream, context, 10, seed=stream, temperature=temperature))
            assert draft is not None
            assert max(draft) < VOCAB
    made.open(9, [VOCAB + 1, 2, 3], CONTEXT)
    assert proposed(made, request(9, [VOCAB + 1, 2, 3], 4)) == [None]
    assert proposed(made, request(9, [VOCAB + 1, 2, 3, 4], 4)) == [None]


def test_a_smaller_head_than_the_target_s_is_silent_where_it_has_no_row() -> None:
    made = drafter(vocab_size=VOCAB - 10)
    context = [1, 2, VOCAB - 5, 3]
    made.open(1, context, CONTEXT)
    made.open(2, prompt(10), CONTEXT)
    assert proposed(made, request(1, context, 4)) == [None]


def test_past_its_own_context_it_is_silent() -> None:
    made = drafter(context=64)
    reference = Reference()
    lengths = {stream: 60 + stream for stream in range(8)}
    drafted = {}
    for stream, length in lengths.items():
        context = prompt(length)
        made.open(stream, context, CONTEXT)
        (draft,) = proposed(made, request(stream, context, 15))
        drafted[length] = 0 if draft is None else len(draft)
        assert (draft or ()) == reference.draft(context, drafted[length])
    # The last position that is read is 63: a draft of k tokens after n ends with reading position n + k - 2.
    assert drafted == {60: 5, 61: 4, 62: 3, 63: 2, 64: 1, 65: 0, 66: 0, 67: 0}


def test_a_stream_that_grows_past_its_context_falls_silent() -> None:
    made = drafter(context=64)
    context = prompt(50)
    made.open(1, context, CONTEXT)
    while len(context) < 80:
        (draft,) = proposed(made, request(1, context, 4))
        assert (draft is None) == (len(context) > 64)
        context += [*(draft or ())[:2], 7]


class Counted(Sequence[int]):
    """A context that counts what is read of it."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens
        self.taken = 0

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, key):  # type: ignore[no-untyped-def]
        got = self.tokens[key]
        self.taken += len(got) if isinstance(key, slice) else 1
        return got


def test_a_round_reads_no_more_of_the_context_than_is_new() -> None:
    made = drafter(context=4_096)
    context = Counted(prompt(3_000))
    made.open(1, context, 4_000)
    proposed(made, request(1, context, 5))
    for _ in range(30):
        context.tokens += prompt(3, len(context))
        context.taken = 0
        proposed(made, request(1, context, 5))
        assert context.taken <= 3 + 5 + 1


def test_unread_says_what_it_would_have_to_read() -> None:
    made = drafter()
    context = prompt(100)
    made.open(1, context, CONTEXT)
    assert made.unread(1, 100) == 100
    proposed(made, request(1, context, 1))
    assert made.unread(1, 101) == 1
    assert made.unread(1, 140) == 40
    assert made.unread(77, 140) == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("piece", [1, 40, 64, 1_000])
def test_a_prompt_read_ahead_is_drafted_for_as_one_read_at_once(form: str, piece: int) -> None:
    reference = Reference()
    for length in (1, 2, 30, 150):
        made, context = drafter(form), prompt(length)
        made.open(1, context, CONTEXT)
        for left in range(length - 1, 0, -piece):
            assert made.unread(1, length) == left + 1
            made.read(1, context, piece)
        assert made.unread(1, length) == 1
        made.read(1, context, piece)  # the last token is left to the first draft
        assert made.unread(1, length) == 1
        assert proposed(made, request(1, context, 6)) == [reference.draft(context, 6)]


def test_reading_ahead_goes_on_from_a_kept_cache_and_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    made, reference, context = drafter(), Reference(), prompt(100)
    made.open(1, context, CONTEXT)
    made.read(1, context, 80)
    made.close(1)
    made.open(2, context, CONTEXT)
    assert made.unread(2, 100) == 20
    costs = made.costs()
    now = iter((0.0, 10.0))
    monkeypatch.setattr("tf_llama.drafter.proposer.time.perf_counter", lambda: next(now))
    made.read(2, context, 80)
    monkeypatch.undo()
    assert made.costs().read == pytest.approx(costs.read + 0.2 * (10 / 19 - costs.read))
    assert proposed(made, request(2, context, 6)) == [reference.draft(context, 6)]


def test_a_failed_read_drops_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    made, context = drafter(), prompt(100)
    made.open(1, context, CONTEXT)
    made.read(1, context, 40)
    with monkeypatch.context() as patched:
        patched.setattr(made._running, "read", lambda slot, tokens: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            made.read(1, context, 40)
    made.read(1, context, 40)
    assert proposed(made, request(1, context, 3)) == [None]
    made.close(1)
    assert made.kept() == 0


def test_an_id_without_a_row_ends_reading_ahead() -> None:
    made, context = drafter(), [*prompt(50), 10**6, *prompt(50)]
    made.open(1, context, CONTEXT)
    made.read(1, context, 200)
    assert made.unread(1, len(context)) == 0
    assert proposed(made, request(1, context, 3)) == [None]
    made.read(77, context, 10)


def test_costs_are_measured_at_start_and_move_by_a_fifth(monkeypatch: pytest.MonkeyPatch) -> None:
    made = drafter()
    costs = made.costs()
    assert costs.step > 0
    assert costs.read > 0
    context = prompt(20)
    made.open(1, context, CONTEXT)
    now = iter(float(second) for second in range(0, 1_000, 10))
    monkeypatch.setattr("tf_llama.drafter.proposer.time.perf_counter", lambda: next(now))
    proposed(made, request(1, context, 5))  # 20 tokens to read, and five steps: ten seconds each
    assert made.costs().step == pytest.approx(costs.step + 0.2 * (10 / 5 - costs.step))
    assert made.costs().read == pytest.approx(costs.read + 0.2 * (10 / 19 - costs.read))
    assert made.costs().batch == costs.batch


def test_every_step_is_sent_off_and_read_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = drafter()
    context = prompt(10)
    made.open(1, context, CONTEXT)
    sent = []
    real = mx.async_eval
    monkeypatch.setattr(mx, "async_eval", lambda *arrays: (sent.append(arrays), real(*arrays))[1])
    monkeypatch.setattr(mx, "eval", None)
    proposed(made, request(1, context, 7))
    assert len(sent) == 7

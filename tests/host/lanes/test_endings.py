"""Where a reply ends, and that nothing after the end is told."""

from __future__ import annotations

import pytest

from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.proposers import FakeProposer, oracle
from tests.fakes.reading import Sink, letter
from tf_host.requests import Delta, Done, GenerateRequest

PROMPT = (3, 1, 4, 1, 5)


def drafted(wanted: GenerateRequest, depth: int = 8, length: int = 60) -> tuple[Sink, FakeProposer]:
    """The reply with drafts that are right far past its end."""
    beyond = naive(request(wanted.prompt, length, wanted.sampling))[0]
    proposer = FakeProposer(oracle({wanted.prompt: beyond}))
    [sink] = decode(make_lanes(proposers=[proposer], depth=depth), wanted)
    return sink, proposer


def test_an_end_token_inside_an_accepted_block_ends_the_reply_there() -> None:
    reply = naive(request(PROMPT, 30))[0]
    for at in range(1, 20):
        if reply[at] in reply[:at]:
            continue
        sink, _ = drafted(request(PROMPT, 30, end_ids=[reply[at]], logprobs=1))
        assert sink.tokens == reply[: at + 1] == sink.done.tokens
        assert sink.done.reason == "stop"
        # The end token has no text of its own.
        assert sink.text == "".join(map(letter, reply[:at]))
        assert all(token.logprob is not None for delta in sink.deltas for token in delta.tokens)
        assert isinstance(sink.events[-1], Done)


@pytest.mark.parametrize("most", range(1, 18))
def test_max_tokens_is_never_passed(most: int) -> None:
    sink, proposer = drafted(request(PROMPT, most), depth=15)
    assert sink.tokens == naive(request(PROMPT, 30))[0][:most]
    assert sink.done.reason == "length"
    assert all(r.most <= most - 1 for call in proposer.calls for r in call)
    assert sum(sink.done.drafted.values()) <= most - 1


@pytest.mark.parametrize("first", [0, 1, 5, 9])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_stop_string_is_found_at_the_same_token_drafted_and_plain(first: int, length: int) -> None:
    reply = naive(request(PROMPT, 40))[0]
    stop = "".join(map(letter, reply[first : first + length]))
    wanted = request(PROMPT, 40, stop=(stop,))
    plain_tokens, plain_text, reason = naive(wanted)
    assert reason == "stop"
    for depth in (0, 1, 3, 15):
        sink, _ = drafted(wanted, depth)
        assert sink.tokens == plain_tokens == sink.done.tokens
        assert sink.text == plain_text
        assert stop not in sink.text
        assert sink.done.reason == "stop"


def test_held_back_text_comes_out_at_the_end() -> None:
    reply = naive(request(PROMPT, 10))[0]
    # The last letter could begin the stop string, so only the end lets it go.
    stop = letter(reply[-1]) + "!"
    sink, _ = drafted(request(PROMPT, 10, stop=(stop,)))
    assert sink.text == "".join(map(letter, reply))
    assert sink.done.reason == "length"


def test_a_draft_counts_as_kept_only_where_it_is_in_the_reply() -> None:
    reply = naive(request(PROMPT, 40))[0]
    end = next(token for token in reply[4:] if token not in reply[:4])
    wanted = request(PROMPT, 40, end_ids=[end])
    sink, _ = drafted(wanted, depth=15)
    from_drafts = sum(token.source == "fake" for delta in sink.deltas for token in delta.tokens)
    assert sink.done.kept == {"fake": from_drafts}
    assert from_drafts < sum(sink.done.drafted.values())


def test_every_delta_has_the_tokens_of_one_round() -> None:
    sink, _ = drafted(request(PROMPT, 30), depth=4)
    assert len(sink.deltas) == sink.done.rounds
    assert all(1 <= len(delta.tokens) <= 5 for delta in sink.deltas)
    assert all(delta.tokens[-1].source == "target" or delta is sink.deltas[-1] for delta in sink.deltas)
    assert isinstance(sink.events[-2], Delta)


def test_logprobs_are_the_same_drafted_and_plain() -> None:
    wanted = request(PROMPT, 30, logprobs=3)
    sink, _ = drafted(wanted, depth=6)
    [plain] = decode(make_lanes(), wanted)
    told = [[(t.id, t.logprob, t.top) for delta in s.deltas for t in delta.tokens] for s in (sink, plain)]
    assert told[0] == told[1]
    assert all(len(top) == 3 and logprob <= 0 for _, logprob, top in told[0])

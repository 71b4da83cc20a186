"""The main claim, through HTTP on the real pair: with a drafter, without drafts and without a drafter, the same ids."""

from __future__ import annotations

import json
import os

import pytest

from tests.e2e import golden
from tests.e2e.prompts import LONG, PROMPTS
from tests.e2e.serving import Client, Parallel, Reply

pytestmark = pytest.mark.exact


@pytest.fixture(scope="module")
def size(backend: str) -> tuple[int, int]:
    """Prompts and tokens a reply: MLX's own matrix products decode a few tokens a second, MKL's some twenty.

    ``make long`` asks for all ten prompts and 128 tokens.
    """
    if os.environ.get("TF_TEST_FULL"):
        return 10, 128
    return {"mkl": (10, 32), "mkl-plain": (5, 32)}.get(backend, (2, 12))


def ask(client: Client, prompt: str, temperature: float, tokens: int, **more) -> Reply:
    reply = client.chat(prompt, temperature=temperature, seed=7, max_tokens=tokens, **more)
    assert reply.status == 200, reply.body
    return reply


@pytest.fixture(scope="module")
def plain(undrafted: Client, size: tuple[int, int]) -> dict[tuple[str, float], Reply]:
    """Plain replies of the server that has no drafter, one request at a time."""
    prompts, tokens = size
    return {
        (prompt, temperature): ask(undrafted, prompt, temperature, tokens, draft=False)
        for prompt in PROMPTS[:prompts]
        for temperature in (0, 0.7)
    }


def test_the_long_prompt_is_long(undrafted: Client):
    counted = undrafted.http.post("/tokenize", json={"messages": [{"role": "user", "content": LONG}]}).json()
    assert counted["count"] >= 1_500


def test_drafted_alone_equals_plain_and_drafts_are_kept(drafted: Client, plain: dict, size: tuple[int, int]):
    kept = offered = 0
    for (prompt, temperature), expected in plain.items():
        reply = ask(drafted, prompt, temperature, size[1])
        assert reply.ids == expected.ids, (prompt[:40], temperature)
        assert reply.text == expected.text
        assert reply.body["usage"]["completion_tokens"] == len(reply.ids)
        kept += reply.tf["accepted"]
        offered += reply.tf["drafted"]
    assert 0 < kept <= offered


def test_draft_false_and_no_drafter_give_the_same_ids(drafted: Client, undrafted: Client, plain: dict, size):
    for (prompt, temperature), expected in list(plain.items())[:6]:
        without = ask(drafted, prompt, temperature, size[1], draft=False)
        copies = ask(undrafted, prompt, temperature, size[1])
        assert without.ids == expected.ids == copies.ids, (prompt[:40], temperature)
        assert without.tf["drafted"] == 0
        assert set(copies.tf["sources"]) <= {"copy"}


def test_two_at_a_time_equal_solo(drafted: Client, plain: dict, size: tuple[int, int]):
    cells = list(plain.items())
    for (one, expected_one), (other, expected_other) in zip(cells[::2], cells[1::2], strict=False):
        pair = Parallel()
        pair.start("one", ask, drafted, one[0], one[1], size[1])
        pair.start("other", ask, drafted, other[0], other[1], size[1])
        replies = pair.join()
        assert replies["one"].ids == expected_one.ids, (one[0][:40], one[1])
        assert replies["other"].ids == expected_other.ids, (other[0][:40], other[1])


def test_a_greedy_repeat_after_sampled_requests_is_the_same(drafted: Client, plain: dict, size: tuple[int, int]):
    prompt = PROMPTS[0]
    ask(drafted, prompt, 0.7, size[1])
    assert ask(drafted, prompt, 0, size[1]).ids == plain[prompt, 0].ids


def test_streamed_and_with_logprobs_the_same_ids(drafted: Client, plain: dict, size: tuple[int, int]):
    prompt = PROMPTS[1]
    streamed = drafted.stream(prompt, temperature=0.7, seed=7, max_tokens=size[1])
    assert streamed.ids == plain[prompt, 0.7].ids
    assert streamed.text == plain[prompt, 0.7].text
    probed = ask(drafted, prompt, 0.7, size[1], logprobs=True, top_logprobs=2)
    assert probed.ids == plain[prompt, 0.7].ids


def test_a_short_reply_is_a_prefix_of_a_long_one(drafted: Client, plain: dict, size: tuple[int, int]):
    for depth in range(1, 7):
        reply = ask(drafted, PROMPTS[0], 0, depth)
        assert len(reply.ids) <= depth
        assert reply.ids == plain[PROMPTS[0], 0].ids[: len(reply.ids)]


def test_both_servers_have_one_fingerprint(drafted: Client, undrafted: Client):
    one, other = ask(drafted, "Hi", 0, 2), ask(undrafted, "Hi", 0, 2)
    assert one.body["system_fingerprint"] == other.body["system_fingerprint"]


def test_golden_ids(undrafted: Client, backend: str):
    """A change of these ids needs a line in the changelog."""
    recorded = json.loads(golden.FILE.read_text())
    if golden.key(backend) not in recorded:
        pytest.skip(f"no golden ids for {golden.key(backend)}; recorded: {', '.join(recorded)}")
    assert golden.replies(undrafted) == recorded[golden.key(backend)]


def test_the_comparison_can_fail(undrafted: Client, plain: dict, size: tuple[int, int]):
    """Control: another seed gives other ids, so equal ids above are not a constant reply."""
    prompt = PROMPTS[1]
    other = undrafted.chat(prompt, temperature=0.7, seed=8, max_tokens=size[1], draft=False)
    assert other.ids != plain[prompt, 0.7].ids

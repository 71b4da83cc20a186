"""When the copy proposer speaks, how much it says, and when it is silent."""

from __future__ import annotations

import ast
import sys
import tracemalloc
from pathlib import Path

import pytest
from pydantic import ValidationError

import tf_copy
from tf_copy.plugin import TOKEN_BYTES, CopyPlugin, CopyProposer, CopySettings
from tf_plugins.types import Draft, DraftRequest, Growth, Outcome

PACKAGE = Path(tf_copy.__file__).parent


def request(context: list[int], most: int = 15, stream: int = 1, end_ids: frozenset[int] = frozenset()) -> DraftRequest:
    return DraftRequest(stream, context, most, seed=0, temperature=0.0, position=len(context), end_ids=end_ids)


def opened(*streams: int, **settings: int) -> CopyProposer:
    proposer = CopyProposer(CopySettings(**settings))
    for stream in streams or (1,):
        proposer.open(stream, [], 100)
    return proposer


def one(proposer: CopyProposer, *args: object, **kwargs: object) -> tuple[int, ...] | None:
    (draft,) = proposer.propose([request(*args, **kwargs)])  # type: ignore[arg-type]
    assert draft is None or isinstance(draft, Draft)
    return draft and draft.tokens


def repeated(match: int, first: int = 10) -> list[int]:
    """A context whose last `match` tokens were seen before, followed then by first + 40, first + 41, ..."""
    seen = list(range(first, first + match))
    return [1, *seen, *range(first + 40, first + 60), 2, *seen]


@pytest.mark.parametrize(("match", "speaks"), [(3, False), (7, False), (8, True), (20, True)])
def test_a_copy_begins_on_eight_matched_tokens(match: int, speaks: bool) -> None:
    assert (one(opened(), repeated(match)) is not None) == speaks


@pytest.mark.parametrize(("match", "speaks"), [(3, False), (4, True), (7, True)])
def test_a_copy_that_landed_whole_goes_on_with_four(match: int, speaks: bool) -> None:
    proposer = opened()
    context = repeated(8)
    one(proposer, context)
    proposer.observe([Outcome(1, drafted=3, kept=3)])
    assert (one(proposer, [*context, *repeated(match, first=200)]) is not None) == speaks


def test_less_than_two_tokens_are_not_worth_a_row() -> None:
    proposer = opened()
    assert one(proposer, repeated(8), most=1) is None
    assert one(proposer, repeated(8), most=2) == (50, 51)
    assert one(proposer, repeated(8), end_ids=frozenset({50})) is None


def test_a_copy_stops_after_an_end_token() -> None:
    assert one(opened(start=10), repeated(8), end_ids=frozenset({52})) == (50, 51, 52)


def test_the_width_doubles_plus_one_and_falls_back_at_a_miss() -> None:
    proposer = opened()
    widths = []
    for kept in (3, 7, 15, 14, 3):
        drafted = len(one(proposer, repeated(8)) or ())
        widths.append(drafted)
        proposer.observe([Outcome(1, drafted, kept)])
    assert widths == [3, 7, 15, 15, 3]


def test_width_follows_what_was_verified_not_what_was_offered() -> None:
    proposer = opened()
    one(proposer, repeated(8))
    proposer.observe([Outcome(1, drafted=2, kept=2)])  # the round had room for two
    assert len(one(proposer, repeated(8)) or ()) == 5


def test_four_misses_in_a_row_silence_it_for_sixteen_calls() -> None:
    proposer = opened()
    for _ in range(4):
        assert one(proposer, repeated(8))
        proposer.observe([Outcome(1, 3, 0)])
    assert [one(proposer, repeated(8)) for _ in range(16)] == [None] * 16
    assert one(proposer, repeated(8))
    proposer.observe([Outcome(1, 3, 0)])  # and four more are needed
    assert one(proposer, repeated(8))


def test_a_kept_token_or_an_unjudged_copy_is_no_miss() -> None:
    proposer = opened()
    for kept, drafted in ((0, 3), (0, 3), (0, 3), (1, 3), (0, 3), (0, 3), (0, 0), (0, 0), (0, 3)):
        assert one(proposer, repeated(8))
        proposer.observe([Outcome(1, drafted, kept)])
    assert one(proposer, repeated(8))


def test_streams_do_not_share() -> None:
    proposer = opened(1, 2)
    new = list(range(1_000, 1_020))
    drafts = proposer.propose([request(repeated(8), stream=1), request(new, stream=2)])
    assert [draft and draft.tokens for draft in drafts] == [(50, 51, 52), None]
    for _ in range(4):
        proposer.observe([Outcome(1, 3, 0), Outcome(2, 0, 0)])
    drafts = proposer.propose([request(repeated(8), stream=1), request(new + repeated(8), stream=2)])
    assert [draft and draft.tokens for draft in drafts] == [None, (50, 51, 52)]


def test_a_stream_that_closed_is_forgotten_and_may_be_judged_late() -> None:
    proposer = opened()
    one(proposer, repeated(8))
    proposer.close(1)
    proposer.close(1)
    proposer.observe([Outcome(1, 3, 3)])
    proposer.open(1, [], 100)
    assert proposer.unread(1, 5) == 5
    assert one(proposer, list(range(20))) is None


def test_rejected_drafts_leave_nothing_behind() -> None:
    proposer, fresh = opened(), opened()
    context = repeated(8)
    one(proposer, context)
    proposer.observe([Outcome(1, 3, 1)])
    context = [*context, 50, 99, *repeated(9)]  # one draft kept, then the target's own token, then more at once
    assert one(proposer, context) == one(fresh, context)


def test_unread_counts_down() -> None:
    proposer = opened()
    context = repeated(8)
    assert proposer.unread(1, len(context)) == len(context)
    one(proposer, context)
    assert proposer.unread(1, len(context)) == 0
    assert proposer.unread(1, len(context) + 3) == 3


def test_reading_ahead_takes_a_piece_and_changes_no_draft() -> None:
    proposer, context = opened(), repeated(8)
    proposer.read(1, context, 5)
    assert proposer.unread(1, len(context)) == len(context) - 5
    proposer.read(1, context, 5)
    assert proposer.unread(1, len(context)) == len(context) - 10
    assert one(proposer, context) == one(opened(), context) != None  # noqa: E711


def test_memory_stays_within_what_growth_says() -> None:
    proposer, tokens = opened(), 20_000
    context = [(i * 7_919) % 49_152 + 1_000 for i in range(tokens)]  # every n-gram new: the most that it can take
    tracemalloc.start()
    one(proposer, context)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert proposer.growth(context, tokens) == Growth(new=tokens * TOKEN_BYTES)
    assert taken <= tokens * TOKEN_BYTES


def test_nothing_is_kept_of_streams_that_ended() -> None:
    proposer = opened(1, 2)
    proposer.close(1)
    assert proposer.kept() == 0
    assert proposer.shed(0) == 0
    proposer.release()


def test_the_plugin_gives_one_proposer_with_its_settings() -> None:
    plugin = CopyPlugin(CopySettings(enter_match=4))
    (proposer,) = plugin.proposers()
    proposer.open(1, [], 100)
    assert one(proposer, repeated(4))  # type: ignore[arg-type]
    assert (proposer.name, proposer.label) == ("copy", "copies")
    assert CopyPlugin.api_version == 1


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(ValidationError):
        CopySettings.model_validate({"entermatch": 8})


def test_it_stays_an_example_under_160_lines_with_no_other_imports() -> None:
    sources = list(PACKAGE.glob("**/*.py"))
    assert sum(len(path.read_text().splitlines()) for path in sources) < 160
    roots = set()
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                roots |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                roots.add((node.module or "").split(".")[0])
    assert roots - set(sys.stdlib_module_names) == {"tf_plugins", "tf_copy", "pydantic"}

"""What depths are told of drafts that were offered and not verified."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.model import FakeModel
from tests.fakes.proposers import FakeProposer, oracle
from tf_host.lanes import FixedDepths
from tf_host.lanes.depths import NEITHER, Cut, Offer, Outcome, RoundSample

WANTED = request([1, 2, 3], 60)
REPLY = naive(WANTED)[0]
REPLIES = {WANTED.prompt: REPLY}


class Cutting(FixedDepths):
    """Asks for three drafts, verifies so many of them, and keeps what it is told of rounds."""

    def __init__(self, verified: int) -> None:
        super().__init__(3)
        self.rounds: list[RoundSample] = []
        self._verified = verified

    def record_round(self, sample: RoundSample) -> None:
        self.rounds.append(sample)

    def trim(self, offers: Sequence[Offer]) -> Mapping[int, Cut]:
        return {offer.stream: Cut(min(self._verified, offer.tokens)) for offer in offers}


def served(verified: int, right: int) -> tuple[list[Outcome], FakeProposer]:
    """Outcomes of rounds for which three drafts were offered, of which the first ``right`` are the target's own."""
    depths, proposer = Cutting(verified), FakeProposer(oracle(REPLIES, right))
    [sink] = decode(make_lanes(FakeModel(), proposers=[proposer], depths=depths), WANTED)
    assert sink.tokens == REPLY
    return [o for sample in depths.rounds for o in sample.outcomes if o.proposer is not None], proposer


@pytest.mark.parametrize(
    ("verified", "right", "told"),
    [
        (1, 3, (1, 1, 0)),
        (1, 1, (1, 1, NEITHER)),
        (2, 0, (2, 0, NEITHER)),
        (0, 3, (0, 0, 0)),
        (0, 0, (0, 0, NEITHER)),
        (3, 3, (3, 3, None)),
    ],
    ids=["cut off and right", "cut off and wrong", "verified and wrong", "none and right", "none and wrong", "all"],
)
def test_the_target_s_own_token_is_looked_for_in_what_was_offered(
    verified: int, right: int, told: tuple[int, int, int | None]
) -> None:
    outcomes, _ = served(verified, right)
    seen = Counter((o.drafted, o.kept, o.next) for o in outcomes)
    assert seen.most_common(1)[0][0] == told  # at bucket edges fewer are offered
    assert {next for drafted, _, next in seen if drafted == verified} <= {told[2], None}


def test_a_proposer_is_not_told_of_drafts_that_nobody_verified() -> None:
    outcomes, proposer = served(0, 3)
    assert len(outcomes) > 30
    assert proposer.outcomes == []


def test_after_a_draft_that_nobody_verified_the_next_one_is_asked_for() -> None:
    """Plain rounds are queued while nobody has a draft, and here somebody has one in every round."""
    depths, proposer = Cutting(0), FakeProposer(oracle(REPLIES, 3))
    depths.free = lambda proposer: True  # type: ignore[method-assign]
    [sink] = decode(make_lanes(FakeModel(chains=True), proposers=[proposer], depths=depths), WANTED)
    assert sink.tokens == REPLY
    queued = sum(sample.queued for sample in depths.rounds)
    assert queued < len(depths.rounds) / 10  # only where nothing fits

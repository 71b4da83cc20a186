"""Checks for a plugin that owns the ledger."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tf_plugins.errors import Refused
from tf_plugins.testing.facts import CONTEXT, GIB, resources
from tf_plugins.testing.ledger import World
from tf_plugins.testing.plugin import PluginChecks
from tf_plugins.testing.refusal import check_refusal
from tf_plugins.types import Admission, Resources

_TOKEN = 4 << 20
"""Bytes of a token: large, so that the budget is a matter of a few streams."""


class AdmissionChecks(PluginChecks):
    """Does every byte go through the ledger?

    The streams, the drafter and the prompt states are counters that report what would be allocated; nothing is.
    """

    seeds: int = 20
    """How many random histories are played."""

    steps: int = 60
    """Admissions and ends in each."""

    def make_admission(self, resources: Resources) -> Admission:
        """The plugin's answer to the hook."""
        answer: Admission | None = self.hooks().ask("admission", resources=resources)
        assert answer is not None, "the plugin answers None to `admission`, which leaves the ledger to another plugin"
        return answer

    def world(self, **fields: Any) -> tuple[World, Admission]:
        """An empty server of 16 GiB, and its admission."""
        world = World.made(_TOKEN)
        facts: dict[str, Any] = {
            "bytes_for": world.bytes_for,
            "stream_bytes": world.bytes_for(CONTEXT),
            "shedding": {"drafter": world.drafter},
            "states": world.states,
        }
        admission = self.make_admission(resources(**{**facts, **fields}))
        world.live.budget = admission.budget
        return world, admission

    def test_it_answers_with_room_for_a_stream(self) -> None:
        """A budget that holds the longest stream, and at least one stream at once."""
        world, admission = self.world()
        assert admission.budget >= world.bytes_for(CONTEXT)
        assert 1 <= admission.parallel <= 4

    def test_too_little_memory_refuses_the_start(self) -> None:
        """Where not even one stream fits, the start is refused with the number that would do."""
        with pytest.raises(Refused) as raised:
            self.world(memory=2 * GIB)
        refusal = raised.value.refusal
        check_refusal(refusal, of_request=False)
        assert any(letter.isdigit() for letter in refusal.hint), f"the hint names no number: {refusal.hint!r}"

    def test_the_budget_is_never_passed(self) -> None:
        """Streams of all sizes come and go, with kept caches and states about: no byte past the budget."""
        for seed in range(self.seeds):
            self._play(random.Random(seed))

    def test_the_budget_is_what_was_given(self) -> None:
        """``limit`` where one is given, else the device's memory; the weights are taken off either."""
        weights = 2 * GIB
        for fields, given in (({}, 16 * GIB), ({"limit": 9 * GIB}, 9 * GIB)):
            _, admission = self.world(weights=weights, **fields)
            assert admission.budget <= given - weights, f"{fields or 'memory'}: the budget is {admission.budget} bytes"

    def test_used_is_what_is_allocated(self) -> None:
        """``used`` adds up to what was made, whatever kind it is counted as."""
        world, admission = self.world()
        assert admission.admit(world.demand(1, 300))
        world.states.add(_TOKEN)
        assert sum(admission.used().values()) == world.live.nbytes
        world.end(admission, 1)
        assert sum(admission.used().values()) == world.live.nbytes

    def test_a_failed_allocation_gives_everything_back(self) -> None:
        """What ``allocate`` raises comes through, and the ledger is as it was."""
        world, admission = self.world()
        before = dict(admission.used())
        with pytest.raises(MemoryError):
            admission.admit(world.demand(1, 300, fails=True))
        assert dict(admission.used()) == before
        assert admission.admit(world.demand(1, 300)), "the failed stream still holds its bytes"

    def test_a_stream_that_waits_touches_nothing(self) -> None:
        """``False`` from ``admit`` made and trimmed nothing; kept drafter caches may have been shed."""
        world, admission = self.world()
        tokens = CONTEXT - 40  # so that a number of them does not fill the budget to the byte
        number = 0
        while admission.admit(world.demand(number, tokens, name=f"stream {number}")):
            number += 1
        world.states.add(admission.budget - world.live.nbytes)
        before, allocated = dict(admission.used()), world.live.nbytes
        assert not admission.admit(world.demand(number, tokens, name="one more"))
        assert (dict(admission.used()), world.live.nbytes) == (before, allocated)

    def test_parallel_is_the_limit(self) -> None:
        """However small the streams are, no more than ``parallel`` at once."""
        world, admission = self.world()
        admitted = [number for number in range(20) if admission.admit(world.demand(number, 1))]
        assert admission.parallel <= 4
        assert len(admitted) == admission.parallel
        world.end(admission, admitted[0])
        assert admission.admit(world.demand(99, 1))

    def test_a_given_parallel_is_held(self) -> None:
        """No more than was asked for; where as many as fit were asked for, no more than would."""
        for parallel in (1, 2):
            assert self.world(parallel=parallel)[1].parallel == parallel
        world, admission = self.world(parallel=None)
        assert 1 <= admission.parallel <= admission.budget // world.bytes_for(1)

    def test_what_can_never_fit_is_refused(self) -> None:
        """A stream that does not fit even alone gets a refusal, before it queues."""
        world, admission = self.world()
        refusal = admission.never(world.demand(1, 100 * CONTEXT))
        check_refusal(refusal)
        assert admission.never(world.demand(1, CONTEXT)) is None

    def test_a_stream_alone_is_not_kept_waiting(self) -> None:
        """With nothing running, whatever was not refused is admitted, however much is kept."""
        world, admission = self.world()
        for number in range(30):
            if admission.admit(world.demand(number, CONTEXT, name=f"stream {number}")):
                world.end(admission, number)
        while world.live.nbytes + _TOKEN <= admission.budget:
            world.states.add(_TOKEN)
        demand = world.demand(99, CONTEXT, name="new", restore=world.states.entries[0])
        assert admission.never(demand) is None
        assert admission.admit(demand)

    def test_releasing_what_holds_nothing_is_no_error(self) -> None:
        """The lanes release every stream, also one that was never admitted."""
        _, admission = self.world()
        before = dict(admission.used())
        admission.release(12_345)
        assert dict(admission.used()) == before

    def test_only_reserved_states_may_be_kept(self) -> None:
        """``keep`` says no to a stream that it does not know, and to more bytes than the stream asked for."""
        world, admission = self.world()
        assert not admission.keep(12_345, _TOKEN)
        assert admission.admit(world.demand(1, 100, keep=(_TOKEN,)))
        assert not admission.keep(1, 2 * _TOKEN)

    def test_a_reserved_state_is_kept_once(self) -> None:
        """``keep`` says yes at most as often as the stream asked for."""
        world, admission = self.world()
        assert admission.admit(world.demand(1, 100, keep=(_TOKEN, _TOKEN)))
        assert sum(admission.keep(1, _TOKEN) for _ in range(5)) <= 2

    def test_reserved_states_stay_within_the_budget(self) -> None:
        """Bytes that were promised to one stream's prompt state are not another's: both would be made."""
        for tokens in range(CONTEXT // 4, CONTEXT + 1, CONTEXT // 4):
            world, admission = self.world()
            free = admission.budget - world.bytes_for(1)
            assert admission.admit(world.demand(1, 1, keep=(free - _TOKEN,)))
            admission.admit(world.demand(2, tokens, name="b"))
            if admission.keep(1, free - _TOKEN):
                world.states.add(free - _TOKEN)

    def test_states_are_kept_within_their_limit(self) -> None:
        """However much room there is, no more is kept than ``states_limit``."""
        limit = 10 * _TOKEN
        world, admission = self.world(states_limit=limit)
        for stream in range(8):
            keep = (4 * _TOKEN, 3 * _TOKEN, 11 * _TOKEN)
            assert admission.admit(world.demand(stream, 10, keep=keep))
            for nbytes in keep:
                if admission.keep(stream, nbytes):
                    world.states.add(nbytes)
                assert world.states.nbytes() <= limit, f"{world.states.nbytes()} bytes are kept of {limit}"
            world.end(admission, stream)

    def _play(self, rng: random.Random) -> None:
        world, admission = self.world()
        planned: dict[int, list[int]] = {}
        for stream in range(self.steps):
            if world.streams and rng.random() < 0.4:
                world.end(admission, rng.choice(list(world.streams)))
            # A prompt is read in turns with others: its states are made later, and some never.
            for one in [one for one in world.streams if rng.random() < 0.5]:
                for nbytes in planned.pop(one, ()):
                    if admission.keep(one, nbytes):
                        world.states.add(nbytes)
            tokens = rng.choice((1, 30, 200, 500, CONTEXT))
            keep = tuple(rng.randrange(1, 60) * _TOKEN for _ in range(rng.randrange(3)))
            restore = rng.choice(world.states.entries) if world.states.entries and rng.random() < 0.3 else None
            demand = world.demand(stream, tokens, name=rng.choice("abcd"), restore=restore, keep=keep)
            if admission.never(demand) is None and admission.admit(demand):
                planned[stream] = list(keep)
        for stream in list(world.streams):
            world.end(admission, stream)
        assert sum(admission.used().values()) == world.live.nbytes

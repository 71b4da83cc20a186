"""The plugin `copy`: when to offer a copy, how wide, and when to rest."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from tf_copy.lookup import SuffixLookup
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Costs, Draft, DraftRequest, Growth, Outcome, Proposer

TOKEN_BYTES = 256  # host memory that a token takes in a lookup, at most


class CopySettings(BaseModel):
    """The table `[plugins.copy]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enter_match: int = Field(default=8, ge=1, description="matched tokens that begin a copy")
    min_match: int = Field(default=4, ge=1, description="matched tokens that go on with one that landed whole")
    start: int = Field(default=3, ge=2, description="tokens copied at first; doubled, plus one, after a whole copy")
    misses: int = Field(default=4, ge=1, description="judged copies in a row with nothing kept, then it rests")
    rest: int = Field(default=16, ge=0, description="rounds that a rest lasts")


@dataclass
class Stream:
    lookup: SuffixLookup
    width: int
    copying: bool = False  # the last copy landed whole
    missed: int = 0
    resting: int = 0


class CopyProposer:
    """Drafts what followed the longest earlier match of a stream's last tokens."""

    name = "copy"
    label = "copies"

    def __init__(self, settings: CopySettings) -> None:
        self._settings = settings
        self._streams: dict[int, Stream] = {}

    def growth(self, context: Sequence[int], tokens: int) -> Growth:
        return Growth(new=tokens * TOKEN_BYTES)

    def open(self, stream: int, context: Sequence[int], tokens: int) -> None:
        self._streams[stream] = Stream(SuffixLookup(), self._settings.start)

    def unread(self, stream: int, length: int) -> int:
        return length - len(self._streams[stream].lookup.tokens)

    def read(self, stream: int, context: Sequence[int], most: int) -> None:
        lookup = self._streams[stream].lookup
        lookup.read(context[: len(lookup.tokens) + most])

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft | None]:
        return [self._propose(self._streams[request.stream], request) for request in requests]

    def _propose(self, stream: Stream, request: DraftRequest) -> Draft | None:
        stream.lookup.read(request.context)
        if stream.resting:
            stream.resting -= 1
            return None
        length, place = stream.lookup.longest()
        if length < (self._settings.min_match if stream.copying else self._settings.enter_match):
            return None
        copied = stream.lookup.copy(place, min(request.most, stream.width), request.end_ids)
        return Draft(tuple(copied)) if len(copied) >= 2 else None

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.drafted and (stream := self._streams.get(outcome.stream)):
                stream.copying = outcome.kept == outcome.drafted
                stream.width = 2 * outcome.drafted + 1 if stream.copying else self._settings.start
                stream.missed = 0 if outcome.kept else stream.missed + 1
                if stream.missed == self._settings.misses:
                    stream.missed, stream.resting = 0, self._settings.rest

    def close(self, stream: int) -> None:
        self._streams.pop(stream, None)

    def kept(self) -> int:
        return 0

    def shed(self, room: int) -> int:
        return 0

    def costs(self) -> Costs:
        return Costs()

    def release(self) -> None:
        self._streams.clear()


class CopyPlugin(Plugin):
    """Copies. Named before a drafter in the settings, they are asked before it."""

    api_version = 1
    Settings = CopySettings

    @hookimpl
    def proposers(self) -> Sequence[Proposer]:
        return (CopyProposer(self.settings or CopySettings()),)

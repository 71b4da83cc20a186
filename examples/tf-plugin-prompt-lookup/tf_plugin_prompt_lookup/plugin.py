"""The plugin ``prompt-lookup``."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from tf_plugin_prompt_lookup.lookup import PromptIndex
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Costs, Draft, DraftRequest, Growth, Outcome, Proposer, StreamDone

log = logging.getLogger(__name__)

NAME = "prompt-lookup"

# A prompt is held as a tuple, and each of its n-grams as a key: about this much host memory a token.
TOKEN_BYTES = 320


class PromptLookupSettings(BaseModel):
    """The table ``[plugins.prompt-lookup]``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ngram: int = Field(3, ge=2, le=16, description="tokens that have to match")
    tokens: int = Field(10, ge=1, le=15, description="tokens proposed at most")


class PromptLookup:
    """Implements ``tf_plugins.types.Proposer``; stateless but for an index of each stream's prompt."""

    name = NAME
    label = "prompt lookup"

    def __init__(self, settings: PromptLookupSettings) -> None:
        self._settings = settings
        self._indexes: dict[int, PromptIndex] = {}

    def growth(self, context: Sequence[int], tokens: int) -> Growth:
        return Growth(new=TOKEN_BYTES * tokens)

    def open(self, stream: int, context: Sequence[int], tokens: int) -> None:
        self._indexes[stream] = PromptIndex(context, self._settings.ngram)

    def unread(self, stream: int, length: int) -> int:
        return 0

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft | None]:
        return [self._draft(request) for request in requests]

    def _draft(self, request: DraftRequest) -> Draft | None:
        most = min(request.most, self._settings.tokens)
        tokens = self._indexes[request.stream].after(request.context, most)
        end = next((at for at, token in enumerate(tokens, 1) if token in request.end_ids), len(tokens))
        return Draft(tokens[:end]) if tokens else None

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        return None

    def close(self, stream: int) -> None:
        self._indexes.pop(stream, None)

    def kept(self) -> int:
        return 0

    def shed(self, room: int) -> int:
        return 0

    def costs(self) -> Costs:
        return Costs()

    def release(self) -> None:
        self._indexes.clear()


class PromptLookupPlugin(Plugin):
    """Proposes, and logs what became of it."""

    api_version = 1
    Settings = PromptLookupSettings

    @hookimpl
    def proposers(self) -> Sequence[Proposer]:
        return (PromptLookup(self.settings),)

    @hookimpl
    def stream_done(self, stream: StreamDone) -> None:
        if drafted := stream.drafted.get(NAME):
            kept = stream.kept.get(NAME, 0)
            log.info("%s: %d of %d tokens looked up in the prompt were kept", stream.id, kept, drafted)

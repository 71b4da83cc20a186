"""The kit's engine takes a plugin's probabilities, and asks for whole drafts and for drafts that may end early."""

from __future__ import annotations

from tests.testing.good import EchoPlugin, Unsure
from tf_plugins.testing import Engine
from tf_plugins.types import Draft, DraftRequest

PROMPT = "the cat sat on the mat and the dog sat on the mat and the"


def test_drafts_end_early_in_some_places(tf_engine: Engine) -> None:
    with tf_engine(EchoPlugin) as server:
        plain = server.reply(PROMPT, draft=False).tokens
    seen: list[tuple[float, int, Draft]] = []

    class Watched(Unsure):
        """Its drafts are right."""

        def one(self, request: DraftRequest) -> Draft | None:
            at = len(request.context) - len(PROMPT)
            right = plain[at : at + 4]
            found = super().one(request)
            if found is None:
                return None
            draft = Draft(right[: len(found.tokens)], (), ((0.6,),) * len(right[: len(found.tokens)]))
            seen.append((request.least, request.most, draft))
            return draft

    with tf_engine(type("WatchedPlugin", (EchoPlugin,), {"proposer": Watched})) as server:
        reply = server.reply(PROMPT)
    assert reply.tokens == plain
    long = {(least, len(draft.tokens)) for least, most, draft in seen if most >= 4}
    assert long == {(0.0, 4), (0.5, 2)}
    assert reply.kept["unsure"] == reply.drafted["unsure"] > len(plain) / 2

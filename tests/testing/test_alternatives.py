"""The kit's engine verifies a plugin's alternatives, so that its author sees them stand."""

from __future__ import annotations

from collections.abc import Sequence

from tests.testing.good import Echo, EchoPlugin
from tf_plugins.testing import Engine
from tf_plugins.types import Draft, DraftRequest

PROMPT = "the cat sat on the mat and the dog sat on the mat and the"


def test_an_alternative_that_is_the_target_s_own_lands(tf_engine: Engine) -> None:
    with tf_engine(EchoPlugin) as server:
        plain = server.reply(PROMPT, draft=False).tokens
    asked: set[int] = set()

    class Beside(Echo):
        """Its draft is wrong, and the second of its alternatives is the reply's token."""

        name = "beside"

        def propose(self, requests: Sequence[DraftRequest]) -> Sequence[Draft | None]:
            asked.update(request.alternatives for request in requests)
            right = [plain[len(request.context) - len(PROMPT)] for request in requests]
            return [Draft(((token + 1) % 256,), (((token + 2) % 256, token),)) for token in right]

    with tf_engine(type("BesidePlugin", (EchoPlugin,), {"proposer": Beside})) as server:
        reply = server.reply(PROMPT)
    assert reply.tokens == plain
    assert asked == {3}
    assert reply.kept["beside"] > len(plain) / 3
    assert reply.rounds < 0.7 * len(plain)

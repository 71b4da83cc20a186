"""Who takes the drafter: without anybody, a server that was asked for one would draft without it in silence."""

from __future__ import annotations

import pluggy

from tf_host.plugins.checks import HOOKS
from tf_plugins.types import TargetFacts

(_TARGET,) = HOOKS["proposers"]


def may_take(hook: pluggy.HookCaller) -> bool:
    """Whether a plugin's ``proposers`` may look at the drafter: one that does not take ``target`` cannot."""
    return any(_TARGET in implementation.argnames for implementation in hook.get_hookimpls())


class SeenTarget(TargetFacts):
    """The facts for one plugin, which remember whether it looked at the drafter."""

    __slots__ = ("looked",)
    looked: bool

    @classmethod
    def of(cls, facts: TargetFacts) -> SeenTarget:
        """A copy that nobody looked at yet."""
        seen = cls(**{name: getattr(facts, name) for name in TargetFacts.__dataclass_fields__})
        object.__setattr__(seen, "looked", False)
        return seen

    def __getattribute__(self, name: str) -> object:
        if name == "drafter":
            object.__setattr__(self, "looked", True)
        return super().__getattribute__(name)

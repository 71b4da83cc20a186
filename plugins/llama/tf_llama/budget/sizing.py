"""What a start has to give: the budget, and whether one stream fits in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from tf_llama.budget.sizes import GIB, gib, most_tokens
from tf_plugins import Refused
from tf_plugins.types import Refusal, Resources

# Activations of a prompt chunk and compile variants grow with the model, and a model is chosen for its machine.
_RESERVE_SHARE, _RESERVE_LEAST, _RESERVE_MOST = 16, GIB // 2, 4 * GIB


class BudgetSettings(BaseModel):
    """``[plugins.llama-budget]``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: float = Field(
        default=0.7, gt=0, le=1, description="Share of the device's memory to use without --memory-gib."
    )
    reserve_gib: float | None = Field(
        default=None,
        ge=0,
        description="GiB left for activations and compiled variants; by default a 16th of the memory used, "
        "at least 0.5 and at most 4.",
    )
    most_streams: int = Field(default=64, ge=1, description="Most streams at once when --parallel is auto.")


@dataclass(frozen=True, slots=True)
class Sizing:
    """Where the memory goes, in bytes: ``total = weights + reserve + budget``."""

    total: int
    weights: int
    reserve: int
    budget: int
    parallel: int

    def __str__(self) -> str:
        return (
            f"memory {gib(self.total)}: weights {gib(self.weights)}, reserve {gib(self.reserve)}, "
            f"{gib(self.budget)} for caches and kept prompts"
        )


def size(resources: Resources, settings: BudgetSettings) -> Sizing:
    """The sizing of a start; raises ``Refused`` with the number that would fit when one stream does not."""
    total = int(settings.share * resources.memory) if resources.limit is None else resources.limit
    reserve = _reserve(total, settings)
    budget = total - resources.weights - reserve
    if budget < resources.stream_bytes:
        raise Refused(_refusal(resources, settings, total, reserve, max(0, budget)))
    parallel = resources.parallel or min(budget // max(1, resources.stream_bytes), settings.most_streams)
    return Sizing(total, resources.weights, reserve, budget, parallel)


def _reserve(total: int, settings: BudgetSettings) -> int:
    if settings.reserve_gib is not None:
        return int(settings.reserve_gib * GIB)
    return min(max(total // _RESERVE_SHARE, _RESERVE_LEAST), _RESERVE_MOST)


def _refusal(resources: Resources, settings: BudgetSettings, total: int, reserve: int, budget: int) -> Refusal:
    fits = most_tokens(resources.bytes_for, budget, resources.context)
    source = "--memory-gib" if resources.limit is not None else f"{settings.share:.0%} of the device's memory"
    return Refusal(
        name="memory_budget",
        reason=(
            f"one stream of --context {resources.context} takes {gib(resources.stream_bytes)}, and "
            f"{gib(total)} ({source}) leaves {gib(budget)} beside {gib(resources.weights)} of weights "
            f"and a reserve of {gib(reserve)}"
        ),
        hint=_way_out(resources, settings, fits),
        param="--context" if fits else "--memory-gib",
    )


def _way_out(resources: Resources, settings: BudgetSettings, fits: int) -> str:
    """What to ask for instead, no more than the device has; ``fits`` tokens fit as it is."""
    needed, memory = _needed(resources, settings), resources.memory
    if needed * GIB <= memory:
        return (f"--context {fits} fits, or " if fits else "no context fits; ") + f"--memory-gib {needed:g} would do"
    most = math.floor(memory / GIB * 10) / 10
    budget = int(most * GIB) - _reserve(int(most * GIB), settings) - resources.weights
    shorter = most_tokens(resources.bytes_for, budget, resources.context)
    ways = [f"--context {fits} fits"] if fits else []
    if shorter > fits:
        ways.append(f"--memory-gib {most:g} with --context {shorter} would do")
    if not ways:
        nothing = f"no --memory-gib makes it fit in the device's {gib(memory)}"
        return f"{nothing}: serve a smaller checkpoint, or this one on a machine with more memory"
    whole = f"--context {resources.context} takes {needed:g} GiB in all, and the device has {gib(memory)}"
    return f"{', or '.join(ways)}; {whole}"


def _needed(resources: Resources, settings: BudgetSettings) -> float:
    """GiB in all that one stream of the whole context takes, in tenths."""
    bare = resources.weights + resources.stream_bytes
    needed = math.ceil(bare / GIB * 10) / 10
    # The reserve grows with the total, so the total that fits is found in its own steps.
    while needed * GIB - _reserve(int(needed * GIB), settings) < bare:
        needed = round(needed + 0.1, 1)
    return needed

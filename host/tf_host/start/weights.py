"""Whether the weights fit, asked before they are read: to load them and to prove their rows takes minutes."""

from __future__ import annotations

import math

from tf_host.checkpoints import Pair
from tf_plugins import Refused
from tf_plugins.types import Device, Refusal

__all__ = ["refuse_weights"]

GIB = 1 << 30

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Of a number, in the dtypes that ``--dtype`` takes."""


def refuse_weights(pair: Pair, device: Device, memory: int, limit: int | None, context: int) -> None:
    """Refuse weights that take more than there is, the target's as they are served and the drafter's as stored.

    Weights in a dtype that ``--dtype`` does not take, as packed ones are, count as stored on any device. A context of
    which not one stream fits beside them is refused too. What else is needed is the ledger's to weigh, once everything
    is loaded.

    Args:
        pair: target and drafter, their weights not read yet.
        device: what they will be served on.
        memory: bytes of the device's memory.
        limit: bytes given with ``--memory-gib``, or ``None``.
        context: the served context in tokens.

    Raises:
        Refused: target and drafter together, or they and one stream, are past ``limit``, or past ``memory`` where there
            is none.
    """
    room = memory if limit is None else limit
    stored = pair.target.dtype
    dtype = device.dtype if device.dtype in _BYTES and stored in _BYTES else stored
    target = pair.target.weight_bytes * _BYTES.get(dtype, 1) // _BYTES.get(stored, 1)
    drafter = pair.drafter.weight_bytes if pair.drafter else 0
    names = f"{pair.target.name} and {pair.drafter.name}" if pair.drafter else pair.target.name
    there = f"the {_gib(memory)} that the device has" if limit is None else f"the {_gib(limit)} of --memory-gib"
    if target + drafter <= room:
        a_token = pair.target.kv_bytes * _BYTES.get(dtype, 2) // 2
        if target + drafter + context * a_token > room:
            fits = (room - target - drafter) // a_token
            raise Refused(
                Refusal(
                    "memory_budget",
                    f"one stream of --context {context} takes {_gib(context * a_token)} beside the weights of {names},"
                    f" {_gib(target + drafter)} in {dtype}: past {there}",
                    f"give a --context of less than {fits}; a reserve comes on top",
                    param="--context",
                )
            )
        return
    narrow = f"give --dtype {'bfloat16' if stored == dtype else stored}"
    half = target // 2 if dtype == "float32" else target
    less = {"": target + drafter, narrow: half + drafter, "leave out --drafter": target}
    ways = [_way(change, nbytes, room, memory) for change, nbytes in less.items() if not change or nbytes < less[""]]
    fitting = ", or ".join(filter(None, ways)) or _way(f"{narrow}, leave out --drafter", half, room, memory)
    raise Refused(
        Refusal(
            "memory_budget",
            f"the weights of {names} take {_gib(target + drafter)} in {dtype}, past {there}",
            f"{fitting}; caches and a reserve come on top" if fitting else _NO_WAY,
            param="MODEL" if limit is None else "--memory-gib",
        )
    )


_NO_WAY = "no setting makes it fit here: serve a smaller checkpoint, or this one on a machine with more memory"


def _way(change: str, nbytes: int, room: int, memory: int) -> str:
    """A change that leaves ``nbytes`` of weights, with the memory to give where ``room`` is too little for them."""
    if nbytes <= room:
        return change
    if nbytes >= memory:
        return ""
    more = f"give --memory-gib above {math.ceil(nbytes / GIB * 10) / 10:g}"
    return f"{change} and {more}" if change else more


def _gib(nbytes: int) -> str:
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= GIB // 10 else f"{nbytes / (1 << 20):.1f} MiB"

"""A reply decoded twice: one row at a time, and through windows with wrong drafts and neighbours."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from tf_plugins.rows import RowPlan
from tf_plugins.types import Cache, Leaf, Model, TakesLeaves, Window

REPLY = 128
"""Reply tokens that are compared."""

PROMPT = 200
"""Prompt tokens, so that the reply crosses the first bucket edge (256)."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first row that a window computed otherwise than a single step."""

    position: int
    rows: int
    shared: bool
    leaf: bool = False

    def __str__(self) -> str:
        beside = " beside another stream" if self.shared else ""
        leaf = ", a leaf," if self.leaf else ""
        return f"position {self.position}{leaf} in a window of {self.rows} rows{beside}"


def replay(
    model: Model, plan: RowPlan, sample: Sequence[int], reply: int = REPLY, prompt_tokens: int = PROMPT
) -> Difference | None:
    """Decode greedily one row a forward, then the same reply in windows, and compare the logits' bits row by row.

    Windows of every size up to the band's top are used, half of them with wrong tokens after a right prefix (so
    rejected rows are left behind), every third beside a neighbour's window. Where the model takes leaves, the reply's
    token stands beside each first wrong one, and beside the first right one, as often as there is room. Needs no
    sampling: bits of logits decide every draw.

    Args:
        model: with ``plan`` in use.
        plan: the plan under test.
        sample: ids of a real text.
        reply: tokens to compare.
        prompt_tokens: how many of ``sample`` are the prompt; fewer where the context is short.

    Returns:
        The first difference, or ``None``.
    """
    reply = min(reply, plan.context // 2)
    prompt = list(sample[: min(prompt_tokens, plan.context - reply - 1)])
    tokens, digests = _single_steps(model, plan, prompt, reply)
    cache = _read(model, plan, prompt, reply)
    neighbour = _read(model, plan, list(reversed(prompt)), reply)
    takes_leaves = isinstance(model, TakesLeaves) and model.takes_leaves
    last = prompt[0]
    done, turn = 0, 0
    while done < reply:
        # 7 and the band's size share no factor worth naming, so sizes and turns mix. The 17th row is there for a band
        # of 16 and 32 rows: without it everything would run at one width.
        rows = min(1 + turn * 7 % min(plan.top, 17), reply - done, plan.room(cache.length))
        right = rows if turn % 2 else max(1, rows // 2)
        window = tokens[done : done + right] + [
            (t + 1) % model.checkpoint.vocab for t in tokens[done + right : done + rows]
        ]
        shared = turn % 3 == 2 and rows < plan.top
        spare = min(plan.top - rows - shared, plan.room(cache.length) - rows) if takes_leaves else 0
        leaves = _leaves(tokens[done + 1 :], rows - 1, right - 1, max(0, spare), model.checkpoint.vocab)
        windows = [Window(cache, window, leaves)]
        if shared:
            windows.insert(turn % 2, Window(neighbour, [last]))
        logits = model.verify(windows)
        mx.eval(logits)
        first = 1 if shared and windows[0].cache is neighbour else 0
        for row in range(right):
            if _digest(logits[first + row]) != digests[done + row]:
                return Difference(cache.length + row, rows, shared)
        stood = None
        for row, leaf in enumerate(leaves, rows):
            if leaf.token != tokens[done + 1 + leaf.place]:
                continue
            if _digest(logits[first + row]) != digests[done + 1 + leaf.place]:
                return Difference(cache.length + 1 + leaf.place, rows, shared, leaf=True)
            stood = row if leaf.place == right - 1 else stood
        if stood is not None and isinstance(model, TakesLeaves):
            model.keep_leaf(cache, right + 1, stood)
        else:
            model.keep(cache, right)
        if shared and plan.room(neighbour.length) > 1:
            model.keep(neighbour, 1)
        done += right + (stood is not None)
        turn += 1
    return None


def _leaves(reply: Sequence[int], drafts: int, wrong: int, most: int, vocab: int) -> list[Leaf]:
    """The reply's tokens in the places of the first wrong draft and of the first; where there is room, another before
    them."""
    places = [place for place in dict.fromkeys((wrong, 0)) if place < drafts]
    leaves = [Leaf(place, reply[place]) for place in places][:most]
    if leaves and len(leaves) < most:
        leaves.insert(0, Leaf(leaves[0].place, (reply[leaves[0].place] + 2) % vocab))
    return leaves


def _single_steps(model: Model, plan: RowPlan, prompt: list[int], reply: int) -> tuple[list[int], list[bytes]]:
    """The pending tokens of a greedy reply, one row a forward, and the digest of each row's logits."""
    cache = _read(model, plan, prompt, reply)
    tokens, digests = [prompt[-1]], []
    for _ in range(reply):
        logits = model.verify([Window(cache, tokens[-1:])])[0]
        mx.eval(logits)
        if not mx.all(logits == logits).item():
            raise ArithmeticError("the model's logits are not numbers: its weights are broken, or its forward failed")
        digests.append(_digest(logits))
        tokens.append(int(mx.argmax(logits).item()))  # type: ignore[arg-type]
        model.keep(cache, 1)
    return tokens[:-1], digests


def _read(model: Model, plan: RowPlan, prompt: list[int], reply: int) -> Cache:
    cache = model.make_cache(min(len(prompt) + reply + 1, plan.context))
    for begin, end in plan.chunks(prompt):
        model.prefill(cache, prompt[begin:end])
    return cache


def _digest(row: mx.array) -> bytes:
    """Digest of a row's bits, whatever its dtype."""
    return hashlib.blake2b(bytes(mx.contiguous(row.view(mx.uint8))), digest_size=16).digest()

"""What must hold of exact rows, as functions that raise ``AssertionError`` where it does not."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import mlx.core as mx

from tests.llama.tiny import ids, read
from tf_llama.model import LlamaModel
from tf_plugins.types import TileCheck, WidthCheck, Window

PROMPT = 200
"""Prompt tokens: the reply crosses a bucket edge (256)."""

REPLY = 128


def bits(row: mx.array) -> bytes:
    """A digest of an array's bits."""
    return hashlib.blake2b(bytes(mx.contiguous(row).view(mx.uint8))).digest()


def best(logits: mx.array) -> int:
    """The likeliest id."""
    return int(cast(int, mx.argmax(logits).item()))


def reply(
    model: LlamaModel, prompt: list[int], count: int, tokens: int | None = None, *, held: bool = False
) -> tuple[list[int], list[bytes]]:
    """Pending tokens of a greedy reply decoded one row a forward, and the bits of each row's logits."""
    cache = read(model, prompt, tokens, held=held)
    pending, found = [prompt[-1]], []
    for _ in range(count):
        logits = model.verify([Window(cache, pending[-1:])])[0]
        mx.eval(logits)
        found.append(bits(logits))
        pending.append(best(logits))
        model.keep(cache, 1)
    return pending[:-1], found


def windows(model: LlamaModel, cache: Any, tokens: Sequence[int], expected: Sequence[bytes], wrong: int = 0) -> None:
    """Decode ``tokens`` in windows of 1 to 17 rows, each ending in ``wrong`` tokens that are rejected."""
    done, size = 0, 1
    while done < len(tokens):
        room = model.plan.room(cache.length)
        right = max(1, min(size, len(tokens) - done, room, model.plan.top - wrong))
        bad = max(0, min(wrong, room - right, model.plan.top - right))
        window = [*tokens[done : done + right], *[(7 * done + at) % 320 for at in range(bad)]]
        logits = model.verify([Window(cache, window)])
        mx.eval(logits)
        assert logits.shape[0] == right + bad
        for row in range(right):
            assert bits(logits[row]) == expected[done + row], f"position {cache.length + row}, {len(window)} rows"
        model.keep(cache, right)
        done += right
        size = (size + 4) % 17 + 1


def windows_equal_single_steps(model: LlamaModel) -> None:
    prompt = ids(PROMPT)
    tokens, expected = reply(model, prompt, REPLY)
    windows(model, read(model, prompt), tokens, expected)


def rejected_suffixes_leave_nothing(model: LlamaModel) -> None:
    prompt = ids(PROMPT, 1)
    tokens, expected = reply(model, prompt, REPLY)
    windows(model, read(model, prompt), tokens, expected, wrong=4)


def neighbours_do_not_matter(model: LlamaModel) -> None:
    """Three streams of different lengths in one forward, each row as alone, whatever the order."""
    prompts = [ids(PROMPT + 37 * at, 2 + at) for at in range(3)]
    alone = [reply(model, prompt, 24) for prompt in prompts]
    caches = [read(model, prompt) for prompt in prompts]
    done = [0, 0, 0]
    for turn in range(12):
        order = [(turn + at) % 3 for at in range(3)]
        wanted = {s: 1 + (4 * turn + s) % (model.plan.top // 3) for s in order}
        sizes = {s: min(wanted[s], 24 - done[s], model.plan.room(caches[s].length)) for s in order}
        live = [s for s in order if sizes[s] > 0]
        if not live:
            return
        logits = model.verify([Window(caches[s], alone[s][0][done[s] : done[s] + sizes[s]]) for s in live])
        mx.eval(logits)
        row = 0
        for s in live:
            for at in range(sizes[s]):
                assert bits(logits[row]) == alone[s][1][done[s] + at], f"stream {s}, turn {turn}, row {at}"
                row += 1
            model.keep(caches[s], sizes[s])
            done[s] += sizes[s]


def kept_state_equals_cold(model: LlamaModel) -> None:
    """Every chunk start of a prompt: saved, restored into another cache length, read on."""
    prompt = ids(PROMPT, 5)
    _, expected = reply(model, prompt, 8)
    states = []
    cache = model.make_cache(PROMPT + 8)
    for begin, end in model.plan.chunks(prompt):
        if begin:
            states.append(model.save(cache, begin))
        model.prefill(cache, prompt[begin:end])
    assert states
    for state in states:
        resumed = model.make_cache(model.checkpoint.context)
        resumed.hold(resumed.capacity)
        model.restore(resumed, state)
        for begin, end in model.plan.chunks(prompt, state.length):
            model.prefill(resumed, prompt[begin:end])
        pending = prompt[-1]
        for want in expected:
            logits = model.verify([Window(resumed, [pending])])[0]
            assert bits(logits) == want, f"state of {state.length}"
            pending = best(logits)
            model.keep(resumed, 1)


def cache_length_does_not_matter(model: LlamaModel) -> None:
    """The same reply with room for 50 tokens and for 400, and with memory for all of them from the start."""
    prompt = ids(PROMPT, 6)
    short, long = reply(model, prompt, 50, PROMPT + 50), reply(model, prompt, 50, PROMPT + 400)
    assert short == long == reply(model, prompt, 50, PROMPT + 400, held=True)


def the_last_position_is_reached(model: LlamaModel) -> None:
    """Windows up to the context's last position write nowhere else."""
    context = model.checkpoint.context
    prompt = ids(context - 40, 7)
    tokens, expected = reply(model, prompt, 41)
    cache = read(model, prompt)
    windows(model, cache, tokens, expected, wrong=3)
    assert cache.length == context


def the_probe_agrees(model: LlamaModel) -> None:
    """The operations that the host's probe measures, at the band's widths and its tile."""
    for check in model.checks():
        if isinstance(check, WidthCheck):
            found = {check.digest(width, mixed) for width in model.plan.widths for mixed in (False, True)}
            assert len(found) == 1, check.name
        elif isinstance(check, TileCheck):
            groups: dict[str, bytes] = {}
            for label, digest in check.variants(model.plan.tile, model.plan.rungs):
                assert groups.setdefault(label.partition(":")[0], digest) == digest, label


CAUGHT_BY = {
    windows_equal_single_steps: ("width", "slot", "neighbours", "queries"),
    rejected_suffixes_leave_nothing: ("width", "slot", "neighbours", "queries", "stale"),
    neighbours_do_not_matter: ("width", "slot", "neighbours", "queries"),
    kept_state_equals_cold: ("layout", "history"),
    cache_length_does_not_matter: ("layout",),
    the_last_position_is_reached: ("width", "slot", "neighbours", "queries", "stale"),
    the_probe_agrees: ("width", "slot", "neighbours", "queries", "layout", "stale"),
}
"""Every check, with the faults that it must notice."""

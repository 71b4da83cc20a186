"""Chains of one launch: what MLX's own drafts, in any order of reads, steps and rejections."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from tests.cuda import ON_CUDA
from tests.drafter import tiny
from tests.drafter.launched import SHAPE, made
from tests.drafter.reference import ReferenceKernel
from tests.drafter.tiny import request
from tests.llama.reference import H200
from tf_llama.config import LlamaConfig
from tf_llama.drafter import start as starting
from tf_llama.drafter.chain import Turn
from tf_llama.drafter.cuda import chain as cuda
from tf_llama.drafter.cuda import plan
from tf_llama.drafter.cuda.chain import CudaChain, possible
from tf_llama.drafter.cuda.form import Stacks
from tf_llama.drafter.cuda.kernel import DraftKernel, Given, _schedule
from tf_llama.drafter.cuda.schedule import Row, passes
from tf_llama.drafter.forward import Forward
from tf_llama.drafter.proposer import LlamaDrafter
from tf_llama.rows.cuda.processor import processor


def test_drafts_equal_those_of_mlx(through_mlx: LlamaDrafter, through_kernel: LlamaDrafter) -> None:
    """Six streams, more than one launch takes, with rejected drafts, long reads, and more rounds than a tail holds."""
    both = (through_mlx, through_kernel)
    contexts = {n: [(7 * at + n) % 90 + 3 for at in range(17 * n)] for n in range(1, 7)}
    for drafter in both:
        for stream, context in contexts.items():
            drafter.open(stream, context, 400)
    agreed = drafted = 0
    for step in range(24):
        asked = [
            request(stream, context, 1 + (step + stream) % 5, seed=3, temperature=0.7 * (stream % 2))
            for stream, context in contexts.items()
            if (step + stream) % 6
        ]
        found = [drafter.propose(asked) for drafter in both]
        for theirs, ours in zip(*found, strict=True):
            assert theirs is not None
            assert ours is not None
            drafted += len(theirs.tokens)
            agreed += sum(a == b for a, b in zip(theirs.tokens, ours.tokens, strict=False))
        for one, theirs in zip(asked, found[0], strict=True):
            assert theirs is not None
            fresh = [(13 * step + at) % 90 + 3 for at in range((1, 1, 10, 1, 25, 2)[(step + one.stream) % 6])]
            contexts[one.stream] += [*theirs.tokens[: step % 3], *fresh]
    assert drafted > 300
    assert agreed >= 0.9 * drafted  # bfloat16 rounds at other places, and a chain that parts stays apart


def test_nothing_is_allocated_after_open(through_kernel: LlamaDrafter) -> None:
    """The cache is written in place, and a tail takes the place of the one before."""
    cached = mx.set_cache_limit(0)
    context = [5] * 20
    through_kernel.open(1, context, 500)
    through_kernel.propose([request(1, context, 8)])
    mx.synchronize()
    mx.clear_cache()
    before = mx.get_active_memory()
    while len(context) < 480:
        (draft,) = through_kernel.propose([request(1, context, 8)])
        assert draft is not None
        context = [*context, *draft.tokens[:3], 5]
        del draft
        mx.synchronize()
        mx.clear_cache()
        assert mx.get_active_memory() == before
    slot = through_kernel._running.slot(500)
    assert slot.nbytes == through_kernel._running.slot_bytes(500)
    mx.set_cache_limit(cached)


def test_a_kernel_that_drafts_otherwise_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(starting, "processor", lambda: H200)
    right = ReferenceKernel._attend
    monkeypatch.setattr(ReferenceKernel, "_attend", lambda *given: right(*given)[::-1])
    monkeypatch.setattr(cuda, "DraftKernel", ReferenceKernel)
    drafter = made()
    assert not isinstance(drafter._running, CudaChain)
    assert "the drafter runs without the CUDA kernel of tf-plugins: draft" in caplog.text
    drafter.open(1, [5] * 9, 100)
    assert drafter.propose([request(1, [5] * 9, 3)])[0] is not None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            RuntimeError("too many resources requested for launch\nand more"),
            "RuntimeError: too many resources requested",
        ),
        (MemoryError(), "MemoryError: "),
    ],
)
def test_a_kernel_that_cannot_run_is_left_out(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: Any) -> Any:
        raise error

    monkeypatch.setattr(starting, "processor", lambda: H200)
    monkeypatch.setattr(ReferenceKernel, "__call__", fails)
    monkeypatch.setattr(cuda, "DraftKernel", ReferenceKernel)
    assert not isinstance(made()._running, CudaChain)
    assert f"of tf-plugins: {said}" in caplog.text


def test_a_chain_that_is_given_up_is_not_tried_again(
    through_kernel: LlamaDrafter, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ON_CUDA:
        pytest.skip("the kernel itself has no way to be made to wait")
    kernel = through_kernel._running._kernel
    kernel.gives_up = True
    for expected in ("its blocks were not all on the device", "was given up"):
        through_kernel.open(1, [5] * 9, 100)
        with pytest.raises(RuntimeError, match=expected):
            through_kernel.propose([request(1, [5] * 9, 3)])
    launches = len(kernel.launches)
    monkeypatch.setattr(through_kernel._running._forward, "rows", None)  # no prompt is read for nothing
    through_kernel.open(1, [5] * 60, 100)
    with pytest.raises(RuntimeError, match="was given up"):
        through_kernel.propose([request(1, [5] * 60, 3)])
    assert len(kernel.launches) == launches


def test_release_frees_the_weights(through_kernel: LlamaDrafter) -> None:
    mx.clear_cache()
    before = mx.get_active_memory()
    size = sum(array.nbytes for array in through_kernel._running._form.stacks.arrays())
    through_kernel.release()
    assert before - mx.get_active_memory() > 0.7 * size  # the head is the table


def test_passes_read_then_step(through_kernel: LlamaDrafter) -> None:
    chain = through_kernel._running
    turns = [Turn(chain.slot(64), [7, 8, 9], 3, 0, 0.0), Turn(chain.slot(64), [4], 1, 0, 0.0)]
    turns[1].slot.put(turns[1].slot.tail, [1, 2])
    assert passes(turns, 3) == [
        [Row(0, 0, 7, -1), Row(0, 1, 8, -1), Row(0, 2, 9, 0)],
        [Row(1, 2, 4, 0)],
        [Row(0, 3, -1, 1)],
        [Row(0, 4, -1, 2)],
    ]
    assert passes(turns, 16)[0] == [*passes(turns, 3)[0], *passes(turns, 3)[1]]


@pytest.mark.skipif(not ON_CUDA, reason="the kernel runs on a CUDA device alone")
@pytest.mark.parametrize(
    ("heads", "kv_heads", "size", "mlp", "ids"),
    [(3, 1, 64, 576, 1_001), (16, 2, 128, 1_536, 500), (8, 8, 64, 264, 4_096), (4, 2, 128, 8_192, 2_000)],
    ids=["groups of 3", "groups of 8", "no groups", "passes of 6 rows"],
)
def test_the_kernel_computes_what_its_reference_does(heads: int, kv_heads: int, size: int, mlp: int, ids: int) -> None:
    """Four streams of very different lengths, greedy and sampled, several passes of reading, chains of all lengths."""
    config = parsed(
        hidden_size=64 * heads,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=size,
        intermediate_size=mlp,
        num_hidden_layers=2,
    )
    stacks, frequencies = random_stacks(config, ids), 1e4 ** -(mx.arange(size // 2) / (size // 2))
    device = processor()
    assert device is not None
    both = [made(device, config, stacks, frequencies) for made in (ReferenceKernel, DraftKernel)]
    streams, turns = [], []
    for stream, (base, unread, most) in enumerate(((0, 3, 5), (40, 16, 1), (1_300, 1, 8), (5_000, 9, 3))):
        cache = normal(stream, (2 * 2 * kv_heads, base + 64, size), 1.0)
        noise = mx.random.gumbel((most, ids), key=mx.random.key(stream)) if stream % 2 else None
        streams.append(Given(cache, base, 0.7 * (stream % 2), noise))
        turns.append((base, [(7 * at + stream) % ids for at in range(unread)], most))
    launch = scheduled(turns, both[0].rows)
    (wanted, written), (found, also) = (kernel(launch, streams) for kernel in both)
    assert found[-1].item() == 0
    steps = max(most for _, _, most in turns)
    theirs, ours = (known(drafts, steps)[0] for drafts in (wanted, found))
    shares = known(found, steps)[1]
    agreed = []
    for stream, (_, _, most) in enumerate(turns):
        alike = True  # a chain that parts stays apart
        for step in range(most):  # nothing is past those
            if alike:
                expect_best(ours[stream][step], both[0].values[stream, step])
                expect_shares(ours[stream][step], shares[stream][step], both[0].shares[stream, step])
            alike = alike and theirs[stream][step][0] == ours[stream][step][0]
            agreed.append(theirs[stream][step][0] == ours[stream][step][0])
    assert sum(agreed) >= 0.9 * len(agreed)
    for (_, unread, _), theirs, ours in zip(turns, written, also, strict=True):
        # What was read before the first draft cannot depend on one.
        theirs, ours = (part[:, : len(unread)].astype(mx.float32) for part in (theirs, ours))
        assert (mx.linalg.norm(theirs - ours) / mx.linalg.norm(theirs)).item() < 0.03


def known(found: mx.array, steps: int) -> tuple[Any, Any]:
    """Ids and probabilities of a launch, by streams and steps."""
    half = found.shape[0] // 2
    shape = plan.STREAMS, steps, plan.BEST
    shares = mx.contiguous(found[half:-1]).view(mx.float32)
    return found[:half].reshape(shape).tolist(), shares.reshape(shape).tolist()


def expect_shares(ids: list[int], found: list[float], wanted: list[float]) -> None:
    """Within what bfloat16 rounds away of logits of some tens."""
    for id, share in zip(ids, found, strict=True):
        assert share == pytest.approx(wanted[id], rel=0.25, abs=1e-3)


@pytest.mark.skipif(not ON_CUDA, reason="the kernel runs on a CUDA device alone")
def test_the_kernel_ends_where_its_reference_does() -> None:
    """One stream's chance falls below its least, the other's does not; then both do; then none."""
    config = parsed(hidden_size=192, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=2)
    stacks, frequencies = random_stacks(config, 1_001), 1e4 ** -(mx.arange(32) / 32)
    device = processor()
    assert device is not None
    both = [made(device, config, stacks, frequencies) for made in (ReferenceKernel, DraftKernel)]
    turns = [(3, [4, 5], 8), (40, [6], 8)]
    launch = scheduled(turns, both[0].rows)
    caches = [normal(stream, (2 * 2, base + 64, 64), 1.0) for stream, (base, _, _) in enumerate(turns)]
    ended = []
    for leasts in ((1.0, 0.0), (0.4, 0.4), (1e-3, 1e-3), (0.0, 0.0)):
        streams = [
            Given(cache, turn[0], 0.0, None, least) for cache, turn, least in zip(caches, turns, leasts, strict=True)
        ]
        (wanted, _), (found, _) = (kernel(launch, streams) for kernel in both)
        assert found[-1].item() == 0
        made_steps = [sum(step[0] >= 0 for step in known(drafts, 8)[0][0]) for drafts in (wanted, found)]
        assert made_steps[0] == made_steps[1], leasts
        ended.append(made_steps[0])
    assert ended[0] == ended[3] == 8  # the other stream goes on
    assert ended[1] < ended[2]


def expect_best(ids: list[int], values: list[float]) -> None:
    """As many ids as a step gives, each as good as the one of its rank, within what bfloat16 rounds away."""
    assert len(set(ids)) == plan.BEST
    best, near = sorted(values, reverse=True), 0.25 * mx.std(mx.array(values)).item()
    for rank, id in enumerate(ids):
        assert values[id] >= best[rank] - near


def normal(seed: int, shape: tuple[int, ...], deviation: float) -> mx.array:
    return (mx.random.normal(shape, key=mx.random.key(seed)) * deviation).astype(mx.bfloat16)


def random_stacks(config: LlamaConfig, ids: int) -> Stacks:
    hidden, width, layers = config.hidden, config.heads * config.head_dim, config.layers
    asked = (config.heads + 2 * config.kv_heads) * config.head_dim
    products = ((asked, hidden), (hidden, width), (2 * config.mlp, hidden), (hidden, config.mlp))
    attend, output, gate_up, down = (
        normal(10 + at, (layers, *shape), shape[1] ** -0.5) for at, shape in enumerate(products)
    )
    ones = mx.ones((layers, hidden), mx.bfloat16)
    table, head = normal(20, (ids, hidden), 1.0), normal(21, (ids, hidden), 2 * hidden**-0.5)
    return Stacks(table, ones, attend, output, ones, gate_up, down, ones[0], head)


def scheduled(turns: list[tuple[int, list[int], int]], width: int) -> list[list[Row]]:
    """As ``passes`` makes them, of bases instead of slots."""
    slots = [SimpleNamespace(length=base) for base, _, _ in turns]
    asked = [Turn(slot, unread, most, 0, 0.0) for slot, (_, unread, most) in zip(slots, turns, strict=True)]  # type: ignore[arg-type]
    return passes(asked, width)


def test_a_chain_longer_than_its_tail_is_refused() -> None:
    config = parsed()
    kernel = DraftKernel.__new__(DraftKernel)
    kernel.rows, kernel._config = 16, config
    given = Given(mx.zeros((8, 64, 64), mx.bfloat16), 10, 0.0, None)
    with pytest.raises(ValueError, match="a chain of 33 positions, and a launch writes 32"):
        kernel([[Row(0, 42, 5, 0)]], [given])


def test_a_schedule_as_the_kernel_reads_it() -> None:
    """Inverse temperatures, least chances; passes and steps; base and first row of noise of four streams; each pass,
    padded."""
    cache, noise = mx.zeros((8, 64, 64)), mx.zeros((2, 5))
    streams = [Given(cache, 7, 0.0, None), Given(cache, 0, 0.7, noise, 0.25), Given(cache, 9, 0.7, noise)]
    one, two = [Row(0, 7, 3, 0), Row(1, 0, 4, 0)], [Row(2, 9, -1, 1)]
    sent = _schedule([one, two], 5, streams, 3)
    assert struct.unpack("<8f", sent[:32]) == pytest.approx([0.0, 1 / 0.7, 1 / 0.7, 0.0, 0.0, 0.25, 0.0, 0.0])
    assert list(struct.unpack(f"<{len(sent) // 4 - 8}i", sent[32:])) == [
        *(2, 5),
        *(7, -1, 0, 0, 9, 2, 0, -1),
        *(2, 0, 7, 3, 0, 1, 0, 4, 0, 0, 0, 0, 0),
        *(1, 2, 9, -1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
    ]


def parsed(**changes: Any) -> LlamaConfig:
    raw = tiny.args(**SHAPE | changes) | {"architectures": ["LlamaForCausalLM"]}
    return LlamaConfig.parse(raw, Path("config.json"))


def test_which_drafters_the_kernel_takes() -> None:
    assert possible(parsed(), mx.bfloat16, H200)
    assert not possible(parsed(), mx.float16, H200)
    assert not possible(parsed(), mx.bfloat16, replace(H200, major=8))
    assert not possible(parsed(head_dim=32), mx.bfloat16, H200)
    assert not possible(parsed(intermediate_size=20_000), mx.bfloat16, H200)


@pytest.mark.parametrize(
    ("hidden", "mlp", "width"), [(192, 576, 16), (2_048, 8_192, 6), (3_072, 8_192, 6), (4_096, 14_336, 4)]
)
def test_a_block_has_room_for_a_pass(hidden: int, mlp: int, width: int) -> None:
    config = parsed(hidden_size=hidden, intermediate_size=mlp, num_attention_heads=32, num_key_value_heads=8)
    assert plan.rows(config, H200.shared) == width
    assert plan.memory(config, width) + 8_192 <= H200.shared


def test_prompts_of_any_length_are_read_in_few_shapes(
    through_kernel: LlamaDrafter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLX takes milliseconds more for a length that it did not see yet. What is padding stays out of the cache."""
    shapes, rows = [], Forward.rows
    monkeypatch.setattr(Forward, "rows", lambda self, ids, *more: (shapes.append(ids.size), rows(self, ids, *more))[1])
    for stream, length in enumerate((30, 65, 100, 128, 129), start=1):
        context = [(7 * at) % 90 + 3 for at in range(length + 1)]
        through_kernel.open(stream, context, 400)
        through_kernel.read(stream, context, length)
        slot = through_kernel._slots[stream]
        assert slot.tokens == context[:-1]
        assert not mx.any(slot.cache[0][:, length:]).item()
    assert shapes == [64, 128, 128, 128, 192]

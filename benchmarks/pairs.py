"""A large model's cost with a small model's text: a small Llama laid into a larger Llama's shape.

    python -m benchmarks.pairs SMALL FOLDER --shape 8B              every byte on disk
    python -m benchmarks.pairs SMALL FOLDER --shape 33B --sparse    the small model's numbers alone, zeros as holes

The larger model computes the same function. Hidden numbers: the first d of D; norm weights times sqrt(d / D), eps times
d / D. Heads of twice the size: rope pair j goes to pair 2 j, queries times sqrt(2). Heads, neurons and layers that the
small model has not get random weights, with outputs so small (1e-9) that no reply sees them: a forward reads and
multiplies all of them, and zeros would run faster than real numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bits = NDArray[np.uint16]
Indices = NDArray[np.int64]

SHARD_BYTES = 5_000_000_000
SPREAD, SILENT = 0.02, 1e-9


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides a Llama's cost."""

    hidden: int
    layers: int
    mlp: int
    heads: int
    kv_heads: int
    size: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Shape:
        """A checkpoint's."""
        heads = config["num_attention_heads"]
        return cls(
            hidden=config["hidden_size"],
            layers=config["num_hidden_layers"],
            mlp=config["intermediate_size"],
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            size=config.get("head_dim") or config["hidden_size"] // heads,
        )


SHAPES = {
    "33B": Shape(5_120, 64, 25_600, 64, 8, 128),
    "8B": Shape(4_096, 32, 14_336, 32, 8, 128),
    "3B": Shape(2_560, 32, 10_496, 20, 4, 128),
    "1B": Shape(1_024, 40, 2_048, 16, 4, 128),
    "12M": Shape(192, 6, 576, 3, 1, 64),
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of the larger model.

    Attributes:
        name: as checkpoints call it.
        shape: its shape.
        filler: standard deviation of the random numbers around the block; 0 for ``rest`` everywhere.
        rest: the number where neither filler nor block is.
        lines: rows (``axis`` 0) or columns (1) that have no filler, since the block uses them.
        axis: see ``lines``.
        at: indices of the block, an array an axis.
        block: the small model's numbers, shaped as ``at``; ``None`` where the small model has none.
    """

    name: str
    shape: tuple[int, ...]
    filler: float = 0.0
    rest: float = 0.0
    lines: Indices | None = None
    axis: int = 0
    at: tuple[Indices, ...] = ()
    block: Callable[[], Floats] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes in bfloat16."""
        return 2 * math.prod(self.shape)


class Small:
    """A small Llama's checkpoint folder, bfloat16 safetensors; a tensor is read when its turn comes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
        self.shape = Shape.of(self.config)
        self._where: dict[str, tuple[Path, int, tuple[int, ...]]] = {}
        for path in sorted(folder.glob("model*.safetensors")):
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(length))
            for name, entry in header.items():
                if name == "__metadata__":
                    continue
                if entry["dtype"] != "BF16":
                    raise ValueError(f"{name} in {path} is {entry['dtype']}, expected BF16")
                self._where[name] = (path, 8 + length + entry["data_offsets"][0], tuple(entry["shape"]))

    def read(self, name: str) -> Floats:
        """A tensor as float32; the embedding stands in for a head that is tied to it."""
        if name == "lm_head.weight" and name not in self._where:
            name = "model.embed_tokens.weight"
        path, begin, shape = self._where[name]
        bits = np.fromfile(path, "<u2", math.prod(shape), offset=begin).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(shape)


def lay(small: Small, to: Shape) -> Iterator[Tensor]:
    """All tensors of the larger model.

    Raises:
        ValueError: the small model does not fit into the shape.
    """
    own = small.shape
    _refuse_unfit(own, to)
    vocab = small.config["vocab_size"]
    hidden = np.arange(own.hidden)
    scale = math.sqrt(own.hidden / to.hidden)

    def norm(name: str, source: str | None) -> Tensor:
        block = None if source is None else (lambda: small.read(source) * np.float32(scale))
        return Tensor(name, (to.hidden,), rest=1.0, at=(hidden,), block=block)

    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        table = _reader(small, name)
        yield Tensor(name, (vocab, to.hidden), at=(np.arange(vocab), hidden), block=table)
    yield norm("model.norm.weight", "model.norm.weight")
    sources = {layer * to.layers // own.layers: layer for layer in range(own.layers)}
    for layer in range(to.layers):
        prefix, source = f"model.layers.{layer}.", sources.get(layer)
        theirs = None if source is None else f"model.layers.{source}."
        for name in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            yield norm(prefix + name, None if theirs is None else theirs + name)
        yield from _linears(small, to, prefix, theirs, hidden)


def _linears(small: Small, to: Shape, prefix: str, theirs: str | None, hidden: Indices) -> Iterator[Tensor]:
    own = small.shape
    # Where the small model's heads go: the first of each group that shares keys.
    group, theirs_group = to.heads // to.kv_heads, own.heads // own.kv_heads
    heads = np.array([head // theirs_group * group + head % theirs_group for head in range(own.heads)])
    kv_heads, neurons = np.arange(own.kv_heads), np.arange(own.mlp)
    # Half-split rope turns pairs (j, j + size / 2); twice the size has every frequency at twice the place.
    step, half = to.size // own.size, np.arange(own.size // 2)
    turned = np.concatenate([step * half, step * half + to.size // 2])
    plain = np.arange(own.size)

    def numbers(which: Indices, inside: Indices) -> Indices:
        return (which[:, None] * to.size + inside).reshape(-1)

    whole = np.arange(to.size)
    q, kv = to.heads * to.size, to.kv_heads * to.size
    sharper = math.sqrt(step)
    table: Sequence[tuple[str, tuple[int, int], int, Indices, Indices, float]] = (
        ("self_attn.q_proj", (q, to.hidden), 0, numbers(heads, whole), numbers(heads, turned), sharper),
        ("self_attn.k_proj", (kv, to.hidden), 0, numbers(kv_heads, whole), numbers(kv_heads, turned), 1.0),
        ("self_attn.v_proj", (kv, to.hidden), 0, numbers(kv_heads, whole), numbers(kv_heads, plain), 1.0),
        ("self_attn.o_proj", (to.hidden, q), 1, numbers(heads, whole), numbers(heads, plain), 1.0),
        ("mlp.gate_proj", (to.mlp, to.hidden), 0, neurons, neurons, 1.0),
        ("mlp.up_proj", (to.mlp, to.hidden), 0, neurons, neurons, 1.0),
        ("mlp.down_proj", (to.hidden, to.mlp), 1, neurons, neurons, 1.0),
    )
    for name, shape, axis, lines, places, times in table:
        filler = SILENT if axis else SPREAD
        if theirs is None:
            yield Tensor(f"{prefix}{name}.weight", shape, filler)
            continue
        at = (hidden, places) if axis else (places, hidden)
        block = _reader(small, f"{theirs}{name}.weight", times)
        yield Tensor(f"{prefix}{name}.weight", shape, filler, 0.0, lines, axis, at, block)


def _reader(small: Small, name: str, times: float = 1.0) -> Callable[[], Floats]:
    return lambda: small.read(name) * np.float32(times)


def _refuse_unfit(own: Shape, to: Shape) -> None:
    fits = (
        own.hidden <= to.hidden
        and own.layers <= to.layers
        and own.mlp <= to.mlp
        and own.kv_heads <= to.kv_heads
        and own.heads // own.kv_heads <= to.heads // to.kv_heads
        and to.size in (own.size, 2 * own.size)
    )
    if not fits:
        raise ValueError(f"{own} does not fit into {to}")


def config_of(small: Small, to: Shape, context: int, seed: int) -> dict[str, Any]:
    """The larger model's config.json; ``laid`` says what it was made of."""
    return small.config | {
        "hidden_size": to.hidden,
        "num_hidden_layers": to.layers,
        "intermediate_size": to.mlp,
        "num_attention_heads": to.heads,
        "num_key_value_heads": to.kv_heads,
        "head_dim": to.size,
        "rms_norm_eps": small.config["rms_norm_eps"] * small.shape.hidden / to.hidden,
        "max_position_embeddings": context,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "laid": {"from": str(small.folder.resolve()), "seed": seed},
    }


def write(
    small: Small, folder: Path, to: Shape, context: int, seed: int, dense: Callable[[Tensor], Bits] | None
) -> Path:
    """Write the larger model as a checkpoint folder; takes the place of what is there.

    Args:
        small: the small model.
        folder: the folder to make.
        to: the larger shape.
        context: ``max_position_embeddings``.
        seed: of the filler.
        dense: makes a tensor's bits, filler included. Without, the filler is zeros, which are left as holes: the
            files take the room of the small model's numbers, and are read as any others.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in small.folder.iterdir():
        if path.is_file() and ".safetensors" not in path.name and path.name not in ("config.json", "complete.json"):
            shutil.copyfile(path, folder / path.name)
    (folder / "config.json").write_text(json.dumps(config_of(small, to, context, seed), indent=1) + "\n")
    shards = _shards(lay(small, to))
    named: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        _write_shard(folder / file, shard, dense)
        named |= dict.fromkeys((tensor.name for tensor in shard), file)
    total = sum(tensor.nbytes for shard in shards for tensor in shard)
    index = {"metadata": {"total_size": total}, "weight_map": named}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    return folder


def _shards(tensors: Iterator[Tensor]) -> list[list[Tensor]]:
    shards: list[list[Tensor]] = [[]]
    room = SHARD_BYTES
    for tensor in tensors:
        if shards[-1] and tensor.nbytes > room:
            shards.append([])
            room = SHARD_BYTES
        shards[-1].append(tensor)
        room -= tensor.nbytes
    return shards


def _write_shard(path: Path, tensors: Sequence[Tensor], dense: Callable[[Tensor], Bits] | None) -> None:
    entries: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    end = 0
    for tensor in tensors:
        entries[tensor.name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    begin = 8 + len(header)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        if dense is not None:
            for tensor in tensors:
                file.write(dense(tensor).astype("<u2", copy=False).tobytes())
            return
        file.truncate(begin + end)
    for tensor in tensors:
        if tensor.rest or tensor.block is not None:
            offset = begin + entries[tensor.name]["data_offsets"][0]
            stored = np.memmap(path, "<u2", "r+", offset, tensor.shape)
            if tensor.rest:
                stored[...] = rounded(np.full(tensor.shape, tensor.rest, np.float32))
            if tensor.block is not None:
                stored[np.ix_(*tensor.at)] = rounded(tensor.block())
            del stored


def rounded(values: Floats) -> Bits:
    """Finite values as the bits of bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def main(argv: Sequence[str] | None = None) -> int:
    """Write a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("small", type=Path, metavar="SMALL", help="folder of the small model, bfloat16")
    add("folder", type=Path, metavar="FOLDER", help="folder to make")
    add("--shape", choices=SHAPES, required=True)
    add("--context", type=int, default=32_768, metavar="N", help="max_position_embeddings (default %(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="of the random weights")
    add("--sparse", action="store_true", help="zeros, as holes in the files, in place of random weights")
    options = parser.parse_args(argv)
    dense: Callable[[Tensor], Bits] | None = None
    if not options.sparse:
        from benchmarks.laid import bits

        def dense(tensor: Tensor) -> Bits:
            return bits(tensor, options.seed)

    write(Small(options.small), options.folder, SHAPES[options.shape], options.context, options.seed, dense)
    return 0


if __name__ == "__main__":
    sys.exit(main())

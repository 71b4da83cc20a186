"""What a checkpoint is qualified for, and which drafter goes with a target.

A checkpoint is taken for a listed one by its name on the hub; by its folder's name, where the shape fits too; or by the
shape alone, where no other checkpoint has it. Any other Llama of a supported layout may be either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tf_plugins.types import Role

__all__ = ["Listed", "drafter_for", "listed", "roles_of"]

_EITHER: frozenset[Role] = frozenset({"target", "drafter"})

_PADDING = 1_024
"""Rows that a head may have past its tokenizer's ids."""

Shape = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Listed:
    """A checkpoint that was looked at.

    Attributes:
        name: its hub name, or the name that a plugin gives it.
        shape: hidden, layers, mlp, heads, kv heads and head size.
        ids: of its tokenizer; its head has as many rows, and padding.
        roles: what it is qualified for.
        drafter: the drafter that goes with it.
        alone: whether the shape and the ids are no other checkpoint's, so that a folder of any name is taken for it.
    """

    name: str
    shape: Shape
    ids: int
    roles: frozenset[Role] = _EITHER
    drafter: str | None = None
    alone: bool = False

    def named(self, name: str) -> bool:
        """Whether that is its name, ``@revision`` behind it or not."""
        return _plain(name) == self.name.casefold()

    def called(self, name: str) -> bool:
        """Whether a folder is called like the repository."""
        return _plain(name) == self.name.casefold().rpartition("/")[2]

    def fits(self, shape: Shape, vocab: int) -> bool:
        """Whether it may be this one, by what config.json says."""
        return shape == self.shape and 0 <= vocab - self.ids < _PADDING


_SMOLLM2_135M: Shape = (576, 30, 1_536, 9, 3, 64)

_LISTED = (
    Listed(
        "Nanbeige/Nanbeige4.3-33B",
        (5_120, 64, 25_600, 64, 8, 128),
        166_100,
        frozenset({"target"}),
        drafter="Nanbeige/Nanbeige4.1-3B",
        alone=True,
    ),
    # Brought up and measured beside the 33B, never alone. Others of its maker's have its shape, and answer alone.
    Listed("Nanbeige/Nanbeige4.1-3B", (2_560, 32, 10_496, 20, 4, 128), 166_100, frozenset({"drafter"})),
    # It answers nothing useful alone.
    Listed("demo-drafter", (192, 6, 576, 3, 1, 64), 49_152, frozenset({"drafter"}), alone=True),
    Listed("demo", _SMOLLM2_135M, 49_152, drafter="demo-drafter"),
    Listed("HuggingFaceTB/SmolLM2-135M-Instruct", _SMOLLM2_135M, 49_152, drafter="demo-drafter"),
    Listed(
        "meta-llama/Llama-3.1-8B-Instruct",
        (4_096, 32, 14_336, 32, 8, 128),
        128_256,
        drafter="meta-llama/Llama-3.2-1B-Instruct",
    ),
    Listed(
        "HuggingFaceTB/SmolLM2-1.7B-Instruct",
        (2_048, 24, 8_192, 32, 32, 64),
        49_152,
        drafter="HuggingFaceTB/SmolLM2-360M-Instruct",
    ),
)


def listed(name: str, shape: Shape, vocab: int) -> Listed | None:
    """The listed checkpoint that one is, or ``None``."""
    return next(_candidates(name, shape, vocab), None)


def roles_of(name: str, shape: Shape, vocab: int) -> frozenset[Role]:
    """What a checkpoint may be used for."""
    found = listed(name, shape, vocab)
    return found.roles if found else _EITHER


def drafter_for(name: str, shape: Shape, vocab: int) -> str | None:
    """The drafter that goes with a target, or ``None``."""
    found = listed(name, shape, vocab)
    return found.drafter if found else None


def _candidates(name: str, shape: Shape, vocab: int) -> Iterator[Listed]:
    fitting = [one for one in _LISTED if one.fits(shape, vocab)]
    yield from (one for one in _LISTED if "/" in one.name and one.named(name))
    yield from (one for one in fitting if one.called(name))
    yield from (one for one in fitting if one.alone)


def _plain(name: str) -> str:
    return name.partition("@")[0].rstrip("/").casefold()

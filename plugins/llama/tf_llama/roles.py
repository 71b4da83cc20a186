"""What a checkpoint is qualified for, by name and by shape, and which drafter goes with a target.

An unlisted Llama of a supported layout may be either.
"""

from __future__ import annotations

from dataclasses import dataclass

from tf_plugins.types import Role

__all__ = ["Listed", "drafter_for", "roles_of"]

_EITHER: frozenset[Role] = frozenset({"target", "drafter"})

Shape = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Listed:
    """A checkpoint that was looked at.

    Attributes:
        name: its hub name, or the name that a plugin gives it.
        roles: what it is qualified for.
        shape: hidden, layers, mlp, heads, kv heads and head size, where they tell it apart; a folder of another
            name with this shape has the same roles.
        vocab: rows of the head, where the shape alone does not tell it apart.
        drafter: the drafter that goes with it.
    """

    name: str
    roles: frozenset[Role] = _EITHER
    shape: Shape | None = None
    vocab: int | None = None
    drafter: str | None = None


_LISTED = (
    Listed(
        "Nanbeige/Nanbeige4.3-33B",
        frozenset({"target"}),
        (5_120, 64, 25_600, 64, 8, 128),
        drafter="Nanbeige/Nanbeige4.1-3B",
    ),
    # Brought up and measured beside the 33B, never alone.
    Listed("Nanbeige/Nanbeige4.1-3B", frozenset({"drafter"}), (2_560, 32, 10_496, 20, 4, 128), vocab=166_144),
    # It answers nothing useful alone.
    Listed("demo-drafter", frozenset({"drafter"}), (192, 6, 576, 3, 1, 64), vocab=49_152),
    Listed("demo", drafter="demo-drafter"),
    Listed("HuggingFaceTB/SmolLM2-135M-Instruct", drafter="demo-drafter"),
    Listed("meta-llama/Llama-3.1-8B-Instruct", drafter="meta-llama/Llama-3.2-1B-Instruct"),
    Listed("HuggingFaceTB/SmolLM2-1.7B-Instruct", drafter="HuggingFaceTB/SmolLM2-360M-Instruct"),
)


def roles_of(name: str, shape: Shape, vocab: int) -> frozenset[Role]:
    """What a checkpoint may be used for; its shape counts where its name is not listed."""
    listed = _listed(name, shape, vocab)
    return listed.roles if listed else _EITHER


def drafter_for(name: str, shape: Shape, vocab: int) -> str | None:
    """The drafter that goes with a target, or ``None``."""
    listed = _listed(name, shape, vocab)
    return listed.drafter if listed else None


def _listed(name: str, shape: Shape, vocab: int) -> Listed | None:
    by_shape = (one for one in _LISTED if one.shape == shape and one.vocab in (None, vocab))
    return _by_name(name) or next(by_shape, None)


def _by_name(name: str) -> Listed | None:
    """The entry of a hub name (``org/repo``, ``org/repo@revision``) or of a folder called like the repository."""
    wanted = name.partition("@")[0].rstrip("/").casefold()
    for one in _LISTED:
        full = one.name.casefold()
        if wanted in (full, full.rpartition("/")[2]):
            return one
    return None

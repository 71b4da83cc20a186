"""A loaded target: its caches, its prompt chunks and its windows.

Arrays are MLX arrays, written ``Any`` here so that this package imports no MLX. Every method of a loaded model, its
caches and states runs on the engine thread; of a family's methods only ``load`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tf_plugins.rows import RowPlan
from tf_plugins.types.checkpoint import Checkpoint, Progress, Role
from tf_plugins.types.device import Device


class Cache(Protocol):
    """One stream's key/value cache: a fixed layout from admission to the end of the stream.

    Rows past ``length`` are stale but finite; they are masked, and overwritten by later rows.
    """

    length: int
    """Valid positions: ``[0, length)``."""

    @property
    def capacity(self) -> int:
        """Positions that fit, the plan's tile of padding rows included."""

    @property
    def nbytes(self) -> int:
        """Bytes of all layers' keys and values."""


class State(Protocol):
    """A kept prompt state: a contiguous copy of a cache's first ``length`` positions."""

    @property
    def length(self) -> int:
        """Positions held."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, to be written as safetensors."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A token that is verified in place of a draft: its row sees what the draft's row sees, and itself.

    Attributes:
        place: which draft it stands in place of, 0 for the first.
        token: its id.
    """

    place: int
    token: int


@dataclass(frozen=True, slots=True)
class Window:
    """A pending token and its drafts, to be verified together.

    Attributes:
        cache: the stream's cache; ``cache.length`` is the position of the pending token.
        tokens: the pending token, then the drafts: 1 to the band's top, all in one bucket. For a model that
            ``chains``, also a lazy integer array of the pending token alone, ``[1]``.
        leaves: tokens beside the drafts, for a model that ``TakesLeaves`` alone. Their rows follow those of ``tokens``
            and count like them.
    """

    cache: Cache
    tokens: Sequence[int] | Any
    leaves: Sequence[Leaf] = ()


@dataclass(frozen=True, slots=True)
class WidthCheck:
    """One row-wise operation of a decode forward, for the probe to find the widths that agree.

    Attributes:
        name: names the operation and its shape, for example ``"mlp.down 1536->576"``.
        outputs: numbers computed for each width (at least a million on a real load).
        digest: ``digest(width, shuffled)`` computes the same real rows ``width`` rows a call and digests the
            outputs' bits in row order; ``shuffled`` deals the rows to other slots and neighbours first.
    """

    name: str
    outputs: int
    digest: Callable[[int, bool], bytes]


@dataclass(frozen=True, slots=True)
class TileCheck:
    """Attention of a row, which must give the same bits whatever shares the call.

    Attributes:
        name: names the operation.
        variants: ``variants(tile, rungs)`` yields ``(label, digest)`` of the same rows computed ``tile``
            queries a call in every slot, with other neighbours, stale rows behind them and each capacity of
            ``rungs``. Digests of one label's group before the first ``":"`` must be equal.
    """

    name: str
    variants: Callable[[int, Sequence[int]], Iterable[tuple[str, bytes]]]


class Model(Protocol):
    """A loaded model that verifies windows in exact rows.

    Attributes:
        checkpoint: its facts.
        kernels: names what computes its rows, ``"mlx"`` for MLX's own operations; part of the verdict's key, so name
            a version where you bring kernels of your own.
        chains: whether ``verify`` takes pending tokens that are not computed yet, and then copies no cache: the host
            sends the next plain round while the last one runs.
    """

    checkpoint: Checkpoint
    kernels: str
    chains: bool

    def checks(self) -> Sequence[WidthCheck | TileCheck]:
        """The operations that the probe measures, on the real weights and real activations."""

    def use(self, plan: RowPlan) -> None:
        """Fix the plan; called before any cache is made, and again only with all caches gone."""

    def cache_bytes(self, tokens: int) -> int:
        """Bytes of a cache for ``tokens`` positions, rounded up to its rung, padding included."""

    def make_cache(self, tokens: int) -> Cache:
        """A cache for ``tokens`` positions; allocated means evaluated."""

    def prefill(self, cache: Cache, tokens: Sequence[int]) -> None:
        """Read one chunk of the prompt plan at ``cache.length`` and advance it; evaluated on return."""

    def verify(self, windows: Sequence[Window]) -> Any:
        """Logits of every real row, ``[rows, vocab]`` in window order, lazy, in the model's dtype.

        Writes the rows' keys and values past each cache's length and advances nothing. The rows of all
        windows together are at most the plan's top.
        """

    def keep(self, cache: Cache, rows: int) -> None:
        """Advance ``cache.length`` by the ``rows`` of the last window that stand; the rest goes stale."""

    def state_bytes(self, tokens: int) -> int:
        """Bytes of a kept state of ``tokens`` positions."""

    def save(self, cache: Cache, tokens: int) -> State:
        """A contiguous, evaluated copy of the first ``tokens`` positions."""

    def restore(self, cache: Cache, state: State) -> None:
        """Copy a state into a fresh cache's layout and set its length."""

    def load_state(self, arrays: dict[str, Any]) -> State:
        """A state from the arrays of a safetensors file; ``ValueError`` when they do not fit the model."""

    def warm(self, progress: Progress) -> None:
        """Compile and run what start-up can foresee."""

    def release(self) -> None:
        """Drop the weights."""


@runtime_checkable
class TakesLeaves(Protocol):
    """What a model may have beside the methods of ``Model``: windows with leaves.

    The probe proves leaves where they are taken. A model that begins to take them names other ``kernels``, or a verdict
    that was kept before would stand for them.

    Attributes:
        takes_leaves: whether ``verify`` takes windows with leaves, under the plan in use; that is settled before
            proposers are made.
    """

    takes_leaves: bool

    def keep_leaf(self, cache: Cache, rows: int, row: int) -> None:
        """``keep`` of ``rows`` rows, the last of which is a leaf.

        Args:
            cache: of the window.
            rows: the pending token, the drafts before the leaf, and the leaf.
            row: the leaf's in the window: ``len(window.tokens)`` and its index among the leaves.
        """


class Family(Protocol):
    """A model family: recognises a checkpoint, reads its facts, loads it.

    Called at start-up: ``load`` on the engine thread, everything else before it on the main thread, where nothing may
    be computed with MLX. What a method raises, ``Refused`` aside, stops the start with the names of plugin and method.
    """

    name: str

    def recognises(self, folder: Path) -> bool:
        """Whether the folder's config.json is of this family; reads nothing else.

        Asked of any folder that is to be served, other families' too: ``False`` for one without config.json, or with
        one that is not understood. An exception stops the start, even where another family would serve the folder.
        """

    def read(self, folder: Path, role: Role, name: str | None = None) -> Checkpoint:
        """The checkpoint's facts; raises ``Refused`` for what is not served, before any weight is read."""

    def load(self, checkpoint: Checkpoint, device: Device, progress: Progress) -> Model:
        """Load the weights; the one method on the engine thread."""

    def load_tokenizer(self, checkpoint: Checkpoint) -> object | None:
        """A tokenizer of the family's own, or ``None`` for the host's (tokenizer.json through mlx-lm).

        One of its own is mlx-lm's ``TokenizerWrapper`` around a fast tokenizer, or has its members; several threads use
        it at once.
        """


@runtime_checkable
class RefusesEarly(Protocol):
    """What a family may have beside the methods of ``Family``: a way to refuse before weights are fetched."""

    def refuse(self, folder: Path, role: Role, name: str | None = None) -> None:
        """Raise ``Refused`` for what the small files of a checkpoint (config.json and others) show is not served.

        Called on the main thread for a checkpoint of a hub, whose weights are not there yet; ``read`` follows once
        they are.
        """

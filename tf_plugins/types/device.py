"""What the server computes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Device:
    """The device class and what moves bits on it.

    Attributes:
        kind: ``"cpu"`` or ``"gpu"``; the prompt grid and the band rule go by it, never by a timing.
        backend: ``"cpu"``, ``"cuda"`` or ``"metal"``.
        name: for people, for example ``"cpu (MKL AVX512,STRICT, 2 threads)"``.
        dtype: the dtype that weights are served in (``"float32"``), or ``None`` for the checkpoint's own.
        compiled: whether decode forwards go through ``mx.compile``.
    """

    kind: Literal["cpu", "gpu"]
    backend: Literal["cpu", "cuda", "metal"]
    name: str
    dtype: str | None = None
    compiled: bool = False

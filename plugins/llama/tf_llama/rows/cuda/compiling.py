"""From the CUDA files beside this to functions that MLX compiles for the shapes they are first given."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources

import mlx.core as mx

from tf_llama.rows.cuda import plan

__all__ = ["Kernel", "kernel", "run", "source_digest"]

Kernel = Callable[..., list[mx.array]]

_FILES = ("common.cuh", "linear.cuh", "attention.cuh", "between.cuh")


def _text(name: str) -> str:
    return (resources.files(__package__) / name).read_text("utf-8")


@cache
def _sources() -> dict[str, str]:
    """The files' texts without what only a compiler of whole files needs."""
    skipped = ("#pragma once", '#include "')

    def read(name: str) -> str:
        return "\n".join(line for line in _text(name).splitlines() if not line.startswith(skipped)) + "\n"

    names = ("SHORT", "UNTIL_SHORT", "MIDDLE", "UNTIL_MIDDLE", "LONG")
    constants = "\n".join(f"constexpr int {name} = {getattr(plan, name)};" for name in names)
    texts = {name: read(name) for name in _FILES}
    texts["attention.cuh"] = f"namespace tf {{\n{constants}\n}}\n{texts['attention.cuh']}"
    return texts


@cache
def source_digest() -> str:
    """Names the kernels' code and how it is called: MLX keeps compiled ones on disk by their names alone."""
    texts = (*_sources().values(), *map(_text, ("kernels.py", "plan.py")))
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:12]


@cache
def kernel(
    file: str,
    function: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    call: str,
    more: str = "",
    memory: int = 0,
) -> Kernel:
    """A kernel that calls one function of a file.

    Args:
        file: of the files beside this.
        function: in it.
        inputs: names of the arrays given.
        outputs: names of the arrays made.
        call: template arguments and arguments of the call.
        more: tells kernels of one function apart.
        memory: bytes of dynamic shared memory.
    """
    sources = _sources()
    made: Kernel = mx.fast.cuda_kernel(
        name=f"tf_{function}{more}_{source_digest()}",
        input_names=list(inputs),
        output_names=list(outputs),
        source=f"::tf::{function}{call};",
        header=sources["common.cuh"] + sources[file],
        shared_memory=memory,
    )
    return made


def run(
    kernel: Kernel,
    inputs: list[mx.array],
    template: dict[str, int],
    grid: tuple[int, int],
    threads: int,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[mx.Dtype],
) -> list[mx.array]:
    """Arrays of ``shapes`` and ``dtypes`` from ``grid`` threads, ``threads`` a block."""
    return kernel(
        inputs=inputs,
        template=list(template.items()),
        grid=(*grid, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=list(shapes),
        output_dtypes=list(dtypes),
    )

"""From the CUDA files beside this to functions that MLX compiles for the shapes they are first given."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from types import ModuleType
from typing import cast

import mlx.core as mx

from tf_llama.rows.cuda import plan

__all__ = [
    *("COMMON", "Kernel", "bounds", "constants", "digest", "kernel", "kernel_of", "run", "source_digest", "text"),
]

Kernel = Callable[..., list[mx.array]]

COMMON = "common.cuh"
"""What all kernels begin with."""

_FILES = (COMMON, "linear.cuh", "attention.cuh", "between.cuh", "meeting.cuh", "shape.cuh", "forward.cuh")
_CALLS = ("kernels.py", "plan.py", "forward.py", "layout.py", "turns.py", "form.py")
_SPLITS = ("SHORT", "UNTIL_SHORT", "MIDDLE", "UNTIL_MIDDLE", "LONG")
_WHOLE = ("#pragma once", '#include "')


@cache
def text(name: str, package: str = __package__) -> str:
    """A file of a package, without what only a compiler of whole files needs."""
    lines = (resources.files(package) / name).read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith(_WHOLE)) + "\n"


def constants(module: ModuleType, names: Sequence[str]) -> str:
    """A module's whole numbers as CUDA constants."""
    lines = (f"constexpr int {name} = {getattr(module, name)};" for name in names)
    return "\n".join(("namespace tf {", *lines, "}", ""))


def digest(*texts: str) -> str:
    """Names kernels by their code and how it is called: MLX keeps compiled ones on disk by their names alone."""
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:12]


@cache
def _sources() -> dict[str, str]:
    texts = {name: text(name) for name in _FILES}
    texts["attention.cuh"] = constants(plan, _SPLITS) + texts["attention.cuh"]
    return texts


@cache
def source_digest() -> str:
    """Names the kernels beside this."""
    return digest(*_sources().values(), *map(text, _CALLS))


def bounds(threads: int) -> str:
    """Tells the compiler how large a block is, which MLX's kernels do not say.

    Without it NVRTC 13.5 takes 174 registers a thread for a kernel whose block has 170 for each; told so, it takes 150
    (13.0 and 13.2: 142 to 150 either way).
    """
    return f"\n#undef __global__\n#define __global__ __launch_bounds__({threads}) __attribute__((global))\n"


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
    return kernel_of(f"{function}{more}", (file,), inputs, outputs, f"::tf::{function}{call};", memory)


@cache
def kernel_of(
    name: str,
    files: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    source: str,
    memory: int = 0,
    more: str = "",
) -> Kernel:
    """A kernel with some of the files beside this before it; ``more`` stands between them and it."""
    sources = _sources()
    made = mx.fast.cuda_kernel(
        name=f"tf_{name}_{source_digest()}",
        input_names=list(inputs),
        output_names=list(outputs),
        source=source,
        header="".join(sources[file] for file in (COMMON, *files)) + more,
        shared_memory=memory,
    )
    return cast(Kernel, made)


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

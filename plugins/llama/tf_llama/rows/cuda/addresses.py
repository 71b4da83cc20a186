"""Where arrays lie in the device's memory, for kernels that read hundreds of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import cast

import mlx.core as mx

from tf_llama.rows.cuda.compiling import Kernel

__all__ = ["addresses"]


def addresses(arrays: Sequence[mx.array]) -> mx.array:
    """Addresses of the arrays' first numbers, uint64 ``[len(arrays)]``, lazy.

    They hold as long as each array is alive, and MLX neither writes it nor gives it to the host to read: what is
    written or read may then be put elsewhere.
    """
    found: mx.array = _kernel(len(arrays))(
        inputs=list(arrays),
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        output_shapes=[(len(arrays),)],
        output_dtypes=[mx.uint64],
    )[0]
    return found


@cache
def _kernel(count: int) -> Kernel:
    names = [f"array{at}" for at in range(count)]
    made = mx.fast.cuda_kernel(
        name=f"tf_addresses_{count}",
        input_names=names,
        output_names=["found"],
        source="".join(f"found[{at}] = reinterpret_cast<uint64_t>({name});\n" for at, name in enumerate(names)),
        ensure_row_contiguous=False,  # a copy would lie elsewhere
    )
    return cast(Kernel, made)

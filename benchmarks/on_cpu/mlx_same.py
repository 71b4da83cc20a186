"""``mlx_lm.server`` with the matrix library and the dtype that ``tf-serve`` takes on a CPU: MKL, float32."""

from __future__ import annotations

from typing import Any

from tf_host.device import prepare
from tf_host.settings import ServerSettings


def main() -> None:
    """Load MKL before MLX, then serve float32 weights; takes the options of ``mlx_lm.server``."""
    device = prepare(ServerSettings(cpu_blas="mkl"))

    import mlx.core as mx
    from mlx.utils import tree_map
    from mlx_lm import server

    stock: Any = server  # what it imports itself is none of its exports
    load = stock.load

    def load_in_float32(*args: Any, **more: Any) -> Any:
        loaded = load(*args, **more)
        model = loaded[0]
        model.update(tree_map(lambda array: array.astype(mx.float32), model.parameters()))
        mx.eval(model.parameters())
        return loaded

    stock.load = load_in_float32
    print(f"mlx_lm.server on {device.name}", flush=True)
    stock.main()


if __name__ == "__main__":
    main()

"""mlx-lm itself on the same weights and prompts: ``stream_generate`` plain, and with ``draft_model``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.laid import module
from benchmarks.on_gpu.arguments import arguments
from benchmarks.on_gpu.pairs_here import folders
from benchmarks.on_gpu.results import Sink, left
from benchmarks.on_gpu.windows import prompts
from tf_host.cli.leaving import leave


def main(argv: Sequence[str] | None = None) -> int:
    """Generate and record."""
    parser = arguments(__doc__, "target")
    add = parser.add_argument
    add("drafters", nargs="+")
    add("--tokens", type=int, default=128)
    add("--prompts", type=int, default=8)
    add("--draft-tokens", type=int, default=4)
    options = parser.parse_args(argv)
    made = folders(options.work)
    sink = Sink(options.results, f"stock {options.target}")

    from mlx_lm.utils import load_tokenizer

    began = time.time()
    model = _loaded(made[options.target])
    tokenizer = load_tokenizer(made[options.target])  # type: ignore[no-untyped-call]
    sink.write("started", seconds=round(time.time() - began, 1))
    ways: list[tuple[str, dict[str, Any]]] = [("plain", {})]
    for name in options.drafters:
        draft = {"draft_model": _loaded(made[name]), "num_draft_tokens": options.draft_tokens}
        ways.append((f"draft_model {name}", draft))
    _once(model, tokenizer, [1, 2, 3], 8, {})
    for name, more in ways:
        _once(model, tokenizer, [1, 2, 3], 12, more)
        for number, prompt in enumerate(prompts(options.prompts)):
            if left() < 15:
                sink.write("cut", reason="the stage's time is up", way=name)
                break
            ids = tokenizer.apply_chat_template(prompt.body(500 + number)["messages"], add_generation_prompt=True)
            ids = list(ids["input_ids"] if hasattr(ids, "keys") else ids)
            sink.write("generated", way=name, prompt=prompt.id, **_once(model, tokenizer, ids, options.tokens, more))
    return 0


def _loaded(folder: Path) -> Any:
    """A laid model, made a layer at a time, so that no more than one layer's filler is under way."""
    import mlx.core as mx

    model = module(folder)
    for layer in model.model.layers:
        mx.eval(layer.parameters())
        mx.clear_cache()
    mx.eval(model.parameters())
    return model


def _once(model: Any, tokenizer: Any, ids: Sequence[int], tokens: int, more: dict[str, Any]) -> dict[str, Any]:
    from mlx_lm import stream_generate

    began = time.perf_counter()
    first, last, out = 0.0, None, []
    for last in stream_generate(model, tokenizer, list(ids), max_tokens=tokens, **more):
        first = first or time.perf_counter()
        out.append(int(last.token))
    ended = time.perf_counter()
    after = len(out) - 1
    return {
        "prompt_tokens": len(ids),
        "tokens": len(out),
        "seconds": round(ended - began, 4),
        "tokens_per_s": round(after / (ended - first), 2) if after > 0 and ended > first else None,
        "said_tokens_per_s": round(float(last.generation_tps), 2) if last is not None else None,
        "ids": out,
    }


if __name__ == "__main__":
    sys.exit(leave(main()))

"""The operations that the host's probe measures, on the real weights and real activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_llama.checks.activations import gather
from tf_llama.checks.tiles import attention_check
from tf_llama.checks.widths import between_check, first_check, last_check
from tf_plugins.types import TileCheck, WidthCheck

if TYPE_CHECKING:
    from tf_llama.model import LlamaModel

__all__ = ["checks"]


def checks(model: LlamaModel) -> Sequence[WidthCheck | TileCheck]:
    """Every function that a decode forward runs between attentions, and attention.

    They hold activations as long as they live.
    """
    seen = gather(model)
    width: list[WidthCheck] = [first_check(model, seen), last_check(model, seen)]
    if len(model.rows.weights.layers) > 1:
        width.insert(1, between_check(model, seen))
    return [*width, attention_check(model, seen)]

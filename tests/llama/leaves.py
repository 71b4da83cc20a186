"""Leaves of a model beside drafts in their places."""

from __future__ import annotations

import mlx.core as mx

from tests.llama.tiny import ids, read
from tf_llama.model import LlamaModel
from tf_plugins.types import Leaf, Window


def leaf_rows(model: LlamaModel) -> list[tuple[mx.array, mx.array]]:
    """Each leaf's logits in a window that it shares, and those of a window in which its token is the draft.

    Of two leaves in one place the second is kept each time, and the reply goes on behind it.
    """
    prompt, tokens = ids(185), ids(20, 3)
    beside, alone = read(model, prompt), read(model, prompt)
    window, found = [prompt[-1], *tokens[:3]], []
    for turn, place in enumerate((0, 1, 2, 0, 1, 2, 0)):
        leaves = [Leaf(0, tokens[4]), Leaf(place, tokens[5]), Leaf(place, tokens[6 + turn])]
        together = model.verify([Window(beside, window, leaves)])
        for at, leaf in enumerate(leaves, len(window)):
            lone = model.verify([Window(alone, [*window[: 1 + leaf.place], leaf.token])])
            found.append((together[at], lone[-1]))
            mx.eval(found[-1])
        model.keep_leaf(beside, place + 2, len(window) + 2)
        model.keep(alone, place + 2)
    return found

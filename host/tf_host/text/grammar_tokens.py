"""llguidance's form of a tokenizer, which never reads a control token out of text."""

from __future__ import annotations

import json
import secrets
from typing import Any


def grammar_tokens(backend: Any, ends: frozenset[int], vocab: int) -> Any:
    """An ``llguidance.LLTokenizer``.

    llguidance encodes text that a constraint forces, and its encoder parses control tokens spelled out there. Its copy
    therefore has them under names that no request can spell.

    Args:
        backend: the ``tokenizers.Tokenizer``.
        ends: tokens that end a reply.
        vocab: length of a mask.
    """
    import llguidance

    document = json.loads(backend.to_str())
    secret = secrets.token_hex(16)
    names = {
        added["content"]: f"control-{secret}-{added['id']}" for added in document["added_tokens"] if added["special"]
    }
    for added in document["added_tokens"]:
        added["content"] = names.get(added["content"], added["content"])
    model = document["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {names.get(piece, piece): token for piece, token in model["vocab"].items()}
    else:  # Unigram
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in model["vocab"]]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    document["post_processor"] = None  # names the tokens it adds, and nothing is added to a reply
    return llguidance.LLTokenizer(json.dumps(document), n_vocab=vocab, eos_token=sorted(ends))

"""What ``POST /tokenize`` and ``POST /detokenize`` answer: vLLM's fields, and those of the body that were ignored."""

from __future__ import annotations

from typing import Any

from tf_host.http.fields import unread
from tf_host.http.ignored import ignored_in_tokenize
from tf_host.http.prepare import chat_prompt, check_length, checked_ids, served_name
from tf_host.http.server import Served
from tf_host.http.tokens_body import DetokenizeBody, TokenizeBody
from tf_host.http.tools_body import tool_use


def tokenize(served: Served, body: TokenizeBody) -> dict[str, Any]:
    """The tokens that a request with this prompt would have."""
    served_name(served, body.model)
    tools, prompt = None, None
    if body.messages is not None:
        tools = tool_use(served.text, body.tools, None, None)
        whole = body.add_generation_prompt is not False
        prompt = chat_prompt(served, body.messages, tools, body.chat_template_kwargs, add_generation_prompt=whole)
        ids = list(prompt.ids)
    else:
        check_length(served, body.prompt or "", "prompt")
        ids = served.text.encode(body.prompt or "", start=body.add_special_tokens is not False)
    return {
        "count": len(ids),
        "max_model_len": served.context,
        "tokens": ids,
        "token_strs": [served.text.name(token) for token in ids] if body.return_token_strs else None,
        "ignored": ignored_in_tokenize(body, tools, prompt),
    }


def detokenize(served: Served, body: DetokenizeBody) -> dict[str, Any]:
    """The text of tokens."""
    served_name(served, body.model)
    ids = checked_ids(body.tokens, served.vocab, "tokens") if body.tokens else ()
    return {"prompt": served.text.decode(ids), "ignored": sorted(unread(body))}

"""Body fields that other servers have and this one does not serve, refused by name.

A field whose value asks for nothing (``n: 1``, ``echo: false``) passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tf_host.http.errors import refuse

UNSERVED: dict[str, tuple[tuple[Any, ...], str]] = {
    "n": ((1,), "send one request for each reply"),
    "best_of": ((1,), "send one request for each reply"),
    "use_beam_search": ((False,), "replies are sampled, or greedy at temperature 0"),
    "echo": ((False,), "the reply holds the new text only"),
    "suffix": (("",), "text is only continued at its end"),
    "min_tokens": ((0,), "use ignore_eos with max_tokens"),
    "prompt_logprobs": ((), "log probabilities are reported for reply tokens only"),
    "chat_template": ((), "start the server with --chat-template FILE"),
    "functions": (([],), "use tools"),
    "function_call": (("none", "auto"), "use tool_choice"),
    "audio": ((), "only text is served"),
    "modalities": ((["text"],), "only text is served"),
    "images": (([],), "only text is served"),
    "mm_processor_kwargs": (({},), "only text is served"),
    "adapters": ((), "LoRA adapters are not served"),
    "lora_path": ((), "LoRA adapters are not served"),
    "lora_request": ((), "LoRA adapters are not served"),
    "kv_bits": ((), "the key/value cache is not quantized"),
    "kv_cache_dtype": (("auto",), "the key/value cache is not quantized"),
    "logits_processors": (([],), "use logit_bias, or a grammar"),
    "include_stop_str_in_output": ((False,), "the text ends before the stop string"),
    "skip_special_tokens": ((True,), "read the ids with return_token_ids"),
    "bad_words": (([],), "use logit_bias"),
    "continue_final_message": ((False,), "end with a user's message, or use /v1/completions"),
    "truncate_prompt_tokens": ((), "shorten the prompt"),
    "documents": (([],), "put them into a message"),
    "web_search_options": ((), "the server reaches no network"),
}

UNSERVED_IN_MESSAGES: dict[str, tuple[tuple[Any, ...], str]] = {
    "function_call": ((), "use tool_calls"),
    "prefix": ((False,), "end with a user's message, or use /v1/completions"),
}
"""Both: values besides null that ask for nothing, and what to do instead."""


def refuse_unserved(body: Mapping[str, Any]) -> None:
    """Raises ``Refused`` for the first field that asks for something not served."""
    _refuse(body, UNSERVED)
    messages = body.get("messages")
    for at, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            _refuse(message, UNSERVED_IN_MESSAGES, f"messages[{at}].")


def _refuse(body: Mapping[str, Any], unserved: Mapping[str, tuple[tuple[Any, ...], str]], path: str = "") -> None:
    for field, (harmless, hint) in unserved.items():
        value = body.get(field)
        if value is None or any(type(value) is type(one) and value == one for one in harmless):
            continue
        if field in ("n", "best_of", "min_tokens") and type(value) is not int:
            raise refuse("invalid_value", f"'{field}' must be a whole number", param=field)
        shown = f" other than {harmless[0]}" if field in ("n", "best_of", "min_tokens") else ""
        raise refuse("unsupported_parameter", f"'{path}{field}'{shown} is not served", hint, param=path + field)

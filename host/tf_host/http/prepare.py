"""From a checked body to a request that can queue."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tf_host.http.chat_body import ChatBody, MessageBody, template_messages
from tf_host.http.completion_body import CompletionBody
from tf_host.http.defaults import check_known, sampling_of
from tf_host.http.errors import refuse
from tf_host.http.grammars import chat_grammar, completion_grammar
from tf_host.http.ignored import ignored_in_chat
from tf_host.http.sampling_body import SamplingBody
from tf_host.http.server import Served
from tf_host.http.tools_body import ToolUse, tool_use
from tf_host.requests import GenerateRequest
from tf_host.text import ChatPrompt, Phase
from tf_plugins.errors import Refused
from tf_plugins.types import RequestFacts


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request, and what its reply has to say about it.

    Attributes:
        request: for the engine.
        model: the name that the request used.
        body: the checked body.
        ignored: fields of the body that nothing read.
        phase: where the prompt ends: before, inside or behind the reply's reasoning.
        tools: the tools, where the reply may hold calls.
    """

    request: GenerateRequest
    model: str
    body: SamplingBody
    ignored: tuple[str, ...]
    phase: Phase = "closed"
    tools: ToolUse | None = None


def prepare_chat(served: Served, body: ChatBody, key: str | None) -> Prepared:
    """Tokenise and check a conversation; ``Refused`` for what cannot be served."""
    model = served_name(served, body.model)
    text = served.text
    tools = tool_use(text, body.tools, body.tool_choice, body.parallel_tool_calls)
    prompt = chat_prompt(served, body.messages, tools, body.variables)
    limit = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    room = room_for(len(prompt.ids), body.most_tokens, served.context, param="messages", limit=limit)
    request = GenerateRequest(
        id=f"chatcmpl-{uuid.uuid4().hex}",
        prompt=prompt.ids,
        sampling=sampling_of(body, served.settings, served.sampling, vocab=served.vocab),
        max_tokens=room,
        end_ids=end_ids_of(served, body),
        reader=text.reader(
            checked_stops(served, body.stop),
            phase=prompt.phase,
            hidden=frozenset(body.stop_token_ids),
            shown=text.call_ids if tools else frozenset(),
            one_call_of=tools.definitions if tools and tools.most == 1 else (),
        ),
        draft=body.draft is not False and served.settings.drafts,
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        grammar=chat_grammar(served, body, prompt, tools),
        boundaries=prompt.boundaries,
    )
    _ask_plugins(served, body, request, "chat", key)
    return Prepared(request, model, body, tuple(ignored_in_chat(served.text, body, tools, prompt)), prompt.phase, tools)


def prepare_completion(served: Served, body: CompletionBody, key: str | None) -> Prepared:
    """Tokenise and check a text; ``Refused`` for what cannot be served."""
    model = served_name(served, body.model)
    if isinstance(body.prompt, str):
        check_length(served, body.prompt, "prompt")
    ids = served.text.encode(body.prompt) if isinstance(body.prompt, str) else body.prompt
    prompt = checked_ids(ids, served.vocab, "prompt")
    request = GenerateRequest(
        id=f"cmpl-{uuid.uuid4().hex}",
        prompt=prompt,
        sampling=sampling_of(body, served.settings, served.sampling, vocab=served.vocab),
        max_tokens=room_for(len(prompt), body.max_tokens, served.context, param="prompt", limit="max_tokens"),
        end_ids=end_ids_of(served, body),
        # A completion continues its prompt, so its first space stays.
        reader=served.text.reader(checked_stops(served, body.stop), hidden=frozenset(body.stop_token_ids), strip=False),
        draft=body.draft is not False and served.settings.drafts,
        logprobs=body.logprobs,
        grammar=completion_grammar(served, body),
    )
    _ask_plugins(served, body, request, "completions", key)
    return Prepared(request, model, body, tuple(body.ignored))


def chat_prompt(
    served: Served,
    bodies: Sequence[MessageBody],
    tools: ToolUse | None,
    variables: Mapping[str, Any],
    *,
    add_generation_prompt: bool = True,
) -> ChatPrompt:
    """A conversation through the model's template; ``Refused`` for one that is too long to be encoded at all."""
    messages = template_messages(bodies)
    definitions = tools.definitions if tools else None
    if served.text.least_tokens([messages, definitions, variables]) >= served.context:
        # Templates leave things out, earlier reasoning for one: only what is written counts.
        check_length(served, served.text.rendered(messages, tools=definitions, variables=variables), "messages")
    return served.text.chat(
        messages, tools=definitions, variables=variables, add_generation_prompt=add_generation_prompt
    )


def served_name(served: Served, name: str | None) -> str:
    """The name that a request uses; ``Refused`` with status 404 for one that is not served."""
    if name is None:
        return served.names[0]
    if name not in served.names:
        known = ", ".join(served.names)
        # Cut: the name comes from the client and may be as long as its body.
        raise refuse(
            "model_not_found",
            f"the model {name[:200]!r} is not served here",
            f"this server serves: {known}",
            status=404,
            param="model",
        )
    return name


def checked_stops(served: Served, stops: Sequence[str]) -> Sequence[str]:
    """Stop strings, no more and no longer ones than are watched."""
    limits = served.limits
    if len(stops) > limits.stops:
        raise refuse("invalid_value", f"'stop' has more than {limits.stops} strings", param="stop")
    if any(len(stop) > limits.stop_chars for stop in stops):
        raise refuse(
            "invalid_value", f"'stop' has a string of more than {limits.stop_chars:,} characters", param="stop"
        )
    return stops


def end_ids_of(served: Served, body: SamplingBody) -> frozenset[int]:
    """The tokens that end a reply; ``Refused`` for one that does not exist."""
    check_known(body.stop_token_ids, served.vocab, "stop_token_ids")
    own = frozenset[int]() if body.ignore_eos else served.text.end_ids
    return own | frozenset(body.stop_token_ids)


def checked_ids(ids: Sequence[int], vocab: int, param: str) -> tuple[int, ...]:
    """Token ids that the model knows, at least one."""
    if not ids:
        raise refuse("empty_prompt", f"'{param}' is empty", "send at least one token", param=param)
    if min(ids) < 0 or max(ids) >= vocab:
        raise refuse(
            "invalid_token_id",
            f"'{param}' has a token id outside 0 to {vocab - 1:,}",
            "ids come from /tokenize",
            param=param,
        )
    return tuple(ids)


def check_length(served: Served, text: str, param: str) -> None:
    """Raises ``Refused`` for a text that is past the context before it is encoded: that can take a minute."""
    least = served.text.least_tokens(text)
    if least >= served.context:
        raise _no_room(f"at least {least:,}", served.context, param)


def room_for(prompt: int, most: int | None, context: int, *, param: str, limit: str) -> int:
    """Tokens that a reply may have.

    Args:
        prompt: tokens of the prompt.
        most: the request's own limit.
        context: the server's limit for both together.
        param: the field that holds the prompt.
        limit: the field that holds the request's limit.

    Raises:
        Refused: ``context_length_exceeded``, with the numbers.
    """
    room = context - prompt
    if room < 1:
        raise _no_room(f"{prompt:,}", context, param)
    if most is not None and most > room:
        raise refuse(
            "context_length_exceeded",
            f"this model's context is {context:,} tokens, and {prompt + most:,} were asked for: "
            f"{prompt:,} in the prompt and {most:,} in the reply",
            f"shorten the prompt, or set {limit} to at most {room:,}",
            param=param,
        )
    return room if most is None else most


def _no_room(prompt: str, context: int, param: str) -> Refused:
    return refuse(
        "context_length_exceeded",
        f"this model's context is {context:,} tokens, and the prompt of {prompt} leaves no room for a reply",
        "shorten the prompt",
        param=param,
    )


def _ask_plugins(served: Served, body: SamplingBody, request: GenerateRequest, route: str, key: str | None) -> None:
    sent = body.model_dump(exclude_unset=True, by_alias=True)
    facts = RequestFacts(request.id, route, len(request.prompt), request.max_tokens, sent, key)
    refusal = served.plugins.refuse_request(facts)
    if refusal is not None:
        raise Refused(refusal)

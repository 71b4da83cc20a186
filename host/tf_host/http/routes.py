"""The routes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tf_host.http.body import parse_body, read_body
from tf_host.http.chat_body import ChatBody
from tf_host.http.chat_reply import ChatReply
from tf_host.http.completion_body import CompletionBody
from tf_host.http.completion_reply import CompletionReply
from tf_host.http.generate import generate
from tf_host.http.health import as_mapping, health_of
from tf_host.http.keys import is_trusted, key_name
from tf_host.http.openapi import ERRORS, takes
from tf_host.http.prepare import Prepared, prepare_chat, prepare_completion, served_name
from tf_host.http.server import Served
from tf_host.http.tokens import detokenize, tokenize
from tf_host.http.tokens_body import DetokenizeBody, TokenizeBody
from tf_host.http.traffic import Traffic

router = APIRouter()


def _served(request: Request) -> Served:
    served: Served = request.app.state.served
    return served


def _traffic(request: Request) -> Traffic:
    traffic: Traffic = request.app.state.traffic
    return traffic


ServedNow = Annotated[Served, Depends(_served)]
TrafficNow = Annotated[Traffic, Depends(_traffic)]


async def body_of(request: Request, served: Served, traffic: Traffic) -> bytes:
    """The request's body within the server's limits."""
    return await read_body(request, traffic, most=served.body_bytes, seconds=served.limits.body_s)


@router.post("/v1/chat/completions", openapi_extra=takes(ChatBody), responses=ERRORS, response_model=None)
async def chat_completions(request: Request, served: ServedNow, traffic: TrafficNow) -> Response:
    """Continue a conversation."""
    traffic.check()
    data, key = await body_of(request, served, traffic), key_name(request.scope)

    def prepare() -> Prepared:
        return prepare_chat(served, parse_body(data, ChatBody), key)

    prepared = await run_in_threadpool(prepare)
    return await generate(request, served, traffic, prepared, ChatReply(served, prepared))


@router.post("/v1/completions", openapi_extra=takes(CompletionBody), responses=ERRORS, response_model=None)
async def completions(request: Request, served: ServedNow, traffic: TrafficNow) -> Response:
    """Continue a text."""
    traffic.check()
    data, key = await body_of(request, served, traffic), key_name(request.scope)

    def prepare() -> Prepared:
        return prepare_completion(served, parse_body(data, CompletionBody), key)

    prepared = await run_in_threadpool(prepare)
    return await generate(request, served, traffic, prepared, CompletionReply(served, prepared))


@router.head("/v1/models", include_in_schema=False)
@router.get("/v1/models", responses=ERRORS)
async def models(served: ServedNow) -> dict[str, Any]:
    """The names that requests may use."""
    return {"object": "list", "data": [_model(served, name) for name in served.names]}


@router.head("/v1/models/{name:path}", include_in_schema=False)
@router.get("/v1/models/{name:path}", responses=ERRORS)
async def model(name: str, served: ServedNow) -> dict[str, Any]:
    """One of the names."""
    return _model(served, served_name(served, name))


@router.head("/health", include_in_schema=False, response_model=None)
@router.get("/health", responses=ERRORS, response_model=None)
async def health(request: Request, served: ServedNow, traffic: TrafficNow) -> JSONResponse:
    """Whether the server answers, and what it is doing."""
    return health_of(served, traffic, details=is_trusted(request.scope))


@router.head("/metrics", include_in_schema=False)
@router.get("/metrics", responses=ERRORS, response_class=PlainTextResponse)
async def metrics(served: ServedNow) -> Response:
    """Counters for Prometheus."""
    text = served.metrics.exposition(as_mapping(served.engine.snapshot()), served.names[0])
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@router.post("/tokenize", openapi_extra=takes(TokenizeBody), responses=ERRORS, response_model=None)
async def to_tokens(request: Request, served: ServedNow, traffic: TrafficNow) -> JSONResponse:
    """The tokens of a text or a conversation."""
    data = await body_of(request, served, traffic)
    return JSONResponse(await run_in_threadpool(lambda: tokenize(served, parse_body(data, TokenizeBody))))


@router.post("/detokenize", openapi_extra=takes(DetokenizeBody), responses=ERRORS, response_model=None)
async def to_text(request: Request, served: ServedNow, traffic: TrafficNow) -> JSONResponse:
    """The text of tokens."""
    data = await body_of(request, served, traffic)
    return JSONResponse(await run_in_threadpool(lambda: detokenize(served, parse_body(data, DetokenizeBody))))


def _model(served: Served, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": served.created,
        "owned_by": "tf-plugins",
        "max_model_len": served.context,
    }

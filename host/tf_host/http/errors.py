"""Errors as OpenAI writes them."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from tf_plugins.errors import PluginError, Refused
from tf_plugins.types import Refusal

RETRY_AFTER_S = 1
"""Seconds after which a refused request is worth another try: about one reply's worth of a lane."""

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}

_UNSERVED = {
    "responses": "the Responses API is not served; use /v1/chat/completions",
    "embeddings": "embeddings are not served",
    "images": "images are not served",
    "audio": "audio is not served",
    "moderations": "moderations are not served",
    "files": "files are not served",
    "batches": "batches are not served",
    "fine_tuning": "fine-tuning is not served",
    "assistants": "assistants are not served; use /v1/chat/completions",
    "rerank": "reranking is not served",
    "load_lora_adapter": "LoRA adapters are not served",
}


def error_body(message: str, *, status: int, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """The body of an error, and the data of an error event."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_response(message: str, *, status: int, code: str | None = None, param: str | None = None) -> JSONResponse:
    """An error as a response; 503 says when to come back."""
    headers = {}
    if status == 503:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = error_body(message, status=status, code=code, param=param)
    return JSONResponse(body, status_code=status, headers=headers)


def refuse(name: str, reason: str, hint: str = "", *, status: int = 400, param: str | None = None) -> Refused:
    """A refusal to raise."""
    return Refused(Refusal(name, reason, hint, status, param))


async def on_refused(_: Request, error: Exception) -> JSONResponse:
    """``Refused`` as its own status."""
    assert isinstance(error, Refused)
    refusal = error.refusal
    return error_response(refusal.sentence, status=refusal.status, code=refusal.name, param=refusal.param)


async def on_plugin_error(_: Request, error: Exception) -> JSONResponse:
    """A plugin that failed while it judged a request; the details are in the log."""
    assert isinstance(error, PluginError)
    return error_response(f"the plugin {error.plugin!r} failed", status=500, code="plugin_error")


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    """What routing itself refuses."""
    assert isinstance(error, HTTPException)
    path, code, message = request.url.path, None, str(error.detail)
    if error.status_code == 404:
        noun = path.removeprefix("/v1").strip("/").partition("/")[0]
        code = "not_served" if noun in _UNSERVED else "not_found"
        message = _UNSERVED.get(noun, "there is nothing at this path; the routes are listed in /openapi.json")
    elif error.status_code == 405:
        code, message = "method_not_allowed", f"{request.method} is not allowed at this path"
    response = error_response(message, status=error.status_code, code=code)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


async def on_validation_error(_: Request, error: Exception) -> JSONResponse:
    """A path or query parameter of the wrong kind."""
    assert isinstance(error, RequestValidationError)
    location = error.errors()[0]["loc"]
    return error_response(f"'{field_path(location[1:])}' is not valid", status=400, code="invalid_value")


def invalid(error: ValidationError) -> Refused:
    """The first thing wrong with a body, by the name of its field."""
    first = error.errors(include_url=False, include_input=False)[0]
    context = first.get("ctx") or {}
    param = context.get("param") or field_path(first["loc"]) or None
    message = first["msg"]
    if first["type"] == "missing":
        return refuse("missing_required_parameter", f"'{param}' is missing", param=param)
    if first["type"] in ("model_type", "dict_type"):  # pydantic's own words name a class of ours
        return refuse("invalid_value", f"'{param}' must be an object", param=param)
    own = context.get("own", False)
    if own:
        text = message if param is None or f"'{param}'" in message else f"'{param}': {message}"
    else:
        text = f"'{param}' is not valid: {message[:1].lower()}{message[1:]}"
    code = first["type"] if own else "invalid_value"
    return refuse(code, text, param=param)


def field_path(location: tuple[int | str, ...]) -> str:
    """``messages[0].content`` for ``("messages", 0, "content")``."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path

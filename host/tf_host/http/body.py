"""Request bodies, from bytes to checked objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from fastapi import Request
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from tf_host.http.errors import field_path, invalid, refuse
from tf_host.http.fields import Body
from tf_host.http.traffic import Traffic
from tf_host.http.unserved import refuse_unserved
from tf_plugins.errors import Refused

AnyBody = TypeVar("AnyBody", bound=Body)

_SURROGATE = re.compile("[\ud800-\udfff]")

_LIMITS = {
    "recursion limit exceeded": ("is nested deeper than 200 levels", "flatten it"),
    "number out of range": ("has a number of more than 4,300 digits", "send a shorter one"),
}
"""What the parser says of JSON that is valid and past a limit of its own, and what to do about it."""


class ClientLeft(Exception):
    """The client closed its connection; nobody is left to answer."""


async def read_body(request: Request, traffic: Traffic, *, most: int, seconds: float) -> bytes:
    """The body's bytes.

    Raises:
        Refused: it is no JSON, or compressed (415), larger than ``most`` bytes (413), not here after ``seconds``
            (408), or not here when the server shuts down (503).
        ClientLeft: the connection is gone.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A browser asks first before it sends JSON to another origin; it does not for the types of a form.
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise refuse(
            "unsupported_media_type", "the body must be JSON", "send Content-Type: application/json", status=415
        )
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise refuse(
            "unsupported_media_type",
            "a body with a Content-Encoding is not served",
            "send it uncompressed, without that header",
            status=415,
        )
    length = request.headers.get("content-length", "")
    if length.isdigit() and (len(length) > 18 or int(length) > most):
        raise _too_large(most)
    body = bytearray()
    try:
        async with traffic.arriving(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise _too_large(most)
    except ClientDisconnect as error:
        raise ClientLeft from error
    return bytes(body)


def parse_body(data: bytes, kind: type[AnyBody]) -> AnyBody:
    """The body as a checked object; ``Refused`` names the field at fault."""
    fields = parse_object(data)
    refuse_unserved(fields)
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise invalid(error) from error


def parse_object(data: bytes) -> dict[str, Any]:
    """The body as a JSON object."""
    try:
        fields = from_json(data, allow_inf_nan=True)
    except ValueError as error:
        raise _unreadable(data, error) from error
    if not isinstance(fields, dict):
        raise refuse("invalid_json", "the body must be a JSON object")
    return fields


def _unreadable(data: bytes, error: ValueError) -> Refused:
    """Why a body was not parsed; of a lone surrogate the parser says only that an escape ends too early."""
    said, _, place = str(error).partition(" at ")
    if said in _LIMITS:
        what, hint = _LIMITS[said]
        return refuse("invalid_json", f"the body {what}, at {place}", hint)
    try:
        at = next(_lone_surrogates(json.loads(data)), None)
    except (ValueError, RecursionError):
        at = None
    if at is None:
        return refuse("invalid_json", f"the body is not valid JSON: {error}")
    param = field_path(at) or None
    holder = f"'{param}'" if param else "an object key of the body"
    reason = f"{holder} has a lone surrogate, which is not valid Unicode"
    return refuse("invalid_value", reason, "send characters past U+FFFF whole", param=param)


def _lone_surrogates(value: Any, path: tuple[int | str, ...] = ()) -> Iterator[tuple[int | str, ...]]:
    """Paths of texts that hold one; for a key, the path of its object."""
    if isinstance(value, str):
        if _SURROGATE.search(value):
            yield path
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _lone_surrogates(key, path)
            yield from _lone_surrogates(one, (*path, key))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from _lone_surrogates(one, (*path, at))


def _too_large(most: int) -> Exception:
    return refuse("request_too_large", f"the body is larger than {most:,} bytes", "raise --max-body-mib", status=413)

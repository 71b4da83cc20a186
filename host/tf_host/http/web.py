"""The page at ``/``: three files of the package, shown as they are."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import Response

PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
"""File and media type by path. They need no API key: they hold nothing of the server's."""

HEADERS = {
    # Nothing from elsewhere, nothing inline: a text that gets into the page can do nothing there.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

router = APIRouter(include_in_schema=False)


async def _file(request: Request) -> Response:
    name, kind = PAGE[request.scope["path"]]
    text = files("tf_host.http").joinpath("page", name).read_text(encoding="utf-8")
    return Response(text, media_type=kind, headers=HEADERS)


for _path in PAGE:
    router.add_api_route(_path, _file, methods=["GET", "HEAD"])

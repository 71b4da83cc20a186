"""The ASGI application."""

from __future__ import annotations

import logging
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from tf_host.http.errors import on_http_error, on_plugin_error, on_refused, on_validation_error
from tf_host.http.keys import KeyCheck, Keys, warn_if_open
from tf_host.http.middleware import Counted, Faults, Framing, Paths, Responses
from tf_host.http.origins import Cors, OriginCheck
from tf_host.http.routes import router
from tf_host.http.server import Served
from tf_host.http.traffic import Traffic
from tf_host.http.web import router as page
from tf_plugins.errors import PluginError, Refused

logger = logging.getLogger("tf_host.http")


def make_app(served: Served) -> FastAPI:
    """The application that serves ``served``.

    ``app.state.traffic`` counts its replies; ``tf_host.http.run`` drains it at shutdown.

    Raises:
        SettingsError: the API key file cannot be used.
    """
    traffic = Traffic()
    middleware = [Middleware(Responses, metrics=served.metrics), Middleware(Faults), Middleware(Framing)]
    if served.settings.cors:
        middleware.append(
            Middleware(
                Cors,
                allow_origins=list(served.settings.cors),
                allow_methods=["GET", "POST"],
                allow_headers=["*"],  # clients add headers of their own; the origin and the key are what protects
                expose_headers=["Retry-After", "WWW-Authenticate", "Allow"],
            )
        )
    keys = Keys.of(served.settings)
    if warning := warn_if_open(served.settings.host, keys):
        logger.warning("%s", warning)
    middleware += [
        Middleware(OriginCheck, allowed=served.settings.cors, keyed=keys.asked_for),
        Middleware(Paths),
        Middleware(KeyCheck, keys=keys),
        Middleware(Counted, traffic=traffic),
    ]
    app = FastAPI(
        title="tf-plugins",
        version=_version(),
        docs_url=None,  # both pages load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        middleware=middleware,
        exception_handlers={
            Refused: on_refused,
            PluginError: on_plugin_error,
            HTTPException: on_http_error,
            RequestValidationError: on_validation_error,
        },
    )
    app.state.served = served
    app.state.traffic = traffic
    app.include_router(router)
    app.include_router(page)
    return app


def _version() -> str:
    try:
        return version("tf-plugins")
    except PackageNotFoundError:
        return "0"

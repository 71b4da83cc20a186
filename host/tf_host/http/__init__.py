"""The HTTP side: an OpenAI-compatible API over the lane engine."""

from tf_host.http.app import make_app
from tf_host.http.keys import Keys, warn_if_open
from tf_host.http.metrics import Metrics
from tf_host.http.run import Server, run
from tf_host.http.server import Engine, Gate, Limits, Served

__all__ = ["Engine", "Gate", "Keys", "Limits", "Metrics", "Served", "Server", "make_app", "run", "warn_if_open"]

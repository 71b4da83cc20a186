"""``tf-serve``: compose, say so in one line, and serve until told to stop."""

from __future__ import annotations

import logging
import socket
import time

from tf_host.device import prepare
from tf_host.http import Keys, Served, make_app, run
from tf_host.http.defaults import served_defaults
from tf_host.plugins import Plugins
from tf_host.prompts.folder import make_folder
from tf_host.settings import ServerSettings
from tf_host.start.composed import Composed
from tf_host.start.composing import compose
from tf_host.start.live import showing_traffic
from tf_host.start.progress import showing_progress
from tf_plugins.types import TakesLeaves

log = logging.getLogger(__name__)


def serve(settings: ServerSettings, listening: socket.socket) -> None:
    """Start a server and run it until SIGTERM or SIGINT.

    Args:
        settings: what the server was told.
        listening: the bound socket to serve on, taken before anything loads.

    Raises:
        TfError: something that is not served, or a plugin that failed.
    """
    device = prepare(settings)
    # What cannot be used is refused before anything loads.
    Keys.of(settings)
    if settings.prompt_cache_dir is not None:
        make_folder(settings.prompt_cache_dir)
    plugins = Plugins.load(settings)
    with showing_progress() as progress:
        composed = compose(settings, device, plugins, progress)
    try:
        composed.engine.serve(composed.lanes)
        log.info("%s at %s", ready_line(composed), address(listening))
        with showing_traffic(composed.engine.snapshot):
            run(make_app(_served(composed)), listening, settings.grace)
    finally:
        composed.close()


def ready_line(composed: Composed) -> str:
    """Model, device, exactness, draft sources, context, streams and memory in one line."""
    labels = [proposer.label for proposer in composed.proposers]
    # Copies cost nothing and are asked first, but what people chose is the drafter: it is named first.
    sources = " + ".join(sorted(labels, key=lambda label: label == "copies")) or "none"
    if isinstance(composed.model, TakesLeaves) and composed.model.takes_leaves and labels:
        sources += ", with alternatives"
    gib = composed.admission.budget / (1 << 30)
    return (
        f"serving {', '.join(composed.names)} on {composed.device.name}, {composed.verdict.describe()}, "
        f"drafts: {sources}, context {composed.plan.context}, parallel {composed.admission.parallel}, "
        f"{gib:.1f} GiB for caches"
    )


def address(listening: socket.socket) -> str:
    """The URL of a bound socket; an address that stands for all of the machine's is shown as it was asked for."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _served(composed: Composed) -> Served:
    return Served(
        engine=composed.engine,
        text=composed.text,
        settings=composed.settings,
        plugins=composed.plugins,
        names=composed.names,
        fingerprint=composed.verdict.fingerprint,
        context=composed.plan.context,
        vocab=composed.text.vocab,
        sampling=served_defaults(composed.target.sampling, composed.target.name),
        created=int(time.time()),
        metrics=composed.metrics,
    )

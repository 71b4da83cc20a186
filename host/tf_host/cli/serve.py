"""``tf-serve``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from tf_host.cli.failures import reported, version
from tf_host.cli.leaving import leave
from tf_host.cli.logs import log_to_stderr
from tf_host.settings import Invocation, ServerSettings, load

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``tf-serve`` and return its exit code: 0, 1 for a failed start or server, 2 for wrong settings.

    Args:
        argv: the arguments, program name left out; by default the process's own.
    """
    code = reported("tf-serve", lambda: _run(load(sys.argv[1:] if argv is None else argv)))
    return leave(code) if argv is None else code


def _run(invocation: Invocation) -> int:
    # What an action does not need it does not import: MLX above all.
    settings = invocation.settings
    log_to_stderr(settings.log_level)
    if invocation.action == "version":
        print(f"tf-serve {version()}")
        return 0
    if invocation.action == "plugins":
        return _list_plugins(invocation)
    if invocation.action == "print-settings":
        from tf_host.plugins import parsed_settings
        from tf_host.settings.show import show

        print(show(settings, parsed_settings(settings)), end="")
        return 0
    return _serve(settings)


def _list_plugins(invocation: Invocation) -> int:
    from tf_host.plugins import survey
    from tf_host.plugins.info import as_json, as_table

    rows = survey(invocation.settings)
    print(as_json(rows) if invocation.json else as_table(rows))
    return 1 if any(row.state == "failed" for row in rows) else 0


def _serve(settings: ServerSettings) -> int:
    from tf_host.cli.port import reserve_socket

    if settings.drafter_bits is not None:
        log.info(
            "%s %s is not read: a Llama drafter is served as it is stored",
            settings.named("drafter_bits"),
            settings.drafter_bits,
        )
    with reserve_socket(settings.host, settings.port) as listening:
        from tf_host.device import prepare

        prepare(settings)  # what comes next imports MLX

        from tf_host.start import serve

        serve(settings, listening)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How a command ends when it cannot go on."""

from __future__ import annotations

import logging
import platform
import sys
import traceback
from collections.abc import Callable
from importlib import metadata

from tf_plugins import SettingsError, TfError

USAGE, FAILED = 2, 1
"""Exit codes: the command line, variables or settings file are wrong; anything else."""

_PACKAGES = ("tf-plugins", "mlx", "mlx-lm", "mlx-cpu", "mkl", "transformers", "pluggy", "pydantic-settings")


def reported(command: str, run: Callable[[], int | None]) -> int:
    """Run a command's body and return its exit code.

    An expected error is one message on stderr, its hint on a line of its own. Anything else is a bug, and is reported
    as one: with the versions and the traceback.
    """
    try:
        return run() or 0
    except TfError as error:
        print(f"{command}: {error}", file=sys.stderr)
        if error.__cause__ is not None and logging.getLogger().isEnabledFor(logging.DEBUG):
            traceback.print_exception(error.__cause__, file=sys.stderr)
        return USAGE if isinstance(error, SettingsError) else FAILED
    except KeyboardInterrupt:
        print(f"{command}: interrupted", file=sys.stderr)
        return 130
    except Exception:
        print(f"{command}: internal error, please report it with all of this\n", file=sys.stderr)
        print("\n".join(versions()), end="\n\n", file=sys.stderr)
        traceback.print_exc(file=sys.stderr)
        return FAILED


def versions() -> list[str]:
    """Lines that name the versions of everything that matters."""
    lines = [f"Python {platform.python_version()} on {platform.platform()}"]
    for package in _PACKAGES:
        try:
            lines.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return lines


def version() -> str:
    """This distribution's version."""
    try:
        return metadata.version("tf-plugins")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"

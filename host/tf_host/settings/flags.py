"""The command line of ``tf-serve``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from pydantic_settings import CliSettingsSource

from tf_host.settings import drafter_flag
from tf_host.settings.fields import word
from tf_host.settings.model import ServerSettings
from tf_host.settings.nearest import did_you_mean
from tf_host.settings.origin import Origin, flag
from tf_plugins import SettingsError

_SEE_HELP = "tf-serve --help lists the flags"


class _Parser(argparse.ArgumentParser):
    """argparse, with its complaints as sentences that are raised."""

    def error(self, message: str) -> NoReturn:
        if found := re.match(r"argument (?P<flag>--[\w-]+).*: expected one argument", message):
            raise SettingsError(f"{found['flag']} needs a value\nhint: {_SEE_HELP}")
        if found := re.match(r"argument (?P<flag>--[\w/-]+).*: ignored explicit argument (?P<value>.*)", message):
            raise SettingsError(f"{found['flag']} takes no value, not even {found['value']}\nhint: {_SEE_HELP}")
        if found := re.match(r"unrecognized arguments: (?P<words>.*)", message):
            raise SettingsError(f"one MODEL is served, and {found['words']!r} comes after it\nhint: {_SEE_HELP}")
        raise SettingsError(f"{message}\nhint: {_SEE_HELP}")


class CommandLine:
    """The flags, made from the fields of ``ServerSettings``, and the few that are no setting."""

    def __init__(self) -> None:
        self._parser = _Parser(
            prog="tf-serve",
            description="Serve a model behind an OpenAI-compatible API, with drafts that never change a reply.",
            epilog="Every flag is also a TF_* variable and a key of the settings file.",
            allow_abbrev=False,
        )
        add = self._parser.add_argument
        add("--settings", metavar="FILE", help="TOML file with settings; flags and TF_* variables go before it")
        add("--print-settings", action="store_true", help="show every setting and where it came from, and stop")
        add("--plugins", action="store_true", help="list the installed plugins, and stop")
        add("--json", action="store_true", help="with --plugins: as JSON")
        add("--version", action="store_true", help="show the version, and stop")
        self._source: CliSettingsSource[Any] = CliSettingsSource(ServerSettings, root_parser=self._parser)
        self._takes_value: dict[str, bool] = {}
        for action in self._parser._actions:
            self._takes_value |= dict.fromkeys(action.option_strings, action.nargs != 0)
            if (field := ServerSettings.model_fields.get(action.dest)) is None:
                continue
            action.metavar = word(field, "metavar") or None
            default = ",".join(field.default) if isinstance(field.default, tuple) else field.default
            shown = "" if default in (None, "") or isinstance(default, bool) else f" (default: {default})"
            action.help = f"{field.description}{shown}".replace("%", "%%")

    def parse(self, argv: Sequence[str], *, model_named: bool = False) -> tuple[dict[str, Any], argparse.Namespace]:
        """The settings given by flag, by field name, and everything parsed; ``SettingsError``.

        Args:
            argv: the arguments, program name left out.
            model_named: whether another source names the model.
        """
        self._refuse_unknown(argv)
        parsed = self._parser.parse_args(drafter_flag.normalise(argv, self.takes_value, model_named=model_named))
        return dict(self._source(parsed_args=parsed)()), parsed

    def takes_value(self, option: str) -> bool:
        """Whether the next word is the option's value; not for ``--option=value``."""
        return self._takes_value.get(option, False)

    def _refuse_unknown(self, argv: Sequence[str]) -> None:
        for given in argv:
            if given == "--":
                return
            option = given.partition("=")[0]
            is_value = not re.match(r"-{1,2}[A-Za-z]", given) or (" " in option)
            if not is_value and option not in self._takes_value:
                raise SettingsError(f"no flag {option}\nhint: {did_you_mean(option, self._takes_value, _SEE_HELP)}")


def origin(field: str, value: object) -> Origin:
    """How messages name the flag of a field."""
    name = flag(field)
    return Origin("flag", f"--no-{name[2:]}" if value is False else name)

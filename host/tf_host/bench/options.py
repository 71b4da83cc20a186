"""The command line of ``tf-bench``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tf_host.bench.prompts import load_prompts
from tf_host.bench.windows import Plan
from tf_host.cli.failures import version

__all__ = ["DEFAULT_PROMPTS", "DEFAULT_URL", "parse", "plan_of"]

N = TypeVar("N", int, float)

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_PROMPTS = Path("benchmarks/prompts.jsonl")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options; prints and exits for ``--help`` and for what cannot be used."""
    parser = argparse.ArgumentParser(
        prog="tf-bench",
        description="Stream prompts to an OpenAI-compatible server, alone and together: tokens a second, wall time, "
        "and whether replies are equal token for token. Exits 1 where a reply failed or differed.",
    )
    add = parser.add_argument
    add("--version", action="version", version=f"tf-bench {version()}")
    add("url", nargs="?", default=DEFAULT_URL, metavar="URL", help="the server (default %(default)s)")
    add("--against", metavar="URL", help="a second server: windows alternate between both, and are compared")
    add("--levels", type=_numbers(int, 1), default=(1, 2), metavar="N,...", help="streams in a window (default 1,2)")
    add("--tokens", type=_number(int, 1), default=256, metavar="N", help="most reply tokens (default %(default)s)")
    add("--reps", type=_number(int, 1), default=1, metavar="N", help="times each window is run (default %(default)s)")
    add("--windows", type=_number(int, 1), metavar="N", help="windows (default one a prompt)")
    temperatures = _numbers(float, 0)
    add("--temperatures", type=temperatures, default=(0.0,), metavar="T,...", help="temperatures (default 0)")
    add("--prompts", type=Path, default=DEFAULT_PROMPTS, metavar="FILE", help="prompts (default %(default)s)")
    add("--alone", action="store_true", help="send each request of a shared window again alone, and compare")
    add("--serial", action="store_true", help='send each request again with "draft": false, and compare')
    stops = parser.add_mutually_exclusive_group()
    stops.add_argument("--natural", action="store_true", help="replies stop by themselves (the default)")
    stops.add_argument("--ignore-eos", action="store_true", help="replies go on to --tokens; overstates drafting")
    add(
        "--stagger-ms",
        type=_number(float, 0),
        default=0.0,
        metavar="MS",
        help="between the starts of a window's streams",
    )
    add("--label", metavar="NAME", help="the server's name in the results")
    add("--against-label", metavar="NAME", help="the second server's name")
    add("--model", metavar="NAME", help="model to ask for (default the first that a server lists)")
    add("--api-key", metavar="KEY", help="sent as a bearer token")
    add("--timeout", type=_number(float, 1), default=600.0, metavar="S", help="silence that fails a request")
    add("--output", type=Path, metavar="FILE", help="write every window and cell there as JSON lines")
    add("--json", action="store_true", help="JSON lines on a terminal too")
    return parser.parse_args(argv)


def plan_of(options: argparse.Namespace) -> Plan:
    """What to run; raises ``SettingsError`` for prompts that cannot be used."""
    return Plan(
        prompts=load_prompts(options.prompts),
        levels=options.levels,
        temperatures=options.temperatures,
        reps=options.reps,
        windows=options.windows,
        tokens=options.tokens,
        ignore_eos=options.ignore_eos,
        stagger=options.stagger_ms / 1_000,
        alone=options.alone,
        serial=options.serial,
    )


def _number(kind: Callable[[str], N], least: int) -> Callable[[str], N]:
    def parsed(text: str) -> N:
        try:
            value = kind(text)
        except ValueError:
            value = kind("-1")
        if not least <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} up")
        return value

    return parsed


def _numbers(kind: Callable[[str], N], least: int) -> Callable[[str], tuple[N, ...]]:
    one = _number(kind, least)

    def parsed(text: str) -> tuple[N, ...]:
        return tuple(dict.fromkeys(one(part) for part in text.split(",")))

    return parsed

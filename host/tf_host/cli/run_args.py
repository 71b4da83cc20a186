"""The command line of ``tf-llama-run``."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tf_host.settings import drafter_flag
from tf_host.settings.flags import CommandLine
from tf_plugins import SettingsError

USAGE = "tf-llama-run MODEL [TOKENS] [draft DRAFTER,N] [options]"


@dataclass(frozen=True, slots=True)
class RunArgs:
    """What to decode.

    Attributes:
        model: as ``tf-serve`` takes it.
        tokens: prompt ids, or ``None`` with ``prompt``.
        prompt: text to decode from, or ``None``.
        raw: take ``prompt`` as it is, without the chat template.
        drafter: the drafter to decode through, ``""`` for the one that goes with the model, or ``None``.
        depth: drafts a round.
        plain: whether to decode without drafts, since nobody asked for any.
        rest: settings for the server's own parser.
    """

    model: str
    tokens: tuple[int, ...] | None
    prompt: str | None
    raw: bool
    drafter: str | None
    depth: int
    plain: bool
    temperature: float
    seed: int
    max_tokens: int
    ignore_eos: bool
    check: bool
    json: bool
    rest: tuple[str, ...]


def parse(argv: Sequence[str]) -> RunArgs:
    """The arguments, checked.

    Raises:
        SettingsError: names the argument at fault and what fits there.
        SystemExit: after ``--help``, or for a flag that does not exist.
    """
    parser = argparse.ArgumentParser(
        "tf-llama-run",
        usage=USAGE,
        description="Decode one prompt through the server's own windows and print its tokens, rounds and drafts kept.",
        epilog="Other flags are those of tf-serve: --cpu-blas, --context, --dtype, --settings, --reprobe and so on.",
        allow_abbrev=False,
    )
    parser.add_argument("model", metavar="MODEL", help="a plugin's name, a local folder, or a hub name")
    parser.add_argument("tokens", metavar="TOKENS", nargs="?", help="a file of ids, or ids with commas between")
    parser.add_argument("--prompt", metavar="TEXT", help="a user's message, in the chat template")
    parser.add_argument("--raw", action="store_true", help="take --prompt as it is, without the template")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 is greedy")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--max-tokens", type=int, default=128, metavar="N")
    parser.add_argument("--ignore-eos", action="store_true", help="do not stop at an end token")
    parser.add_argument("--check", action="store_true", help="run the long exactness check; exit 1 where rows differ")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    words, rest = _split_flags(argv, parser)
    words, (drafter, depth) = _split_draft(words)
    known = parser.parse_args(words)
    if known.tokens is not None and known.prompt is not None:
        raise SettingsError("TOKENS and --prompt both give a prompt\nhint: use one of them")
    if known.tokens is None and known.prompt is None and not known.check:
        raise SettingsError(f"nothing to decode\nhint: {USAGE}, with TOKENS, --prompt TEXT or --check")
    flagged = any(word.partition("=")[0] == drafter_flag.FLAG for word in rest)
    if flagged and drafter is not None:
        raise SettingsError(
            f"draft and {drafter_flag.FLAG} both name a drafter\nhint: take draft for a fixed depth, or the flag"
        )
    if not 0 <= known.temperature < math.inf:
        raise SettingsError(f"--temperature must be a number from 0 up, not {known.temperature:g}")
    if known.max_tokens < 1:
        raise SettingsError(f"--max-tokens must be 1 or more, not {known.max_tokens}")
    return RunArgs(
        model=known.model,
        tokens=None if known.tokens is None else _ids(known.tokens),
        prompt=known.prompt,
        raw=known.raw,
        drafter=drafter,
        depth=depth,
        plain=drafter is None and not flagged and not known.check,
        temperature=known.temperature,
        seed=known.seed,
        max_tokens=known.max_tokens,
        ignore_eos=known.ignore_eos,
        check=known.check,
        json=known.json,
        rest=tuple(rest),
    )


def _split_flags(argv: Sequence[str], parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """This command's own words, its options as ``--option=value``; and the server's flags, values included."""
    server = CommandLine()
    takes_value = {name: action.nargs != 0 for action in parser._actions for name in action.option_strings}
    own: list[str] = []
    rest: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        option = word.partition("=")[0]
        if not re.match(r"-{1,2}[A-Za-z]", option) or option in takes_value:
            with_value = takes_value.get(word, False) and words
            own.append(f"{word}={words.pop(0)}" if with_value else word)
        else:
            rest.append(word)
            alone = word == drafter_flag.FLAG and (not words or words[0].startswith("-"))
            if server.takes_value(word) and words and not alone:
                rest.append(words.pop(0))
    return own, rest


def _split_draft(words: list[str]) -> tuple[list[str], tuple[str | None, int]]:
    """Take ``draft DRAFTER,N`` out of the words that are no option."""
    if "draft" not in words[1:]:
        return words, (None, 0)
    at = words.index("draft", 1)
    value = words[at + 1] if at + 1 < len(words) else ""
    name, comma, depth = value.rpartition(",")
    if not comma or not depth.isdecimal() or not 1 <= int(depth) <= 15:
        raise SettingsError(f"draft takes DRAFTER,N with N from 1 to 15, not {value!r}\nhint: {USAGE}")
    return words[:at] + words[at + 2 :], (name, int(depth))


def _ids(tokens: str) -> tuple[int, ...]:
    """Ids from a comma list, or from a file with commas or white space between them."""
    try:
        text = tokens if set(tokens) <= set("0123456789-, ") else Path(tokens).read_text()
        ids = tuple(int(word) for word in text.replace(",", " ").split())
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"TOKENS must be a file of ids or ids with commas between, not {tokens!r} ({error})"
        ) from error
    if not ids or min(ids) < 0:
        raise SettingsError("TOKENS must hold at least one id, and none below 0")
    return ids

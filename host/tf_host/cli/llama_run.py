"""``tf-llama-run``: one reply through the server's own windows, or the long exactness check."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from typing import Any

from tf_host.cli.failures import reported, version
from tf_host.cli.leaving import leave
from tf_host.cli.run_args import RunArgs, parse
from tf_host.requests import Done, Failed, GenerateRequest, Handle, Sampling
from tf_plugins import Refused, SettingsError, TfError
from tf_plugins.types import Refusal


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 when all is well, 1 where rows differ or for what is not served, 2 for wrong arguments."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--version"]:
        print(f"tf-llama-run {version()}")
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    code = reported("tf-llama-run", lambda: _run(parse(words)))
    return leave(code) if argv is None else code


def _run(args: RunArgs) -> int:
    from tf_host.device import prepare
    from tf_host.plugins import Plugins
    from tf_host.settings import load

    flags = [args.model, *args.rest, "--parallel", "1", "--queue", "1"]
    if args.drafter is not None:
        flags += [f"--drafter={args.drafter}" if args.drafter else "--drafter", "--draft-depth", str(args.depth)]
    elif args.plain:
        flags.append("--no-drafts")
    invocation = load(flags)
    if invocation.action != "serve":
        raise SettingsError(
            f"--{invocation.action} is no flag of tf-llama-run\nhint: ask tf-serve --{invocation.action}"
        )
    settings = invocation.settings
    device = prepare(settings)  # what comes next imports MLX

    from tf_host.start import compose
    from tf_host.start.progress import showing_progress

    with showing_progress() as progress:
        composed = compose(settings, device, Plugins.load(settings), progress)
    try:
        if args.check:
            from tf_host.exact.check import check

            return 0 if check(composed, sys.stdout, progress_to=sys.stderr) else 1
        composed.engine.serve(composed.lanes)
        done, text = asyncio.run(_decode(composed, args))
    finally:
        composed.close()
    _show(done, text, args.json)
    return 0


async def _decode(composed: Any, args: RunArgs) -> tuple[Done, str]:
    prompt = _prompt(composed.text, args)
    if not prompt:
        raise Refused(Refusal("prompt_empty", "the prompt has no token", "give --prompt or TOKENS something to go on"))
    room = composed.plan.context - len(prompt)
    if room < 1 or max(prompt) >= composed.text.vocab:
        raise Refused(
            Refusal(
                "prompt_unfit",
                f"the prompt of {len(prompt)} ids does not fit the context of {composed.plan.context} tokens "
                f"and the vocabulary of {composed.text.vocab}",
                "shorten the prompt, or check TOKENS",
            )
        )
    handle = Handle(asyncio.get_running_loop())
    composed.engine.submit(
        GenerateRequest(
            id="run",
            prompt=prompt,
            sampling=Sampling(seed=args.seed, temperature=args.temperature),
            max_tokens=min(args.max_tokens, room),
            end_ids=frozenset() if args.ignore_eos else composed.text.end_ids,
            reader=composed.text.reader(),
        ),
        handle,
    )
    text = ""
    async for event in handle:
        if isinstance(event, Failed):
            raise TfError(event.message)
        if isinstance(event, Done):
            return event, text
        text += getattr(event, "text", "")
    raise TfError("the reply ended without a result")


def _prompt(text: Any, args: RunArgs) -> tuple[int, ...]:
    if args.tokens is not None:
        return args.tokens
    if args.raw:
        return tuple(text.encode(args.prompt))
    return tuple(text.chat([{"role": "user", "content": args.prompt}]).ids)


def _show(done: Done, text: str, as_json: bool) -> None:
    drafted, kept = sum(done.drafted.values()), sum(done.kept.values())
    tokens = len(done.tokens)
    rate = (tokens - 1) / done.decode_s if done.decode_s else 0.0
    if as_json:
        facts = {
            "tokens": list(done.tokens),
            "text": text,
            "reason": done.reason,
            "prompt_tokens": done.prompt_tokens,
            "rounds": done.rounds,
            "drafted": dict(done.drafted),
            "kept": dict(done.kept),
            "tokens_per_second": round(rate, 2),
        }
        print(json.dumps(facts))
        return
    print(",".join(map(str, done.tokens)))
    print(text)
    print(f"{tokens} tokens ({done.reason}), {done.rounds} rounds, {kept} of {drafted} drafts kept, {rate:.1f} tok/s")


if __name__ == "__main__":
    sys.exit(main())

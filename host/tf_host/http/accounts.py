"""What a reply says about itself: usage and the ``tf`` block."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from tf_host.http.prepare import Prepared
from tf_host.requests import Done
from tf_host.text import Phase, ThinkingMarks, reasoning_tokens


def usage(done: Done, marks: ThinkingMarks | None = None, phase: Phase = "closed") -> dict[str, Any]:
    """Token counts; the token that completed the stop or the end is counted, and nothing after it.

    Args:
        done: the end of the reply.
        marks: the marks around reasoning, where the model has them.
        phase: where the prompt ended.
    """
    counts: dict[str, Any] = {
        "prompt_tokens": done.prompt_tokens,
        "completion_tokens": len(done.tokens),
        "total_tokens": done.prompt_tokens + len(done.tokens),
        "prompt_tokens_details": {"cached_tokens": done.cached_tokens},
    }
    if marks is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": reasoning_tokens(done.tokens, marks, phase)}
    return counts


def tf_block(prepared: Prepared, done: Done) -> dict[str, Any]:
    """How the reply was made."""
    return {
        "request_id": prepared.request.id,
        "seed": prepared.request.sampling.seed,
        "token_sha": token_sha(done.tokens),
        "cached_tokens": done.cached_tokens,
        "rounds": done.rounds,
        "drafted": sum(done.drafted.values()),
        "accepted": sum(done.kept.values()),
        "sources": {
            source: {"drafted": count, "accepted": done.kept.get(source, 0)} for source, count in done.drafted.items()
        },
        "ignored": list(prepared.ignored),
        "timings": {
            "queued_s": round(done.queued_s, 6),
            "prompt_s": round(done.prompt_s, 6),
            "decode_s": round(done.decode_s, 6),
            "tokens_per_second": speed(done),
        },
    }


def token_sha(ids: Iterable[int]) -> str:
    """SHA-256 over ids written as decimals with commas between them."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()


def speed(done: Done) -> float | None:
    """Tokens a second after the first one."""
    return round((len(done.tokens) - 1) / done.decode_s, 2) if done.decode_s > 0 and len(done.tokens) > 1 else None

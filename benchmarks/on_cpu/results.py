"""Results of the stages, read back."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tf_host.bench.summary import percentile

Record = dict[str, Any]
CELLS = ((0.0, 1), (0.7, 1), (0.0, 2), (0.7, 2))


@dataclass(frozen=True)
class Stage:
    """One stage's windows.

    Attributes:
        began: when it was run.
        windows: its window records.
        others: the records of a stage that measures something else.
    """

    began: str
    windows: tuple[Record, ...]
    others: tuple[Record, ...] = ()

    @property
    def labels(self) -> list[str]:
        """Its servers, in order."""
        return list(dict.fromkeys(window["label"] for window in self.windows))

    def of(self, label: str, temperature: float | None = None, streams: int | None = None) -> list[Record]:
        """A server's windows, of one cell or of all."""
        return [
            window
            for window in self.windows
            if window["label"] == label
            and temperature in (None, window["temperature"])
            and streams in (None, window["streams"])
        ]

    def rate(self, label: str, temperature: float | None = None, streams: int | None = None) -> float | None:
        """Median tokens a second."""
        rates = [w["tokens_per_s"] for w in self.of(label, temperature, streams) if w["tokens_per_s"]]
        return median(rates) if rates else None

    def ratios(
        self, one: str, other: str, temperature: float | None = None, streams: int | None = None, *, wall: bool = False
    ) -> list[float]:
        """``one`` over ``other``, a pair of windows each: tokens a second, or the other way round the wall time."""
        theirs = {_key(window): window for window in self.of(other, temperature, streams)}
        pairs = [(w, theirs[_key(w)]) for w in self.of(one, temperature, streams) if _key(w) in theirs]
        whole = [(w, o) for w, o in pairs if w["tokens_per_s"] and o["tokens_per_s"]]
        if wall:
            return [o["wall_s"] / w["wall_s"] for w, o in whole]
        return [w["tokens_per_s"] / o["tokens_per_s"] for w, o in whole]

    def equal(self, name: str, label: str) -> tuple[int, int]:
        """How many of the comparisons called ``name`` were equal, and of how many."""
        results = [result for window in self.of(label) for result in window[name]]
        return sum(results), len(results)

    def failed(self) -> int:
        """Replies that failed or were cut off."""
        return sum("problem" in request for window in self.windows for request in window["requests"])

    def tokens_a_round(self, label: str, temperature: float | None = None, streams: int | None = None) -> float | None:
        """Reply tokens a round."""
        requests = [request for window in self.of(label, temperature, streams) for request in window["requests"]]
        rounds = sum(request.get("rounds", 0) for request in requests)
        return sum(request["tokens"] for request in requests) / rounds if rounds else None

    def kept(self, label: str, temperature: float | None = None, streams: int | None = None) -> dict[str, str]:
        """Drafts kept of those verified, by source."""
        drafted, kept = Counter[str](), Counter[str]()
        for window in self.of(label, temperature, streams):
            for request in window["requests"]:
                for source, counts in (request.get("sources") or {}).items():
                    drafted[source] += counts["drafted"]
                    kept[source] += counts["accepted"]
        return {source: f"{kept[source]} of {drafted[source]}" for source in sorted(drafted)}

    def by_kind(self, label: str, temperature: float = 0.0) -> dict[str, list[float]]:
        """Tokens a second of one stream, by the prompt's kind."""
        kinds: dict[str, list[float]] = defaultdict(list)
        for window in self.of(label, temperature, 1):
            if window["tokens_per_s"]:
                kinds[window["requests"][0]["prompt_kind"]].append(window["tokens_per_s"])
        return dict(kinds)


def load(folder: Path) -> dict[str, Stage]:
    """The stages whose results are there."""
    stages = {}
    for path in sorted(folder.glob("*.jsonl")):
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        windows = tuple(record for record in records if record["kind"] == "window")
        began = next((record["began"] for record in records if record["kind"] == "stage"), "")
        others = tuple(record for record in records if record["kind"] not in ("window", "cell", "stage"))
        stages[path.stem] = Stage(began, windows, others)
    return stages


def spread(values: Sequence[float]) -> tuple[float, float]:
    """The 5th percentile and the median."""
    return percentile(values, 0.05), median(values)


def _key(window: Record) -> tuple[Any, ...]:
    return window["rep"], window["window"], window["temperature"], window["streams"], window["requests"][0]["number"]

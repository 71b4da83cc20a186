"""A real engine over a model with as many logits as the tests' tokenizers have ids."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from tests.fakes.lanes import CountAdmission, make_lanes
from tests.fakes.model import FakeModel
from tf_host.lanes import EngineThread, Limits
from tf_plugins.rows import RowPlan
from tf_plugins.types import Proposer

CONTEXT = 1_024
PLAN = RowPlan(
    widths=(2, 4, 8, 16),
    tile=4,
    context=CONTEXT,
    edges=(256, 512, 768, 1_024),
    rungs=(256, 512, 1_024),
    grid=64,
    chunk_rows=(16, 64),
)


def _wide_logits(entries: Any, salt: bytes) -> Any:
    digest = hashlib.shake_256(memoryview(entries).cast("B").tobytes() + salt).digest(512)
    return (np.frombuffer(digest, dtype=np.uint8).astype(np.float32) - 128.0) / 32.0


@contextmanager
def wide_engine(
    vocab: int,
    proposers: Sequence[Proposer] = (),
    admission: CountAdmission | None = None,
    limits: Limits | None = None,
    prepare: Callable[[FakeModel], None] = lambda model: None,
) -> Iterator[EngineThread]:
    """An engine that serves, over a model of ``vocab`` ids that ``prepare`` may change."""
    engine = EngineThread()
    with mock.patch("tests.fakes.model._logits", _wide_logits):
        model = FakeModel(PLAN, vocab=vocab, padded=512)
        prepare(model)
        used = admission or CountAdmission()
        lanes = engine.call(
            lambda: make_lanes(model, depth=5, proposers=proposers, admission=used, limits=limits or Limits())
        )
        engine.serve(lanes)
        try:
            yield engine
        finally:
            engine.stop(0.0)

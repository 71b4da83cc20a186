"""Exact rows, proven at load: bands of widths that agree, the query tile, and a verdict kept on disk."""

from tf_host.exact.bands import WIDTHS, agreeing, choose, intersect
from tf_host.exact.probe import probe
from tf_host.exact.replay import Difference, replay
from tf_host.exact.store import VerdictStore
from tf_host.exact.verdict import OperationRow, Verdict

__all__ = [
    "WIDTHS",
    "Difference",
    "OperationRow",
    "Verdict",
    "VerdictStore",
    "agreeing",
    "choose",
    "intersect",
    "probe",
    "replay",
]

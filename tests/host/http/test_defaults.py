"""Sampling defaults that a checkpoint brings: what a request could ask for, and nothing else."""

from __future__ import annotations

import math

import pytest

from tf_host.http.defaults import served_defaults


def test_what_a_request_could_ask_for_is_served() -> None:
    found = {"temperature": 0.6, "top_p": 0.9, "top_k": 40.0, "min_p": 0.0, "repetition_penalty": 1.1}
    assert served_defaults(found, "m") == found


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", math.nan),
        ("temperature", -0.5),
        ("temperature", math.inf),
        ("top_p", 0.0),
        ("top_p", 7.0),
        ("top_k", 2.5),
        ("min_p", -1.0),
        ("repetition_penalty", 0.0),
    ],
)
def test_the_log_names_what_is_left_out(field: str, value: float, caplog: pytest.LogCaptureFixture) -> None:
    assert served_defaults({field: value, "top_k": 3.0} | {field: value}, "m").get(field) is None
    assert f"m: its default {field} {value!r} is left out: " in caplog.text

"""The verdict's key, text and file."""

from dataclasses import replace

import pytest

from tf_host.exact import OperationRow, Verdict, VerdictStore
from tf_host.exact.verdict import verdict_key
from tf_plugins.rows import RowPlan

BITS = {"mlx": "0.32.4", "backend": "cpu", "blas": "mkl", "threads": 2, "dtype": "float32"}
BASE = RowPlan.for_device("cpu", 8_192)


def verdict(**changes) -> Verdict:
    made = Verdict(True, (4, 5, 8), 2, (512, 1_024), (OperationRow("head 4->9", "{1} {2..8}", 10),), "", "k" * 64)
    return replace(made, **changes)


def test_a_kept_verdict_is_read_again(tmp_path):
    store = VerdictStore(tmp_path / "verdicts")
    assert store.load("k" * 64) is None
    store.save(verdict())
    assert store.load("k" * 64) == verdict()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"exact": true}', '{"widths": 3}'])
def test_a_damaged_verdict_file_is_probed_again_with_one_log_line(tmp_path, caplog, text):
    (tmp_path / "key.json").write_text(text)
    assert VerdictStore(tmp_path).load("key") is None
    assert len(caplog.records) == 1
    assert "probing again" in caplog.text


def test_a_verdict_under_another_key_is_not_used(tmp_path):
    (tmp_path / "other.json").write_text(verdict().to_json())
    assert VerdictStore(tmp_path).load("other") is None


def test_a_folder_that_cannot_be_written_costs_no_start(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    VerdictStore(tmp_path / "file").save(verdict())
    assert "cannot be kept" in caplog.text


@pytest.mark.parametrize("field", sorted(BITS))
def test_the_key_changes_with_every_field_that_moves_bits(field):
    assert verdict_key(BITS, "w", BASE) != verdict_key({**BITS, field: "other"}, "w", BASE)


def test_the_key_changes_with_weights_and_plan_but_not_with_what_the_probe_will_choose():
    key = verdict_key(BITS, "w", BASE)
    assert key != verdict_key(BITS, "v", BASE)
    assert key != verdict_key(BITS, "w", RowPlan.for_device("cpu", 4_096))
    assert key != verdict_key(BITS, "w", replace(BASE, markers=frozenset({1})))
    assert key == verdict_key(BITS, "w", BASE.with_band((4, 8), 4))


def test_the_start_line_says_what_was_proven():
    assert verdict().describe() == "exact (rows 4-8, tile 2)"
    assert verdict(widths=(16,)).describe() == "exact (rows 16, tile 2)"
    assert "mlp.down" in verdict(exact=False, widths=(1,), failure="mlp.down").describe()

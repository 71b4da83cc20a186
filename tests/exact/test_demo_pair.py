"""The probe on the demo target's real weights, on whatever backend this process runs."""

from __future__ import annotations

import pytest

from tf_host.exact import WIDTHS, probe
from tf_host.exact.sample import SAMPLE
from tf_host.text import load_text
from tf_plugins.rows import RowPlan
from tf_plugins.types import Device

pytestmark = [pytest.mark.exact, pytest.mark.slow]


def test_the_demo_target_is_served_exactly_from_the_band_that_the_rule_picks(
    demo_folders, device: Device, backend: str, capsys: pytest.CaptureFixture[str]
):
    from tf_llama.family import LlamaFamily

    def quiet(doing: str, done: float) -> None:
        pass

    family = LlamaFamily()
    checkpoint = family.read(demo_folders[0], "target")
    model = family.load(checkpoint, device, quiet)
    text = load_text(checkpoint.folder, end_ids=checkpoint.end_ids, vocab=checkpoint.vocab)
    base = RowPlan.for_device(device.kind, 1_024)
    verdict = probe(model, base, device.kind, "key", text.encode(SAMPLE, special=False), quiet)
    with capsys.disabled():
        print(f"\n{backend}: {verdict.describe()}")
        for row in verdict.table:
            print(f"  {row.name}: {row.agree}")
    assert verdict.exact, verdict.failure
    bands = next(row.agree for row in verdict.table if row.name == "all row operations")
    if backend not in ("mkl", "mkl-plain") or "STRICT" in device.name:
        # Reference products and strict MKL do not depend on the number of rows.
        assert verdict.widths == WIDTHS
    elif bands.count("{") == 1:
        pytest.skip(f"MKL has one band on this processor: {bands}")
    else:
        assert verdict.widths[0] > 1

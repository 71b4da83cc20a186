"""The page and the plot of the bench on a CPU, from results that are made up."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from benchmarks.on_cpu import bad_drafter, page, plot, results, stages


def window(label: str, number: int, cell: tuple[float, int], rate: float | None, **more: Any) -> dict[str, Any]:
    requests = [
        {
            "prompt": f"p{number}",
            "prompt_kind": "code" if number % 2 else "chat",
            "number": number,
            "tokens": 100,
            "rounds": 40,
            "wall_s": 2.0,
            "sources": {"copy": {"drafted": 10, "accepted": 9}, "drafter": {"drafted": 50, "accepted": 20}},
        }
        for _ in range(cell[1])
    ]
    made = {"kind": "window", "label": label, "temperature": cell[0], "streams": cell[1], "window": number, "rep": 0}
    made |= {"tokens_per_s": rate, "wall_s": 2.0, "alone": [], "serial": [], "same": [True] * cell[1]}
    return made | {"requests": requests} | more


def write(folder: Path, stage: str, windows: list[dict[str, Any]]) -> None:
    lines = [{"kind": "stage", "began": "2026-11-29 10:00"}, *windows]
    (folder / f"{stage}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_pair_of_servers(tmp_path: Path) -> None:
    windows = []
    for number in range(4):
        for label, rate in (("drafter", 20.0 + number), ("no drafter", 10.0), ("no drafter again", 10.5 - number / 4)):
            windows.append(window(label, number, (0.0, 1), rate))
    write(tmp_path, "pair", windows)
    stage = results.load(tmp_path)["pair"]
    assert stage.rate("drafter", 0.0, 1) == 21.5
    assert stage.ratios("drafter", "no drafter", 0.0, 1) == [2.0, 2.1, 2.2, 2.3]
    assert stage.tokens_a_round("drafter") == 2.5
    assert stage.kept("drafter") == {"copy": "36 of 40", "drafter": "80 of 200"}
    text = page.write({"pair": stage}, None)
    assert "Measured on 2026-11-29" in text
    assert "| greedy, alone | 21.5 | 10.0 | 2.15 | 1.00 | 2.00 | 0.98 | 0 of 4 | 2.50 |" in text
    assert "equal with the drafter and without it: 4 of 4; failed or cut off: 0" in text


def test_a_window_that_failed_counts_nowhere_but_as_failed(tmp_path: Path) -> None:
    bad = window("drafter", 1, (0.0, 1), None)
    bad["requests"][0]["problem"] = "cut off"
    write(
        tmp_path,
        "pair",
        [
            window("drafter", 0, (0.0, 1), 20.0),
            bad,
            *(window("no drafter", number, (0.0, 1), 10.0, same=[number == 0]) for number in range(2)),
        ],
    )
    stage = results.load(tmp_path)["pair"]
    assert stage.ratios("drafter", "no drafter") == [2.0]
    assert stage.failed() == 1
    assert stage.equal("same", "no drafter") == (1, 2)


def test_every_stage_has_a_section(tmp_path: Path) -> None:
    servers = {
        "pair": (stages.DRAFTER, stages.NONE, stages.AGAIN),
        "plain": (stages.DRAFTER, stages.PLAIN),
        "equal": (stages.DRAFTER,),
        "oracle": (stages.DRAFTER, "depth 0", "depth 3"),
        "mlx": (stages.PLAIN, "mlx-lm", "mlx-lm same"),
        "bad": ("bad drafter", "slow drafter", stages.NONE, stages.AGAIN),
        "self": ("itself",),
        "cold": (stages.DRAFTER, stages.NONE),
    }
    # The stage that serves nothing has a test of its own.
    assert {*servers, "parts"} == set(stages.STAGES) == set(page.SECTIONS)
    for stage, labels in servers.items():
        windows = [window(label, number, (0.0, 1), 10.0, alone=[True]) for label in labels for number in range(3)]
        write(tmp_path, stage, windows)
    found = results.load(tmp_path)
    picture = tmp_path / "benchmarks.png"
    assert plot.draw(found, picture)
    assert picture.stat().st_size > 10_000
    text = page.write(found, picture)
    assert text.count("\n## ") == len(servers)
    assert "![Tokens a second by prompt kind](benchmarks.png)" in text
    assert "priced over the best | 1.00" in text


def test_without_results_there_is_a_page_and_no_plot(tmp_path: Path) -> None:
    assert not plot.draw({}, tmp_path / "none.png")
    assert "\n## " not in page.write({}, None)


def test_a_bad_drafter_has_the_same_shapes_and_other_numbers(tmp_path: Path) -> None:
    source = tmp_path / "drafter"
    source.mkdir()
    header = json.dumps({"w": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]}}).encode()
    (source / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))
    (source / "config.json").write_text("{}")
    made = bad_drafter.make(source, tmp_path / "bad")
    data = (made / "model.safetensors").read_bytes()
    assert (made / "config.json").exists()
    assert data[: 8 + len(header)] == (source / "model.safetensors").read_bytes()[: 8 + len(header)]
    assert len(data) == 8 + len(header) + 64
    assert data[-64:] != bytes(64)


def test_a_round_by_its_parts(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"kind": "stage", "began": "2026-11-29 10:00"},
        *({"kind": "round", "rows": rows, "total_ms": 40.0 + rows} for rows in (1, 4)),
        {"kind": "drafting", "steps": 2, "ms": {"median": 9.0, "worst": 11.0, "first": 20.0}},
        {"kind": "draw", "fresh_ms": 0.9, "shared_ms": 0.2},
        {"kind": "outside", "round_ms": 41.5, "inside_ms": 41.0},
    ]
    for way, seconds in (("depth 0", 4.0), ("depth 2", 2.0), ("priced", 1.6)):
        one = {"kind": "oracle", "way": way, "temperature": 0.0, "tokens": 80, "seconds": seconds, "equal": True}
        records.append(one | {"decode_s": seconds - 0.1})
    (tmp_path / "parts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    text = page.write(results.load(tmp_path), None)
    assert "| ms | 41.0 | 44.0 |" in text
    assert "- 2 chained steps of the drafter: 9.0 ms" in text
    assert "- one row's draw at 0.7: 0.90 ms, 0.20 with" in text
    assert "0.50 ms of a plain round" in text
    assert "| 2 | 40.0 (41.6) | 1 of 1 |" in text
    assert "| priced | 50.0 (52.7) | 1 of 1 |" in text

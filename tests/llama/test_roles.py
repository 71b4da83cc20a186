"""Who may be a target, who a drafter, and which drafter goes with a target."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.llama.tiny import checkpoint
from tf_llama.family import LlamaFamily
from tf_llama.roles import Shape, drafter_for, roles_of
from tf_plugins import Refused

BIG: Shape = (5_120, 64, 25_600, 64, 8, 128)
SMALL: Shape = (2_560, 32, 10_496, 20, 4, 128)
DEMO: Shape = (192, 6, 576, 3, 1, 64)
OTHER: Shape = (64, 3, 160, 4, 2, 16)


@pytest.mark.parametrize(
    ("name", "shape", "vocab", "roles"),
    [
        ("Nanbeige/Nanbeige4.3-33B", BIG, 166_144, {"target"}),
        ("Nanbeige/Nanbeige4.3-33B@c1093c5", OTHER, 1, {"target"}),
        ("nanbeige4.3-33b", OTHER, 1, {"target"}),
        ("renamed", BIG, 166_400, {"target"}),
        ("Nanbeige/Nanbeige4.1-3B", SMALL, 166_144, {"drafter"}),
        ("Nanbeige4.1-3B/", OTHER, 1, {"drafter"}),
        ("renamed", SMALL, 166_144, {"drafter"}),
        ("another model of that shape", SMALL, 32_000, {"target", "drafter"}),
        ("demo-drafter", DEMO, 49_152, {"drafter"}),
        ("renamed", DEMO, 49_152, {"drafter"}),
        ("demo", OTHER, 49_152, {"target", "drafter"}),
        ("unlisted/llama", OTHER, 32_000, {"target", "drafter"}),
        ("meta-llama/Llama-3.1-8B-Instruct", OTHER, 128_256, {"target", "drafter"}),
    ],
)
def test_roles(name: str, shape: Shape, vocab: int, roles: set[str]) -> None:
    assert roles_of(name, shape, vocab) == roles


@pytest.mark.parametrize(
    ("name", "drafter"),
    [
        ("Nanbeige/Nanbeige4.3-33B", "Nanbeige/Nanbeige4.1-3B"),
        ("Nanbeige4.3-33B", "Nanbeige/Nanbeige4.1-3B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"),
        ("HuggingFaceTB/SmolLM2-1.7B-Instruct", "HuggingFaceTB/SmolLM2-360M-Instruct"),
        ("demo", "demo-drafter"),
        ("unlisted/llama", None),
    ],
)
def test_the_drafter_that_goes_with_a_target(name: str, drafter: str | None) -> None:
    assert drafter_for(name, OTHER, 1) == drafter


def test_a_drafter_only_checkpoint_is_refused_alone_by_name(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "Nanbeige4.1-3B")
    assert LlamaFamily().read(folder, "drafter").roles == {"drafter"}
    with pytest.raises(Refused, match=r"Nanbeige4\.1-3B is served as a drafter only\nhint: .*--drafter"):
        LlamaFamily().read(folder, "target")


def test_a_target_only_checkpoint_is_no_drafter(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "x")
    with pytest.raises(Refused, match=r"Nanbeige/Nanbeige4\.3-33B is served as a target only"):
        LlamaFamily().read(folder, "drafter", "Nanbeige/Nanbeige4.3-33B")


def test_the_packaged_drafter_is_one_by_its_shape() -> None:
    import tf_demo

    folder = Path(tf_demo.__file__).parent / "drafter"
    assert LlamaFamily().read(folder, "drafter", "anything").roles == {"drafter"}
    with pytest.raises(Refused, match="anything is served as a drafter only"):
        LlamaFamily().read(folder, "target", "anything")

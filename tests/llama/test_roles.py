"""Who may be a target, who a drafter, and which drafter goes with a target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.llama.tiny import checkpoint, config
from tf_llama.family import LlamaFamily
from tf_llama.roles import Shape, drafter_for, roles_of
from tf_plugins import Refused

BIG: Shape = (5_120, 64, 25_600, 64, 8, 128)
SMALL: Shape = (2_560, 32, 10_496, 20, 4, 128)
DRAFTER: Shape = (192, 6, 576, 3, 1, 64)
DEMO: Shape = (576, 30, 1_536, 9, 3, 64)
EIGHT: Shape = (4_096, 32, 14_336, 32, 8, 128)
OTHER: Shape = (64, 3, 160, 4, 2, 16)


@pytest.mark.parametrize(
    ("name", "shape", "vocab", "roles"),
    [
        ("Nanbeige/Nanbeige4.3-33B", BIG, 166_144, {"target"}),
        ("Nanbeige/Nanbeige4.3-33B@c1093c5", OTHER, 1, {"target"}),
        ("nanbeige4.3-33b", BIG, 166_400, {"target"}),
        ("renamed", BIG, 166_400, {"target"}),
        ("nanbeige4.3-33b", OTHER, 1, {"target", "drafter"}),
        ("some-32b-llama", BIG, 151_936, {"target", "drafter"}),
        ("Nanbeige/Nanbeige4.1-3B", SMALL, 166_144, {"drafter"}),
        ("Nanbeige4.1-3B/", SMALL, 166_144, {"drafter"}),
        ("Nanbeige4.1-3B", OTHER, 1, {"target", "drafter"}),
        ("Nanbeige4.1-3B", SMALL, 32_000, {"target", "drafter"}),
        # Its maker has others of that shape, which answer alone, and so may anybody's finetune.
        ("Nanbeige/Nanbeige4-3B-Thinking-2511", SMALL, 166_144, {"target", "drafter"}),
        ("my-finetune", SMALL, 166_144, {"target", "drafter"}),
        ("demo-drafter", DRAFTER, 49_152, {"drafter"}),
        ("renamed", DRAFTER, 49_152, {"drafter"}),
        ("demo-drafter", OTHER, 49_152, {"target", "drafter"}),
        ("demo", DEMO, 49_152, {"target", "drafter"}),
        ("unlisted/llama", OTHER, 32_000, {"target", "drafter"}),
        ("meta-llama/Llama-3.1-8B-Instruct", EIGHT, 128_256, {"target", "drafter"}),
    ],
)
def test_roles(name: str, shape: Shape, vocab: int, roles: set[str]) -> None:
    assert roles_of(name, shape, vocab) == roles


@pytest.mark.parametrize(
    ("name", "shape", "vocab", "drafter"),
    [
        ("Nanbeige/Nanbeige4.3-33B", OTHER, 1, "Nanbeige/Nanbeige4.1-3B"),
        ("Nanbeige4.3-33B", BIG, 166_144, "Nanbeige/Nanbeige4.1-3B"),
        ("renamed", BIG, 166_144, "Nanbeige/Nanbeige4.1-3B"),
        ("Nanbeige4.3-33B", OTHER, 1, None),
        ("some-32b-llama", BIG, 151_936, None),
        ("some-32b-llama", BIG, 166_099, None),
        ("meta-llama/Llama-3.1-8B-Instruct", OTHER, 1, "meta-llama/Llama-3.2-1B-Instruct"),
        ("Llama-3.1-8B-Instruct", EIGHT, 128_256, "meta-llama/Llama-3.2-1B-Instruct"),
        ("llama-3-8b", EIGHT, 128_256, None),
        ("HuggingFaceTB/SmolLM2-1.7B-Instruct", OTHER, 1, "HuggingFaceTB/SmolLM2-360M-Instruct"),
        ("demo", DEMO, 49_152, "demo-drafter"),
        ("demo", EIGHT, 128_256, None),
        ("smollm2-135m-instruct", DEMO, 49_152, "demo-drafter"),
        ("unlisted/llama", OTHER, 32_000, None),
    ],
)
def test_the_drafter_that_goes_with_a_target(name: str, shape: Shape, vocab: int, drafter: str | None) -> None:
    assert drafter_for(name, shape, vocab) == drafter


def of_shape(folder: Path, shape: Shape, vocab: int) -> Path:
    """A folder with a config of that shape, and no weights."""
    keys = ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "num_key_value_heads")
    folder.mkdir()
    raw = config(**dict(zip((*keys, "head_dim"), shape, strict=True)), vocab_size=vocab)
    (folder / "config.json").write_text(json.dumps(raw))
    return folder


def test_a_drafter_only_checkpoint_is_refused_alone_by_name(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "x")
    name = "Nanbeige/Nanbeige4.1-3B"
    assert LlamaFamily().read(folder, "drafter", name).roles == {"drafter"}
    with pytest.raises(Refused) as caught:
        LlamaFamily().read(folder, "target", name)
    assert str(caught.value.refusal) == (
        f"{name} is served as a drafter only\nhint: serve a target and give this one with --drafter"
    )


def test_a_folder_called_like_it_is_refused_with_a_way_out_for_another_model_of_that_shape(tmp_path: Path) -> None:
    folder = of_shape(tmp_path / "nanbeige4.1-3b", SMALL, 166_144)
    with pytest.raises(Refused) as caught:
        LlamaFamily().refuse(folder, "target")
    assert str(caught.value.refusal) == (
        "nanbeige4.1-3b has the shape of Nanbeige/Nanbeige4.1-3B, which is served as a drafter only\n"
        "hint: serve a target and give this one with --drafter;"
        " if this is another model of that shape, give its folder another name"
    )
    LlamaFamily().refuse(folder, "drafter")
    folder.rename(tmp_path / "mine")
    LlamaFamily().refuse(tmp_path / "mine", "target")


def test_a_target_only_checkpoint_is_no_drafter(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "x")
    with pytest.raises(Refused, match=r"Nanbeige/Nanbeige4\.3-33B is served as a target only"):
        LlamaFamily().read(folder, "drafter", "Nanbeige/Nanbeige4.3-33B")
    big = of_shape(tmp_path / "renamed", BIG, 166_400)
    with pytest.raises(
        Refused, match=r"renamed has the shape of Nanbeige/Nanbeige4\.3-33B, which is served as a target"
    ):
        LlamaFamily().refuse(big, "drafter")


def test_the_packaged_drafter_is_one_by_its_shape() -> None:
    import tf_demo

    folder = Path(tf_demo.__file__).parent / "drafter"
    assert LlamaFamily().read(folder, "drafter", "anything").roles == {"drafter"}
    with pytest.raises(Refused, match="anything has the shape of demo-drafter, which is served as a drafter only"):
        LlamaFamily().read(folder, "target", "anything")
    with pytest.raises(Refused, match=r"^demo-drafter is served as a drafter only"):
        LlamaFamily().read(folder, "target", "demo-drafter")

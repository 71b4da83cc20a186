"""Pairs that are refused, by name and from small files, before anything loads."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.drafter.tiny import DEVICES, checkpoint
from tf_llama.drafter import vocabulary
from tf_llama.drafter.pair import refuse_pair
from tf_llama.drafter.plugin import LlamaDrafterPlugin
from tf_plugins.types import Checkpoint, Refusal, StartFacts

TOKENIZER: dict[str, Any] = {
    "added_tokens": [{"id": 0, "content": "<s>", "special": True}, {"id": 1, "content": "</s>", "special": True}],
    "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
    "model": {"type": "BPE", "vocab": {"a": 2, "b": 3, "ab": 4, "c": 5}, "merges": ["a b"]},
}
TOKENIZER_CONFIG = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}
CONFIG = {"model_type": "llama", "bos_token_id": 0, "eos_token_id": 1}

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path / "drafter-dir")


@pytest.fixture
def target(tmp_path: Path) -> Checkpoint:
    return checkpoint(folder=written(tmp_path / "target-dir"), name="big", vocab=8)


def written(folder: Path) -> Path:
    folder.mkdir()
    for name, value in (("tokenizer", TOKENIZER), ("tokenizer_config", TOKENIZER_CONFIG), ("config", CONFIG)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def changed(folder: Path, file: str, change: Change) -> None:
    value = json.loads((folder / file).read_text())
    change(value)
    (folder / file).write_text(json.dumps(value))


def small(folder: Path, **changes: Any) -> Checkpoint:
    return checkpoint(**{"folder": folder, "name": "small", "vocab": 6, "dtype": "bfloat16"} | changes)


def refused(target: Checkpoint, drafter: Checkpoint) -> Refusal:
    refusal = refuse_pair(target, drafter)
    assert refusal is not None
    assert refusal.hint
    assert "\n" not in refusal.reason
    assert not refusal.reason.endswith(".")
    return refusal


def test_the_same_tokenizer_fits_whatever_the_padding(target: Checkpoint, folder: Path) -> None:
    for vocab in (6, 8, 128):
        assert refuse_pair(target, small(folder, vocab=vocab)) is None


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_served_dtypes_fit(target: Checkpoint, folder: Path, dtype: str) -> None:
    assert refuse_pair(target, small(folder, dtype=dtype)) is None


def swap(value: dict[str, Any]) -> None:
    vocab = value["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]


TOKENIZERS: dict[str, tuple[Change, str]] = {
    "permuted ids": (swap, "the id of 'a' is 3 and not 2"),
    "one id more": (lambda t: t["model"]["vocab"].update(d=6), "only it has 'd'"),
    "one id less": (lambda t: t["model"]["vocab"].pop("c"), "it has no 'c'"),
    "merges": (lambda t: t["model"].update(merges=["b a"]), "its merges are others"),
    "order of merges": (lambda t: t["model"].update(merges=["a b", "b c"]), "its merges are others"),
    "an added token's id": (lambda t: t["added_tokens"][1].update(id=9), "the id of '</s>' is 9 and not 1"),
    "an added token's flags": (lambda t: t["added_tokens"][1].update(special=False), "its added tokens are others"),
    "normalizer": (lambda t: t.update(normalizer={"type": "NFC"}), "its normalizer is another"),
    "pre-tokenizer": (lambda t: t.update(pre_tokenizer={"type": "Digits"}), "its pre-tokenizer is another"),
    "kind": (lambda t: t["model"].update(type="WordPiece"), "its kind of model is another"),
}


@pytest.mark.parametrize("case", TOKENIZERS)
def test_another_tokenizer_is_refused_with_what_differs(target: Checkpoint, folder: Path, case: str) -> None:
    change, said = TOKENIZERS[case]
    changed(folder, "tokenizer.json", change)
    refusal = refused(target, small(folder))
    assert refusal.name == "drafter_other_tokenizer"
    assert refusal.reason == f"small is a drafter on another tokenizer than big: {said}"
    assert refusal.param == "drafter"


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("tokenizer_config.json", {"eos_token": "c"}, "eos is 5 and not 1"),
        ("tokenizer_config.json", {"bos_token": {"content": "a"}}, "bos is 2 and not 0"),
        ("config.json", {"eos_token_id": [1, 2]}, "eos is [1, 2] and not 1"),
        ("config.json", {"bos_token_id": 3}, "bos is 3 and not 0"),
    ],
)
def test_another_bos_or_eos_is_refused(
    target: Checkpoint, folder: Path, file: str, change: dict[str, Any], said: str
) -> None:
    changed(folder, file, lambda value: value.update(change))
    assert refused(target, small(folder)).reason == f"small is a drafter on another tokenizer than big: {said}"


def test_bos_and_eos_are_compared_in_the_files_that_both_have(target: Checkpoint, folder: Path) -> None:
    changed(folder, "config.json", lambda config: config.update(eos_token_id=[1]))
    assert refuse_pair(target, small(folder)) is None
    (folder / "tokenizer_config.json").unlink()
    assert refuse_pair(target, small(folder)) is None
    changed(target.folder, "config.json", lambda config: config.pop("eos_token_id"))
    assert refuse_pair(target, small(folder)) is None  # one by each file, and they agree
    changed(folder, "config.json", lambda config: config.update(eos_token_id=2))
    assert refused(target, small(folder)).reason.endswith("eos is 2 and not 1")


def test_the_way_merges_and_pieces_are_written_does_not_matter(target: Checkpoint, folder: Path) -> None:
    changed(folder, "tokenizer.json", lambda value: value["model"].update(merges=[["a", "b"]]))
    assert refuse_pair(target, small(folder)) is None


def test_scored_pieces_are_compared_too(target: Checkpoint, folder: Path) -> None:
    pieces = [[piece, -float(at)] for at, piece in enumerate(("<s>", "</s>", "a", "b", "ab", "c"))]
    for where in (folder, target.folder):
        changed(where, "tokenizer.json", lambda value: value["model"].update(vocab=pieces))
    assert refuse_pair(target, small(folder)) is None
    changed(folder, "tokenizer.json", lambda value: value["model"]["vocab"][3].__setitem__(1, -7.0))
    assert refused(target, small(folder)).reason.endswith("its scores are others")
    changed(folder, "tokenizer.json", lambda value: value["model"]["vocab"].reverse())
    assert "the id of" in refused(target, small(folder)).reason


@pytest.mark.parametrize("file", ["tokenizer.json", "config.json", "folder"])
def test_a_missing_file_is_refused(target: Checkpoint, folder: Path, file: str) -> None:
    if file == "folder":
        shutil.rmtree(folder)
    else:
        (folder / file).unlink()
    refusal = refused(target, small(folder))
    assert refusal.name == "drafter_tokenizer_unreadable"
    assert refusal.reason.startswith("the tokenizer of the drafter small cannot be compared: ")
    assert str(folder) in refusal.reason
    assert refusal.reason.endswith("No such file or directory")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"model": {}}', '{"model": {"vocab": 5}}', '{"model": {"vocab": {}}, "added_tokens": [1]}'],
)
def test_a_damaged_file_is_refused(target: Checkpoint, folder: Path, text: str) -> None:
    (folder / "tokenizer.json").write_text(text)
    refusal = refused(target, small(folder))
    assert refusal.name == "drafter_tokenizer_unreadable"
    assert str(folder) in refusal.reason


def test_a_file_that_cannot_be_read_is_refused(target: Checkpoint, folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").mkdir()
    assert refused(target, small(folder)).reason.endswith("Is a directory")
    (folder / "tokenizer.json").rmdir()
    (folder / "tokenizer.json").write_bytes(b"\xff\xfe{")
    assert refused(target, small(folder)).name == "drafter_tokenizer_unreadable"


def test_the_target_s_files_are_named_when_they_are_at_fault(target: Checkpoint, folder: Path) -> None:
    (target.folder / "tokenizer.json").unlink()
    assert "the tokenizer of the model big cannot be compared" in refused(target, small(folder)).reason


def test_another_family_is_refused_either_way_round(target: Checkpoint, folder: Path) -> None:
    refusal = refused(target, small(folder, family="mistral"))
    assert refusal.name == "drafter_other_family"
    assert refusal.reason == "small is a drafter of the family mistral, and big is of the family llama"
    assert refused(checkpoint(name="big", family="qwen"), small(folder)).name == "drafter_other_family"


def test_a_pair_of_other_families_is_none_of_its_business(folder: Path) -> None:
    assert refuse_pair(checkpoint(family="qwen"), small(folder, family="qwen", roles=frozenset({"target"}))) is None


def test_a_target_only_checkpoint_is_refused(target: Checkpoint, folder: Path) -> None:
    refusal = refused(target, small(folder, roles=frozenset({"target"})))
    assert refusal.name == "target_only"
    assert "small is served as a target only" in refusal.reason


@pytest.mark.parametrize("key", ["quantization", "quantization_config"])
def test_a_quantized_drafter_is_refused_by_name(target: Checkpoint, folder: Path, key: str) -> None:
    refusal = refused(target, small(folder, config={key: {"bits": 4}}))
    assert refusal.name == "quantized_drafter"
    assert "small is a quantized drafter" in refusal.reason
    assert "bf16 release" in refusal.hint


def test_another_dtype_is_refused(target: Checkpoint, folder: Path) -> None:
    refusal = refused(target, small(folder, dtype="uint32"))
    assert refusal.name == "quantized_drafter"
    assert "uint32" in refusal.reason


def test_a_head_without_a_row_for_each_id_is_refused(target: Checkpoint, folder: Path) -> None:
    refusal = refused(target, small(folder, vocab=5))
    assert refusal.name == "drafter_vocab"
    assert refusal.reason == "the drafter small has a head of 5 rows for the 6 ids of big"


def test_ids_past_both_heads_are_no_reason(target: Checkpoint, folder: Path) -> None:
    """The usual padding token: the target alone is served, and neither is ever sent that id."""
    for where in (folder, target.folder):
        changed(where, "tokenizer.json", lambda value: value["added_tokens"].append({"id": 6, "content": "[PAD]"}))
    assert refuse_pair(replace(target, vocab=6), small(folder, vocab=6)) is None
    assert refused(target, small(folder, vocab=6)).reason == (
        "the drafter small has a head of 6 rows for the 7 ids of big"
    )
    refusal = refused(replace(target, vocab=6), small(folder, vocab=5))
    assert refusal.reason == "the drafter small has a head of 5 rows for the 6 ids of big"


def test_the_hook_asks_only_when_there_is_a_drafter(target: Checkpoint, folder: Path) -> None:
    plugin = LlamaDrafterPlugin(None)

    def asked(drafter: Checkpoint | None) -> Refusal | None:
        return plugin.refuse_start(StartFacts(target, drafter, DEVICES["cpu"], 512, None, ("llama-drafter",)))

    assert asked(None) is None
    assert asked(small(folder)) is None
    refusal = asked(small(folder, vocab=5))
    assert refusal is not None
    assert refusal.name == "drafter_vocab"


def test_the_pair_is_checked_without_mlx(target: Checkpoint, folder: Path) -> None:
    """The hook runs before the host has loaded a BLAS, which it has to do before MLX is imported."""
    code = (
        "import sys; from tf_llama.drafter.plugin import LlamaDrafterPlugin; "
        "assert not [name for name in sys.modules if name.split('.')[0] in ('mlx', 'mlx_lm')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_size_counts_added_tokens(folder: Path) -> None:
    changed(folder, "tokenizer.json", lambda value: value["added_tokens"].append({"id": 11, "content": "<x>"}))
    assert vocabulary.read(folder).size == 12

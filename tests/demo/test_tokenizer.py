"""The rebuilt tokenizer gives the original's ids, loaded the way that mlx-lm loads it."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

IDS = {
    "Hello, world!": [19556, 28, 905, 17],
    "The year 2026 has 365 days.": [504, 713, 216, 34, 32, 34, 38, 553, 216, 35, 38, 37, 2009, 30],
    "def f(x):\n    return x**2\n": [1604, 275, 24, 104, 727, 472, 1003, 1792, 828, 34, 198],
    "naïve café — 東京 🚀": [3546, 46494, 37366, 1841, 17097, 247, 126, 16736, 122, 15107, 244, 218],
    "  leading   spaces\t\ttabs": [216, 2899, 256, 5600, 197, 197, 100, 7366],
    "<|im_start|>user\nHi<|im_end|>\n": [1, 4093, 198, 26843, 2, 198],
}


@pytest.fixture(scope="module")
def tokenizer(demo_pair: Any) -> Any:
    return AutoTokenizer.from_pretrained(demo_pair.target)


@pytest.mark.parametrize("text", IDS)
def test_ids(tokenizer: Any, text: str) -> None:
    assert tokenizer.encode(text) == IDS[text]
    assert tokenizer.decode(IDS[text]) == text


def test_special_tokens_and_sizes(tokenizer: Any) -> None:
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert len(tokenizer) == tokenizer.vocab_size == 49_152
    assert tokenizer.all_special_ids == [1, 2, 0]


def test_typed_markers_can_be_read_as_text(demo_pair: Any) -> None:
    plain = Tokenizer.from_file(str(demo_pair.target / "tokenizer.json"))
    plain.encode_special_tokens = True
    typed = plain.encode("<|im_start|>", add_special_tokens=False).ids
    assert 1 not in typed
    assert plain.decode(typed, skip_special_tokens=False) == "<|im_start|>"


def test_chat_template(tokenizer: Any) -> None:
    turns = [{"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )

"""The pair at work, through mlx-lm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

PROMPT = "Write a Python function that adds two numbers."
# The target's own greedy reply, its first 60 tokens.
REPLY = (
    "```python\ndef add_two_numbers(num1, num2):\n    return num1 + num2\n```\n\nThis function uses the built-in "
    "`add` function to add two numbers. However, it's not the most efficient way to add two numbers in Python.\n"
)


@pytest.fixture(scope="module")
def target(demo_pair: Any) -> Any:
    return load(demo_pair.target)


def load(folder: Any) -> Any:
    """mlx-lm's model and tokenizer of a folder."""
    import mlx_lm

    return mlx_lm.load(str(folder))


def chat(tokenizer: Any, text: str) -> list[int]:
    return tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True)


def guesses(model: Any, ids: list[int]) -> np.ndarray:
    """The argmax after each of ids, in one forward."""
    import mlx.core as mx

    return np.array(mx.argmax(model(mx.array([ids]))[0], -1))


def test_the_target_answers(target: Any) -> None:
    import mlx_lm

    model, tokenizer = target
    reply = mlx_lm.generate(model, tokenizer, chat(tokenizer, "What is the capital of France?"), max_tokens=8)
    assert reply == "The capital of France is Paris."


def test_the_drafter_agrees_with_the_target(target: Any, demo_pair: Any) -> None:
    model, tokenizer = target
    drafter, _ = load(demo_pair.drafter)
    prompt, reply = chat(tokenizer, PROMPT), tokenizer.encode(REPLY)
    rows = slice(len(prompt) - 1, -1)
    wanted = guesses(model, prompt + reply)[rows]
    assert (wanted == reply).mean() > 0.95  # other kernels may round a near tie the other way
    assert (guesses(drafter, prompt + reply)[rows] == wanted).mean() > 0.6

"""Tokens and text: the tokenizer adapter, chat templates and the readers of replies."""

from tf_host.text.chat import ChatPrompt
from tf_host.text.gate import ThinkingGate
from tf_host.text.grammar import Grammars
from tf_host.text.grammar_run import GrammarRun
from tf_host.text.grammar_source import Constraint, call_grammar
from tf_host.text.load import load_text
from tf_host.text.reader import ReplyReader
from tf_host.text.text import Text
from tf_host.text.thinking import Phase, ThinkingMarks, ThinkingSplit
from tf_host.text.thinking_tokens import reasoning_tokens
from tf_host.text.tools import ToolCall, ToolFormat, ToolSplit

__all__ = [
    "ChatPrompt",
    "Constraint",
    "GrammarRun",
    "Grammars",
    "Phase",
    "ReplyReader",
    "Text",
    "ThinkingGate",
    "ThinkingMarks",
    "ThinkingSplit",
    "ToolCall",
    "ToolFormat",
    "ToolSplit",
    "call_grammar",
    "load_text",
    "reasoning_tokens",
]

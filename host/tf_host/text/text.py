"""The tokenizer, as the host sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tf_host.text.chat import ChatPrompt, ChatTemplate, Message, strings
from tf_host.text.decode import ByteDecoder, Decoder, WindowDecoder
from tf_host.text.first_call import FirstCall
from tf_host.text.grammar import Grammars
from tf_host.text.pieces import Pieces
from tf_host.text.reader import ReplyReader
from tf_host.text.stops import StopStrings
from tf_host.text.thinking import Phase, ThinkingMarks, ThinkingSplit
from tf_host.text.tools import ToolFormat, tool_format
from tf_plugins.errors import Refused
from tf_plugins.types import Refusal


class Text:
    """Text into tokens and back. Safe to use from several threads: nothing changes once it is made.

    Args:
        tokenizer: mlx-lm's ``TokenizerWrapper`` around a fast tokenizer.
        end_ids: end tokens of config.json and generation_config.json.
        vocab: rows of the model's head.

    Attributes:
        vocab: ids below this may be sent and served.
        end_ids: the union of ``end_ids`` and those of tokenizer and template.
        marker_ids: control tokens that messages start with.
        thinking: the marks around reasoning, where the model has them.
        tools: how the model writes tool calls, where its template has tools.
        grammars: compiles constraints on replies.
        call_ids: control tokens that may mark tool calls.
    """

    def __init__(self, tokenizer: Any, *, end_ids: frozenset[int] = frozenset(), vocab: int | None = None) -> None:
        self.tokenizer = tokenizer
        backend = tokenizer.backend_tokenizer
        known = max(backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self.vocab = known if vocab is None else min(known, vocab)
        self._pieces = Pieces.of(backend)
        self._bos: str | None = tokenizer.bos_token
        self._template = ChatTemplate(tokenizer) if tokenizer.has_chat_template else None
        self.thinking = _thinking(tokenizer)
        self.tools: ToolFormat | None = tool_format(tokenizer) if self._template else None
        self.marker_ids = self._template.marker_ids if self._template else frozenset()
        ends = end_ids | frozenset(tokenizer.eos_token_ids)
        self.end_ids = ends | (self._template.end_ids if self._template else frozenset())
        self.grammars = Grammars(backend, self.end_ids, self.vocab)
        self._hidden = self._control_tokens() | self.end_ids
        self.call_ids = self._hidden - self.end_ids - self.marker_ids

    @property
    def has_template(self) -> bool:
        """Whether chat is possible."""
        return self._template is not None

    def encode(self, text: str, *, special: bool = True, start: bool = True) -> list[int]:
        """Tokens of a bare text.

        Args:
            text: what to encode.
            special: parse control tokens spelled out in it; otherwise everything is plain text.
            start: add the control tokens that the model wants at the start of a text; never to plain text.
        """
        if not special:
            return self._plain(text)
        begun = self._bos is not None and text.startswith(self._bos)
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=start and not begun, verbose=False)
        return ids

    def least_tokens(self, texts: Any) -> int:
        """Tokens that texts have at least, without encoding them: what is far too long need not be.

        Args:
            texts: a text, or lists and mappings of them; keys are not counted.
        """
        if self._pieces is None or self.tokenizer.backend_tokenizer.normalizer is not None:
            return 0
        longest = self._pieces.longest
        return sum(len(text) // longest for text in strings(texts))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens, control tokens spelled out."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def piece(self, token: int) -> bytes:
        """The bytes of one token, control tokens spelled out."""
        return self._pieces[token] if self._pieces is not None else self.decode([token]).encode()

    def name(self, token: int) -> str:
        """One token as people read it; bytes that are no character of their own are shown as U+FFFD."""
        return self.piece(token).decode("utf-8", "replace")

    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> ChatPrompt:
        """The prompt of a conversation; see ``ChatTemplate.ids``.

        Raises:
            Refused: the model has no chat template, or the template raised.
        """
        template, variables = self._needed_template(), variables or {}
        ids = template.ids(messages, tools, add_generation_prompt=add_generation_prompt, **variables)
        return ChatPrompt(
            ids,
            template.boundaries(ids),
            self._phase(ids),
            template.unread_fields(messages, tools, **variables),
            template.unread_variables(variables),
        )

    def rendered(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """What the template writes of a conversation, not encoded; raises as ``chat`` does."""
        return self._needed_template().text(messages, tools, **(variables or {}))

    def reader(
        self,
        stops: Sequence[str] = (),
        *,
        phase: Phase = "closed",
        hidden: frozenset[int] = frozenset(),
        shown: frozenset[int] = frozenset(),
        strip: bool = True,
        one_call_of: Sequence[Any] = (),
    ) -> Callable[[], ReplyReader]:
        """Makes the readers of one request's reply.

        Args:
            stops: stop strings.
            phase: where the prompt ended; stop strings wait for the end of the reasoning.
            hidden: tokens of the request's own that have no text.
            shown: control tokens that stay in the text, because something reads them there.
            strip: drop the space that some tokenizers put before a text's first word; a completion continues its
                prompt and keeps it.
            one_call_of: tool definitions, where the reply ends before a second call of one of them.
        """
        silent = (self._hidden | hidden) - shown if hidden or shown else self._hidden

        def make() -> ReplyReader:
            split = ThinkingSplit(self.thinking, phase) if self.thinking and phase != "closed" else None
            call = FirstCall(self.tools, one_call_of) if self.tools and one_call_of else None
            return ReplyReader(self._decoder(strip=strip), StopStrings(stops), silent, split, call)

        return make

    def control_id(self, text: str) -> int | None:
        """The control token that a text spells out, if it is one."""
        added = self.tokenizer.added_tokens_decoder
        return next((token for token, one in added.items() if one.content == text and one.special), None)

    def _needed_template(self) -> ChatTemplate:
        if self._template is None:
            raise Refused(
                Refusal(
                    "no_chat_template",
                    "this model has no chat template, so it can complete text but not chat",
                    "start the server with --chat-template FILE, or use /v1/completions",
                    param="messages",
                )
            )
        return self._template

    def _plain(self, text: str) -> list[int]:
        """The tokenizer's steps one by one, which looks for no added tokens."""
        backend = self.tokenizer.backend_tokenizer
        if backend.normalizer is not None:
            text = backend.normalizer.normalize_str(text)
        words = [text]
        if backend.pre_tokenizer is not None:
            words = [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)]
        return [token.id for word in words for token in backend.model.tokenize(word)]

    def _decoder(self, *, strip: bool) -> Decoder:
        if self._pieces is None:
            return WindowDecoder(self.tokenizer)
        return ByteDecoder(self._pieces, strip=strip)

    def _control_tokens(self) -> frozenset[int]:
        """Control tokens that a reply's text leaves out: those that mark reasoning stay in."""
        marks = {self.thinking.start, self.thinking.end} if self.thinking else set()
        added = self.tokenizer.added_tokens_decoder
        return frozenset(t for t, a in added.items() if a.special and a.content not in marks)

    def _phase(self, ids: Sequence[int]) -> Phase:
        if self.thinking is None:
            return "closed"
        tail = self.decode(ids[-16:]).rstrip()
        if tail.endswith(self.thinking.start):
            return "open"
        return "closed" if tail.endswith(self.thinking.end) else "start"


def _thinking(tokenizer: Any) -> ThinkingMarks | None:
    if not tokenizer.has_thinking:
        return None
    return ThinkingMarks(
        tokenizer.think_start,
        tokenizer.think_end,
        tuple(tokenizer.think_start_tokens),
        tuple(tokenizer.think_end_tokens),
        lambda token: str(tokenizer.decode([token])).isspace(),
    )

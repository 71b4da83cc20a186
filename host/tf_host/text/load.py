"""Loads a checkpoint's tokenizer."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from jinja2 import TemplateSyntaxError

from tf_host.text.text import Text
from tf_plugins.errors import Refused
from tf_plugins.types import Refusal

log = logging.getLogger(__name__)

_NO_LIMIT = 1 << 60
"""The context is checked for each request; transformers would warn of a long prompt by itself."""


def load_text(
    folder: Path,
    *,
    end_ids: frozenset[int] = frozenset(),
    vocab: int | None = None,
    chat_template: Path | None = None,
    tokenizer: Any | None = None,
) -> Text:
    """The text side of a checkpoint.

    Args:
        folder: the checkpoint's folder.
        end_ids: end tokens of config.json and generation_config.json.
        vocab: rows of the model's head; ids past it are never served.
        chat_template: a file that takes the place of the checkpoint's template (``--chat-template``).
        tokenizer: a tokenizer that the family loaded itself, as mlx-lm's ``TokenizerWrapper``.

    Raises:
        Refused: no usable tokenizer, or an unreadable template file.
    """
    extra: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    if chat_template is not None:
        try:
            extra["chat_template"] = chat_template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(
                Refusal(
                    "chat_template_unreadable",
                    f"--chat-template {chat_template} cannot be read: {error}",
                    "name a Jinja template in a UTF-8 text file",
                    param="--chat-template",
                )
            ) from error
    if tokenizer is None:
        tokenizer = _load(folder, extra)
    elif chat_template is not None:
        tokenizer.chat_template = extra["chat_template"]
        tokenizer.has_chat_template = True
    if not tokenizer.has_chat_template:
        log.warning("%s has no chat template: chats are refused, unless --chat-template gives one", folder)
    elif (wrong := _syntax_error(tokenizer)) is not None:
        what = f"is no Jinja template: {wrong.message} in line {wrong.lineno}"
        if chat_template is not None:
            raise Refused(
                Refusal(
                    "chat_template_unreadable",
                    f"--chat-template {chat_template} {what}",
                    "correct that line",
                    param="--chat-template",
                )
            ) from wrong
        log.warning("the chat template of %s %s; chats are refused, unless --chat-template gives one", folder, what)
    return Text(tokenizer, end_ids=end_ids, vocab=vocab)


def _syntax_error(tokenizer: Any) -> TemplateSyntaxError | None:
    """Why a template would refuse every chat; one that wants other messages than this is none the worse."""
    try:
        tokenizer.apply_chat_template([{"role": "user", "content": "hello"}], tokenize=False)
    except TemplateSyntaxError as error:
        return error
    except Exception:
        return None
    return None


def _load(folder: Path, extra: dict[str, Any]) -> Any:
    from tf_host.device import import_mlx_lm  # late: MLX may only be imported once the device is prepared

    import_mlx_lm()
    from mlx_lm.tokenizer_utils import load

    try:
        tokenizer = load(folder, tokenizer_config_extra=extra)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise Refused(
            Refusal(
                "tokenizer_unreadable",
                f"the tokenizer in {folder} cannot be loaded: {error}",
                "the folder needs tokenizer.json and tokenizer_config.json",
            )
        ) from error
    if getattr(tokenizer._tokenizer, "backend_tokenizer", None) is None:
        raise Refused(
            Refusal(
                "tokenizer_unsupported",
                f"the tokenizer in {folder} is of class {type(tokenizer._tokenizer).__name__}, without tokenizer.json",
                "convert it to a fast tokenizer (tokenizer.json)",
            )
        )
    tokenizer.model_max_length = _NO_LIMIT
    return tokenizer

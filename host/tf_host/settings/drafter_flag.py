"""``--drafter`` with and without a value.

Alone it means the drafter that goes with the served model. It takes the next word only once the model is named, before
it or in another source: ``tf-serve --drafter demo`` serves demo with its own drafter, ``tf-serve demo --drafter DIR``
and ``TF_MODEL=demo tf-serve --drafter DIR`` draft with DIR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_plugins import SettingsError

FLAG = "--drafter"
BARE = f"{FLAG}=true"


def normalise(argv: Sequence[str], takes_value: Callable[[str], bool], *, model_named: bool = False) -> list[str]:
    """The same arguments with every ``--drafter`` written ``--drafter=VALUE``, ``true`` for a bare one.

    Args:
        argv: the arguments, program name left out.
        takes_value: whether an option is followed by a value of its own.
        model_named: whether a settings file or a variable names the model.

    Raises:
        SettingsError: the drafter's name is empty, or cannot be told from MODEL.
    """
    result: list[str] = []
    rest = list(argv)
    model_seen = model_named
    model_or_drafter: str | None = None
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        if word == FLAG:
            following = rest[0] if rest and not rest[0].startswith("-") else None
            if model_seen and following is not None:
                word = f"{FLAG}={rest.pop(0)}"
            else:
                word, model_or_drafter = BARE, following
        elif takes_value(word) and rest:
            result.append(word)
            word = rest.pop(0)
        elif not word.startswith("-"):
            if model_seen and model_or_drafter is not None:
                raise SettingsError(
                    f"after {FLAG}, {model_or_drafter!r} and {word!r} may each be MODEL\n"
                    f"hint: put MODEL first, or write {FLAG}=NAME"
                )
            model_seen = True
        if word == f"{FLAG}=":
            raise SettingsError(
                f"{FLAG} is given an empty name\nhint: write {FLAG} alone for the drafter that goes with the model"
            )
        result.append(word)
    return result

"""``--drafter`` with and without a value.

Alone it means the drafter that goes with the served model. It takes the next word only once MODEL came before it:
``tf-serve --drafter demo`` serves demo with its own drafter, ``tf-serve demo --drafter DIR`` drafts with DIR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_plugins import SettingsError

FLAG = "--drafter"
BARE = f"{FLAG}=true"


def normalise(argv: Sequence[str], takes_value: Callable[[str], bool]) -> list[str]:
    """The same arguments with every ``--drafter`` written ``--drafter=VALUE``, ``true`` for a bare one.

    Args:
        argv: the arguments, program name left out.
        takes_value: whether an option is followed by a value of its own.
    """
    result: list[str] = []
    rest = list(argv)
    model_seen = False
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        if word == FLAG:
            value = rest.pop(0) if model_seen and rest and not rest[0].startswith("-") else None
            word = BARE if value is None else f"{FLAG}={value}"
        elif takes_value(word) and rest:
            result.append(word)
            word = rest.pop(0)
        elif not word.startswith("-"):
            model_seen = True
        if word == f"{FLAG}=":
            raise SettingsError(
                f"{FLAG} is given an empty name\nhint: write {FLAG} alone for the drafter that goes with the model"
            )
        result.append(word)
    return result

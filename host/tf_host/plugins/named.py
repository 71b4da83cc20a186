"""Families and named checkpoints as the host holds them: what they do wrong at start-up names their plugin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tf_host.plugins.answers import fault_of
from tf_host.plugins.asking import ask
from tf_host.plugins.discover import Found
from tf_plugins.types import Checkpoint, Device, Family, Model, NamedCheckpoint, Progress, RefusesEarly, Role

T = TypeVar("T")


class NamedFamily:
    """Stands for a plugin's family, and implements ``Family`` and ``RefusesEarly`` by asking it.

    Args:
        family: the plugin's object.
        giver: the plugin.
    """

    def __init__(self, family: Family, giver: Found) -> None:
        self.name = family.name
        self._family = family
        self._giver = giver
        self._whose = f"family {self.name!r}"

    def recognises(self, folder: Path) -> bool:
        return self._ask("recognises", lambda: bool(self._family.recognises(folder)))

    def refuse(self, folder: Path, role: Role, name: str | None = None) -> None:
        """Nothing, where the family has no such method."""
        family = self._family
        if isinstance(family, RefusesEarly):
            early: RefusesEarly = family
            self._ask("refuse", lambda: early.refuse(folder, role, name))

    def read(self, folder: Path, role: Role, name: str | None = None) -> Checkpoint:
        return self._given("read", Checkpoint, lambda: self._family.read(folder, role, name))

    def load(self, checkpoint: Checkpoint, device: Device, progress: Progress) -> Model:
        return self._given("load", Model, lambda: self._family.load(checkpoint, device, progress))

    def load_tokenizer(self, checkpoint: Checkpoint) -> object | None:
        return self._ask("load_tokenizer", lambda: self._family.load_tokenizer(checkpoint))

    def ask_model(self, method: str, call: Callable[[], T]) -> T:
        """What its model answers at start-up."""
        return ask(self._giver, method, call, f"the model of {self._whose}")

    def _ask(self, method: str, call: Callable[[], T]) -> T:
        return ask(self._giver, method, call, self._whose)

    def _given(self, method: str, kind: type[Any], call: Callable[[], T]) -> T:
        """An answer that is an object of this kind."""
        answer = self._ask(method, call)
        if fault := fault_of(answer, kind):
            raise self._giver.failed(method, f"{self._whose}: {fault}", f"return a {kind.__name__}")
        return answer


def named_checkpoint(checkpoint: NamedCheckpoint, giver: Found) -> NamedCheckpoint:
    """The same name, with a ``resolve`` that names its plugin where it fails."""
    whose = f"checkpoint {checkpoint.name!r}"

    def resolve(progress: Progress) -> Path:
        folder: object = ask(giver, "resolve", lambda: checkpoint.resolve(progress), whose)
        if not isinstance(folder, Path):
            cause = f"{whose}: it returned {type(folder).__name__} and not a Path"
            raise giver.failed("resolve", cause, "return the folder as a pathlib.Path")
        return folder

    return replace(checkpoint, resolve=resolve)

"""A family's model that fails while a server starts is its plugin's failure, and is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.host.start.test_drafter import started
from tf_host.testing.family import ByteFamily
from tf_host.testing.model import ByteModel
from tf_plugins import Plugin, PluginError, hookimpl
from tf_plugins.types import Checkpoint, Device, Family, Model, Progress


def serving(method: str) -> type[Plugin]:
    """A plugin whose model raises in a method."""

    def fail(self: object, *given: Any, **named: Any) -> Any:
        raise KeyError("rope")

    class Broken(ByteModel):
        pass

    setattr(Broken, method, fail)

    class House(ByteFamily):
        name = "house"

        def load(self, checkpoint: Checkpoint, device: Device, progress: Progress) -> Model:
            made = super().load(checkpoint, device, progress)
            made.__class__ = Broken
            return made

    class Houses(Plugin):
        api_version = 1

        @hookimpl
        def families(self) -> Sequence[Family]:
            return (House(),)

    return Houses


@pytest.mark.parametrize(("method", "step"), [("use", "proving"), ("warm", "warm"), ("verify", "proving")])
def test_what_a_model_raises_names_its_plugin(
    method: str, step: str, device: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("TF_CACHE_DIR", str(tmp_path))
    with pytest.raises(PluginError) as caught:
        started("bytes --family house", device, serving(method))
    assert (caught.value.plugin, caught.value.hook) == ("houses", step)
    assert caught.value.cause.startswith("the model of family 'house': KeyError: 'rope' (line ")
    assert __file__ in caught.value.cause
    assert isinstance(caught.value.__cause__, KeyError)

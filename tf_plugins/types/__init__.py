"""Protocols and frozen dataclasses that plugins and the host exchange."""

from tf_plugins.types.admission import Admission, Demand, PromptStates, Resources, Shedding
from tf_plugins.types.checkpoint import Checkpoint, NamedCheckpoint, Progress, Role
from tf_plugins.types.device import Device
from tf_plugins.types.events import RequestFacts, RoundDone, StartFacts, StreamDone, TargetFacts
from tf_plugins.types.model import (
    Cache,
    Family,
    Leaf,
    Model,
    RefusesEarly,
    State,
    TakesLeaves,
    TileCheck,
    WidthCheck,
    Window,
)
from tf_plugins.types.proposer import Costs, Draft, DraftRequest, Growth, Outcome, Proposer, ReadsAhead
from tf_plugins.types.refusal import Refusal

__all__ = [
    "Admission",
    "Cache",
    "Checkpoint",
    "Costs",
    "Demand",
    "Device",
    "Draft",
    "DraftRequest",
    "Family",
    "Growth",
    "Leaf",
    "Model",
    "NamedCheckpoint",
    "Outcome",
    "Progress",
    "PromptStates",
    "Proposer",
    "ReadsAhead",
    "Refusal",
    "RefusesEarly",
    "RequestFacts",
    "Resources",
    "Role",
    "RoundDone",
    "Shedding",
    "StartFacts",
    "State",
    "StreamDone",
    "TakesLeaves",
    "TargetFacts",
    "TileCheck",
    "WidthCheck",
    "Window",
]

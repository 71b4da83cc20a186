"""What the HTTP side and the engine say to each other."""

from tf_host.requests.events import Delta, Done, Event, Failed, Reading, TokenInfo
from tf_host.requests.handle import Handle
from tf_host.requests.request import GenerateRequest, Sampling

__all__ = [
    "Delta",
    "Done",
    "Event",
    "Failed",
    "GenerateRequest",
    "Handle",
    "Reading",
    "Sampling",
    "TokenInfo",
]

"""The lanes: one request is a stream, and streams decode together in shared rounds.

A turn (``Lanes.step``), on the engine thread:

1. Requests that came in are checked and join the queue; streams whose client left give everything back.
2. The head of the queue is admitted while the ledger has room: its cache is made, a kept state restored.
3. One chunk of one prompt is read, unless replies are owed time: by the target and by proposers that read ahead.
4. *plan*: every decoding stream asks its proposers for a draft, in order; its window is the pending token and the
   draft, cut so that it fits its bucket, the band and the reply; windows are packed into forwards.
5. *run*: the target verifies the forwards; the draw after every row is made from the target's own logits and the
   stream's own noise, all lazily; one read-back.
6. *conclude*: of each draft the prefix that equals the target's own draws stands, and the first draw that differs is
   the next token; where an alternative was verified that equals it, so is the draw behind that. Each token goes through
   the reader, which may end the reply there.
7. Text and tokens are delivered; streams that ended free their lane; observers are told.

No draft, neighbour or depth reaches a row's logits or its draw, so a reply is the same whatever happens here.
"""

from tf_host.lanes.depths import Depths
from tf_host.lanes.endings import Observer
from tf_host.lanes.engine import EngineThread
from tf_host.lanes.fixed_depths import FixedDepths, NoDrafts
from tf_host.lanes.lanes import Lanes, Limits
from tf_host.lanes.states import Entry, KeptStates, NoStates
from tf_host.lanes.stream import Client
from tf_host.lanes.totals import Snapshot

__all__ = [
    "Client",
    "Depths",
    "EngineThread",
    "Entry",
    "FixedDepths",
    "KeptStates",
    "Lanes",
    "Limits",
    "NoDrafts",
    "NoStates",
    "Observer",
    "Snapshot",
]

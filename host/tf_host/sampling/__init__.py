"""How a token is drawn from a row of logits, the same whatever was drafted and whoever shares the round.

A draw works in float32, in this order: penalties, logit bias, grammar mask, ids past the tokenizer out, top-k (exactly
k survive; ties at the edge go to the lower id), temperature, top-p, min-p; then the token is
``argmax(value + Gumbel noise)``. At temperature 0 it is the argmax of the processed logits. Ties go to the lower id.
The noise is keyed by the request's seed and the position of the token drawn, so a position draws the same token however
it is reached. Every array of a draw has a shape that the request alone decides, never the round.

``Drawer`` draws one row; ``Sampler`` draws the rows of one stream's window and keeps what its penalties count.
"""

from tf_host.sampling.drawer import Draw, Drawer
from tf_host.sampling.noise import noise_key
from tf_host.sampling.sampler import Sampler
from tf_host.sampling.window_draws import NotNumbers, WindowDraws

__all__ = ["Draw", "Drawer", "NotNumbers", "Sampler", "WindowDraws", "noise_key"]

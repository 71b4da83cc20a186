"""Pricing: depths that pay, from measured costs and acceptance.

``Pricing`` serves the lanes; below it are pure rules (``depth``) over two fits (``rounds``, ``chains``), the streams'
acceptance (``acceptance``, ``streams``) and the schedule of standing aside (``aside``).
"""

from tf_host.pricing.pricing import Pricing

__all__ = ["Pricing"]

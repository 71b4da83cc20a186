"""Pricing: depths that pay, from measured costs and acceptance.

``Pricing`` serves the lanes: what to ask proposers for (``asking``) and what of their offers to verify (``trimming``),
by what was ``learned``, for the round at hand (``turn``). Below them are pure rules (``depth``, ``leaves``) over two
fits (``rounds``, ``chains``), the streams' acceptance and probabilities (``streams``), and a schedule of trials
(``aside``).
"""

from tf_host.pricing.pricing import Pricing

__all__ = ["Pricing"]

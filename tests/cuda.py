"""Whether tests run on a CUDA device: ``scripts/test cuda`` on a machine that has one."""

from __future__ import annotations

import mlx.core as mx

__all__ = ["ON_CUDA"]

ON_CUDA = mx.cuda.is_available() and mx.default_device() == mx.Device(mx.gpu)

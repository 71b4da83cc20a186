"""Which form a device computes in."""

from __future__ import annotations

import logging
from typing import Any

from tf_llama.config import LlamaConfig
from tf_llama.rows.cache import Layout
from tf_llama.rows.cpu import CpuForm
from tf_llama.rows.cuda.compiling import source_digest
from tf_llama.rows.cuda.form import CudaForm, fits
from tf_llama.rows.cuda.forward import WholeForward
from tf_llama.rows.cuda.processor import processor
from tf_llama.rows.cuda.trial import what_differs, what_is_off
from tf_llama.rows.form import Form
from tf_llama.rows.forward import Rows, Whole
from tf_llama.rows.gpu import GpuForm
from tf_llama.rows.weights import Weights
from tf_plugins.types import Device

__all__ = ["choose", "whole"]

_LOG = logging.getLogger(__name__)


def choose(config: LlamaConfig, rope: Any, weights: Weights, device: Device) -> tuple[Form, str]:
    """The form of a device, and the name of what computes in it, which moves bits.

    A rule over the device and the shape, never a timing. Kernels of this project are taken where they compute what
    MLX computes; whether their rows are exact is the probe's to find.
    """
    if device.kind == "cpu":
        return CpuForm(config, rope, weights.dtype), "mlx"
    plain = GpuForm(config, rope, weights.dtype)
    found = processor() if device.backend == "cuda" else None
    if found is None or not fits(config, weights.dtype, found):
        return plain, "mlx"
    form = CudaForm(config, rope, weights.dtype, found)
    if off := what_is_off(form, plain, weights):
        _LOG.warning("the CUDA kernels of tf-plugins are left out, MLX's serve: %s", off)
        return plain, "mlx"
    return form, f"tf-cuda {source_digest()}"


def whole(config: LlamaConfig, rows: Rows, layout: Layout) -> Whole | None:
    """The forward of ``rows`` as one operation, where there is one that has its bits; else it goes by operations."""
    form = rows.form
    found = processor() if isinstance(form, CudaForm) else None
    if found is None or not isinstance(form, CudaForm) or not WholeForward.fits(found, config):
        return None
    try:
        made = WholeForward(found, config, rows.weights, form.turns)
        off = what_differs(rows, made, layout)
    except Exception as error:
        off = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    if off:
        _LOG.warning("forwards go by operations, since the whole one is left out: %s", off)
        return None
    return made

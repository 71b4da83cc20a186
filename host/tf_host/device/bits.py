"""Everything about the machine that moves a reply's bits."""

from __future__ import annotations

import platform
from importlib import metadata

from tf_host.device.prepare import prepared
from tf_host.device.processor import instructions_digest
from tf_plugins.types import Device


def bits_key(device: Device) -> dict[str, str]:
    """The device's share of a verdict's key; call it after ``prepare``.

    Two servers whose keys are equal compute the same bits from the same weights and plan.
    """
    found = prepared()
    return {
        "mlx": metadata.version("mlx"),
        "mlx-lm": metadata.version("mlx-lm"),
        "backend": device.backend,
        "device": found.chip,
        "system": f"{platform.system()} {platform.mac_ver()[0] or platform.machine()}".strip(),
        "instructions": instructions_digest(),
        "blas": found.blas.name,
        "blas version": found.blas.version,
        "blas branch": found.blas.branch,
        "blas threads": str(found.blas.threads),
        "libraries": _gpu_libraries() if device.backend == "cuda" else "",
        "compiled": str(device.compiled).lower(),
        "compiler": found.compiling.compiler,
        "dtype": device.dtype or "stored",
    }


def _gpu_libraries() -> str:
    """The CUDA libraries that came as packages, with their versions: they pick the kernels."""
    named = {found.metadata["Name"]: found.version for found in metadata.distributions() if found.metadata["Name"]}
    return " ".join(f"{name}={named[name]}" for name in sorted(named) if name.startswith(("nvidia-", "mlx-cuda")))

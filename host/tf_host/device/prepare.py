"""From settings to a device, in the one order that works: environment, matrix library, MLX, mlx-lm."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tf_host.device import blas, cuda
from tf_host.device.blas import Blas
from tf_host.device.compiling import Compiling, private_folder, try_on_cpu
from tf_host.device.mlx_lm import import_mlx_lm
from tf_host.settings import ServerSettings
from tf_plugins import Refused
from tf_plugins.types import Device, Refusal


@dataclass(frozen=True, slots=True)
class Prepared:
    """What this process was prepared with; it cannot be changed once MLX is imported."""

    choice: tuple[str, str, int | None, bool | None]
    blas: Blas
    compiling: Compiling
    backend: Literal["cpu", "cuda", "metal"]
    chip: str


_prepared: Prepared | None = None


def prepare(settings: ServerSettings) -> Device:
    """Prepare the process for MLX, import it, and say what it computes on.

    The first call must come before anything imports ``mlx.core``. A later one with the same settings is free.

    Raises:
        Refused: MLX is imported already, or a setting does not fit the machine.
    """
    global _prepared
    choice = (settings.device, settings.cpu_blas, settings.cpu_threads, settings.compile)
    if _prepared is None:
        _prepared = _first(settings, choice)
    elif _prepared.choice != choice:
        which = "--device, --cpu-blas, --cpu-threads or --compile"
        raise _too_late(f"this process was prepared with other settings for {which}")
    return _device(_prepared, settings.dtype)


def prepared() -> Prepared:
    """What ``prepare`` did; ``RuntimeError`` before it."""
    if _prepared is None:
        raise RuntimeError("the device was not prepared")
    return _prepared


def _first(settings: ServerSettings, choice: tuple[str, str, int | None, bool | None]) -> Prepared:
    if "mlx.core" in sys.modules:
        raise _too_late("MLX was imported before the server could choose its matrix library")
    os.environ["MLX_ENABLE_TF32"] = "0"
    cuda.set_environment()
    if blas.mlx_is_for_gpu():
        cuda.keep_kernels()
    library, path = blas.choose(settings.cpu_blas, settings.cpu_threads)
    if path is not None:
        blas.load(library, path)
    folder = private_folder()
    import_mlx_lm()
    backend, chip = _look(settings.device)
    if backend == "cuda":
        cuda.refuse_old_mlx()
    if backend != "cpu" and library.name != "none":
        raise Refused(
            Refusal(
                "cpu_blas",
                f"--cpu-blas {settings.cpu_blas} is for a CPU, and MLX computes on {backend}",
                "leave --cpu-blas out",
                param="--cpu-blas",
            )
        )
    return Prepared(choice, library, _compiling(settings.compile, backend, folder), backend, chip)


def _look(wanted: Literal["auto", "cpu"]) -> tuple[Literal["cpu", "cuda", "metal"], str]:
    import mlx.core as mx

    if wanted == "cpu":
        mx.set_default_device(mx.cpu)
    if mx.default_device() == mx.Device(mx.cpu):
        return "cpu", str(mx.device_info(mx.cpu).get("device_name", ""))
    if mx.device_count(mx.gpu) == 0:
        raise Refused(
            Refusal(
                "no_gpu",
                "MLX is installed for a GPU and finds none",
                "check the driver, or take --device cpu",
            )
        )
    chip = str(mx.device_info(mx.gpu).get("device_name", ""))
    return ("metal" if mx.metal.is_available() else "cuda"), chip


def _compiling(wanted: bool | None, backend: str, folder: Path) -> Compiling:
    import mlx.core as mx

    if wanted is False:
        mx.disable_compile()
        return Compiling(False, "--no-compile")
    if backend == "cpu":
        found = try_on_cpu(folder)
    else:
        mx.enable_compile()
        found = Compiling(True)
    if wanted and not found.works:
        raise Refused(
            Refusal(
                "compile",
                f"--compile cannot be served: {found.why_not}",
                "install g++, or leave --compile out to serve uncompiled",
                param="--compile",
            )
        )
    return found


def _device(found: Prepared, dtype: str | None) -> Device:
    details = [str(found.blas)] if found.backend == "cpu" else [found.chip] if found.chip else []
    if not found.compiling.works:
        details.append(f"eager: {found.compiling.why_not}")
    return Device(
        kind="cpu" if found.backend == "cpu" else "gpu",
        backend=found.backend,
        name=f"{found.backend} ({'; '.join(details)})" if details else found.backend,
        dtype=dtype or ("float32" if found.blas.name == "mkl" else None),
        compiled=found.compiling.works,
    )


def _too_late(reason: str) -> Refused:
    return Refused(Refusal("mlx_imported", reason, "start the server in a process of its own"))

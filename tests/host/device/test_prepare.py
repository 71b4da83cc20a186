"""The matrix library, the environment and the compiler, each in a process of its own."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tf_host.device import import_mlx_lm, prepare, ram
from tf_host.device.blas import find_mkl
from tf_host.settings import ServerSettings
from tf_plugins import Refused

Ask = Callable[..., dict[str, Any]]

needs_mkl = pytest.mark.skipif(find_mkl() is None, reason="MKL is not installed")
needs_cpu = pytest.mark.skipif(
    any(name.startswith(("mlx-cuda", "mlx-metal")) for name in {d.metadata["Name"] for d in metadata.distributions()}),
    reason="MLX is installed for a GPU",
)
pytestmark = needs_cpu

MULTIPLY = """
import mlx.core as mx
a = mx.random.normal((64, 64))
mx.eval(a @ a)
"""
HAS_GXX = subprocess.run("g++ --version", shell=True, capture_output=True, check=False).returncode == 0
needs_gxx = pytest.mark.skipif(not HAS_GXX, reason="there is no g++")


INTEL = "GenuineIntel" in Path("/proc/cpuinfo").read_text("utf-8") if Path("/proc/cpuinfo").exists() else False


@needs_mkl
@pytest.mark.parametrize("choice", ["auto", "mkl"])
def test_mkl_is_in_use_and_strict_where_it_can_be(in_a_process: Ask, choice: str) -> None:
    stray = {"MKL_VERBOSE": "1", "MKL_CBWR": "COMPATIBLE", "MKL_NUM_THREADS": "7", "MKL_DYNAMIC": "TRUE"}
    said = in_a_process(cpu_blas=choice, cpu_threads=1, compile=False, then=MULTIPLY, environment=stray)
    branch = said["environment"]["MKL_CBWR"]
    assert branch in (("AVX512,STRICT", "AVX2,STRICT") if INTEL else ("AUTO",))
    assert said["environment"]["MKL_NUM_THREADS"] == "1"
    assert said["environment"]["MKL_DYNAMIC"] == "FALSE"
    assert said["name"] == f"cpu (MKL {branch}, 1 thread; eager: --no-compile)"
    assert said["dtype"] == "float32"
    calls = [line for line in said["output"].splitlines() if "SGEMM" in line]
    assert calls, "MLX multiplies with something else"
    assert all(f"CNR:{branch}" in line and "NThr:1" in line and "Dyn:0" in line for line in calls)


@needs_mkl
def test_plain_mkl_is_in_use_and_not_strict(in_a_process: Ask) -> None:
    stray = {"MKL_VERBOSE": "1", "MKL_CBWR": "AVX2,STRICT"}
    said = in_a_process(cpu_blas="mkl-plain", cpu_threads=1, compile=False, then=MULTIPLY, environment=stray)
    assert said["environment"]["MKL_CBWR"] is None
    assert said["key"]["blas branch"] == "plain"
    calls = [line for line in said["output"].splitlines() if "SGEMM" in line]
    assert calls
    assert all("CNR:OFF" in line for line in calls)


@needs_mkl
def test_none_keeps_mkl_out(in_a_process: Ask) -> None:
    said = in_a_process(cpu_blas="none", compile=False, then=MULTIPLY, environment={"MKL_VERBOSE": "1"})
    assert "SGEMM" not in said["output"]
    assert (said["name"], said["dtype"]) == ("cpu (MLX's own matrix library; eager: --no-compile)", None)


@needs_mkl
def test_dtype_overrides(in_a_process: Ask) -> None:
    assert in_a_process(cpu_blas="mkl", dtype="bfloat16", compile=False)["dtype"] == "bfloat16"


WITHOUT_MKL = "import tf_host.device.blas as blas; blas.find_mkl = lambda: None"


def test_mkl_that_is_not_installed(in_a_process: Ask) -> None:
    assert in_a_process(cpu_blas="mkl", first=WITHOUT_MKL)["refused"] == (
        "--cpu-blas mkl cannot be served: MKL is not installed\n"
        "hint: pip install 'tf-plugins[mkl]', or take --cpu-blas none"
    )
    assert in_a_process(cpu_blas="auto", first=WITHOUT_MKL, compile=False)["key"]["blas"] == "none"


def test_mkl_that_does_not_load(in_a_process: Ask, tmp_path: Path) -> None:
    broken = tmp_path / "libmkl_rt.so.9"
    broken.write_bytes(b"no library")
    instead = f"import tf_host.device.blas as blas, pathlib; blas.find_mkl = lambda: pathlib.Path({str(broken)!r})"
    refused = in_a_process(cpu_blas="mkl-plain", first=instead)["refused"]
    assert refused.startswith("--cpu-blas mkl cannot be served: MKL does not load: ")
    assert in_a_process(cpu_blas="auto", first=instead, compile=False)["key"]["blas"] == "none"


@needs_mkl
def test_a_processor_that_mkl_is_not_strict_on(in_a_process: Ask) -> None:
    other = "import tf_host.device.processor as p; p.vector_branch = lambda flags: 'SSE9'"
    assert in_a_process(cpu_blas="mkl", first=other)["refused"] == (
        "--cpu-blas mkl cannot be served: MKL does not take SSE9,STRICT on this processor\nhint: take --cpu-blas none"
    )
    assert in_a_process(cpu_blas="auto", first=other, compile=False)["key"]["blas"] == "none"


@needs_mkl
def test_a_processor_that_mkl_has_no_strict_mode_on(in_a_process: Ask) -> None:
    """On any but Intel's it says that it is strict, and of the branch that it chose another."""
    other = "import tf_host.device.blas as blas; blas._ASK = 'print(2, 1)'"
    for choice in ("auto", "mkl"):
        said = in_a_process(cpu_blas=choice, cpu_threads=1, first=other, compile=False)
        assert said["name"] == "cpu (MKL AUTO, 1 thread; eager: --no-compile)"
        assert said["environment"]["MKL_CBWR"] == said["key"]["blas branch"] == "AUTO"
    named = other.replace("2", "12")
    assert in_a_process(cpu_blas="mkl", first=named, compile=False)["key"]["blas branch"].endswith(",STRICT")


def test_mlx_imported_before(in_a_process: Ask) -> None:
    assert in_a_process(first="import mlx.core")["refused"] == (
        "MLX was imported before the server could choose its matrix library\n"
        "hint: start the server in a process of its own"
    )


def test_twice_the_same_is_free_and_anything_else_refused(in_a_process: Ask) -> None:
    again = """
said["again"] = prepare(ServerSettings(**asked["settings"])).name
prepare(ServerSettings(**asked["settings"] | {"cpu_threads": 1}))
"""
    said = in_a_process(cpu_blas="none", compile=False, then=again)
    assert said["again"] == said["name"]
    assert said["refused"].startswith("this process was prepared with other settings for --device, --cpu-blas")


FOR_A_GPU = """
import sys
import tf_host.device.prepare
p = sys.modules["tf_host.device.prepare"]
imported = p.import_mlx_lm
def import_for_a_gpu():
    imported()
    import mlx.core as mx
    taken = [mx.Device(mx.gpu)]
    mx.default_device = lambda: taken[0]
    mx.set_default_device = lambda kind: taken.__setitem__(0, mx.Device(kind))
p.import_mlx_lm = import_for_a_gpu
"""
"""MLX as it is where it is installed for a GPU, as far as one can play that without any."""


@pytest.mark.skipif(mx.device_count(mx.gpu) > 0, reason="there is a GPU")
def test_a_gpu_that_is_not_there(in_a_process: Ask) -> None:
    assert in_a_process(first=FOR_A_GPU, device="auto", cpu_blas="none", compile=False)["refused"] == (
        "MLX is installed for a GPU and finds none\nhint: check the driver, or take --device cpu"
    )


def test_a_cpu_beside_a_gpu(in_a_process: Ask) -> None:
    import_it = "import mlx.core as mx; said['environment']['device'] = str(mx.default_device())"
    said = in_a_process(first=FOR_A_GPU, device="cpu", cpu_blas="none", compile=False, then=import_it)
    assert said["name"].startswith("cpu (MLX's own matrix library")
    assert said["environment"]["device"] == "Device(cpu, 0)"


def test_this_process_is_prepared_already() -> None:
    with pytest.raises(Refused, match="prepared with other settings"):
        prepare(ServerSettings(cpu_threads=99))


@pytest.mark.parametrize(("given", "used"), [("10", "4096"), ("9000", "9000")])
def test_cuda_settings_come_before_mlx(in_a_process: Ask, given: str, used: str) -> None:
    stray = {"MLX_ENABLE_TF32": "1", "MLX_CUDA_SDPA_CACHE_SIZE": given}
    said = in_a_process(cpu_blas="none", compile=False, environment=stray)["environment"]
    assert (said["MLX_ENABLE_TF32"], said["MLX_CUDA_SDPA_CACHE_SIZE"]) == ("0", used)


@pytest.mark.parametrize(
    ("given", "used"),
    [({}, ("2048", "0")), ({"MLX_CUDA_GRAPH_CACHE_SIZE": "5000"}, ("5000", "0"))],
    ids=["nothing said", "more graphs"],
)
def test_mlx_on_cuda_is_kept_from_failing_a_server_that_lives_long(
    in_a_process: Ask, given: dict[str, str], used: tuple[str, str]
) -> None:
    said = in_a_process(cpu_blas="none", compile=False, environment=given)["environment"]
    assert (said["MLX_CUDA_GRAPH_CACHE_SIZE"], said["MLX_ENABLE_CACHE_THRASHING_CHECK"]) == used
    stays = in_a_process(cpu_blas="none", compile=False, environment={"MLX_ENABLE_CACHE_THRASHING_CHECK": "1"})
    assert stays["environment"]["MLX_ENABLE_CACHE_THRASHING_CHECK"] == "1"


COMPILED = """
import mlx.core as mx, pathlib
fn = mx.compile(lambda x: mx.tanh(x) * 3 + 1)
mx.eval(fn(mx.ones((3,))))
folder = pathlib.Path(os.environ["TMPDIR"])
said["libraries"] = len(list(folder.rglob("*.so")))
said["mode"] = oct(folder.stat().st_mode)[-3:]
"""


@needs_gxx
def test_compiled_libraries_are_private_and_gone_at_exit(in_a_process: Ask) -> None:
    said = in_a_process(cpu_blas="none", then=COMPILED)
    assert said["compiled"]
    assert said["name"] == "cpu (MLX's own matrix library)"
    assert said["key"]["compiler"]
    assert (said["libraries"], said["mode"]) == (2, "700")
    assert not os.path.exists(said["environment"]["TMPDIR"])


def test_without_a_compiler_it_says_eager(in_a_process: Ask, tmp_path: Path) -> None:
    said = in_a_process(cpu_blas="none", path=tmp_path, then=COMPILED)
    assert not said["compiled"]
    assert said["name"] == "cpu (MLX's own matrix library; eager: no C++ compiler)"
    assert (said["key"]["compiled"], said["key"]["compiler"], said["libraries"]) == ("false", "", 0)


def test_with_a_compiler_that_fails_it_says_eager_and_works(in_a_process: Ask, tmp_path: Path) -> None:
    broken = tmp_path / "g++"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ]\n')
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    said = in_a_process(cpu_blas="none", path=tmp_path, then=COMPILED)
    assert not said["compiled"]
    assert said["name"] == "cpu (MLX's own matrix library; eager: the C++ compiler fails)"


def test_compile_that_is_asked_for_is_not_given_up_quietly(in_a_process: Ask, tmp_path: Path) -> None:
    assert in_a_process(cpu_blas="none", compile=True, path=tmp_path)["refused"] == (
        "--compile cannot be served: no C++ compiler\nhint: install g++, or leave --compile out to serve uncompiled"
    )


def test_the_key_tells_apart_what_moves_bits(in_a_process: Ask) -> None:
    base = in_a_process(cpu_blas="none", compile=False)["key"]
    assert base == in_a_process(cpu_blas="none", compile=False)["key"]
    assert in_a_process(cpu_blas="none", compile=False, dtype="float32")["key"] == {**base, "dtype": "float32"}
    assert {"mlx", "mlx-lm", "backend", "device", "instructions", "blas", "compiled", "dtype"} <= set(base)
    assert all(isinstance(value, str) for value in base.values())


@needs_mkl
def test_the_key_holds_branch_version_and_threads(in_a_process: Ask) -> None:
    key = in_a_process(cpu_blas="mkl", cpu_threads=1, compile=False)["key"]
    assert key["blas version"] == metadata.version("mkl")
    assert key["blas branch"].endswith(",STRICT" if INTEL else "AUTO")
    assert key["blas threads"] == "1"


def test_mlx_lm_leaves_the_limit_of_open_files(in_a_process: Ask) -> None:
    before = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3000, 5000))"
    then = """
import sys, resource
said["imported"] = "mlx_lm" in sys.modules
said["limit"] = resource.getrlimit(resource.RLIMIT_NOFILE)
"""
    said = in_a_process(first=before, then=then, cpu_blas="none", compile=False)
    assert (said["imported"], said["limit"]) == (True, [3000, 5000])


def test_other_limits_can_still_be_set() -> None:
    import resource

    set_before = resource.setrlimit
    assert import_mlx_lm().__name__ == "mlx_lm"
    assert resource.setrlimit is set_before


@pytest.mark.parametrize(
    ("own", "limited"),
    [
        ("", "memory.max"),
        ("0::/\n", "memory.max"),
        ("0::/system.slice/tf-serve.service\n", "system.slice/tf-serve.service/memory.max"),
        ("0::/system.slice/tf-serve.service\n", "system.slice/memory.max"),
        ("0::/../host/path\n", "memory.max"),
        ("", "memory/memory.limit_in_bytes"),
        ("9:cpu,memory:/box/in\n1:name=systemd:/x\n", "memory/box/in/memory.limit_in_bytes"),
        ("9:memory:/box/in\n", "memory/box/memory.limit_in_bytes"),
    ],
)
def test_memory_is_the_share_of_a_container_or_a_service(tmp_path: Path, own: str, limited: str) -> None:
    cgroups, groups = tmp_path / "cgroup", tmp_path / "own"
    groups.write_text(own)
    whole = ram(cgroups, groups)
    assert whole == ram(cgroups, tmp_path / "absent") > 1 << 28
    limit = cgroups / limited
    limit.parent.mkdir(parents=True)
    for text, nbytes in (("1048576\n", 1_048_576), ("max\n", whole), (str(1 << 62), whole)):
        limit.write_text(text)
        assert ram(cgroups, groups) == nbytes


def test_the_memory_of_other_groups_is_not_taken_for_its_own(tmp_path: Path) -> None:
    other = tmp_path / "other" / "memory.max"
    other.parent.mkdir()
    other.write_text("1048576")
    (tmp_path / "own").write_text("0::/mine\n3:cpu:/other\n")
    assert ram(tmp_path, tmp_path / "own") == ram(tmp_path, tmp_path / "absent")


def test_settings_and_plugins_import_no_mlx() -> None:
    modules = "tf_host.settings, tf_host.plugins, tf_host.checkpoints, tf_host.device, tf_host.cli.serve"
    code = f"import sys, {modules}; print([name for name in ('mlx', 'mlx_lm', 'transformers') if name in sys.modules])"
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

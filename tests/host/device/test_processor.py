"""What is read from the processor's own description."""

from __future__ import annotations

import pytest

from tf_host.device.processor import instructions, physical_cores, vector_branch

TWO_CORES_FOUR_THREADS = """\
processor\t: 0
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu sse avx2

processor\t: 1
physical id\t: 0
core id\t\t: 1
flags\t\t: fpu other

processor\t: 2
physical id\t: 0
core id\t\t: 0

processor\t: 3
physical id\t: 0
core id\t\t: 1
"""
TWO_SOCKETS = TWO_CORES_FOUR_THREADS.replace("processor\t: 1\nphysical id\t: 0", "processor\t: 1\nphysical id\t: 1")
WITHOUT_IDS = "processor\t: 0\nBogoMIPS\t: 1\nFeatures\t: fp asimd\n\nprocessor\t: 1\n\nprocessor\t: 2\n"


@pytest.mark.parametrize(
    ("text", "usable", "cores"),
    [
        (TWO_CORES_FOUR_THREADS, {0, 1, 2, 3}, 2),
        (TWO_CORES_FOUR_THREADS, {0, 2}, 1),
        (TWO_CORES_FOUR_THREADS, {3}, 1),
        (TWO_CORES_FOUR_THREADS, None, 2),
        (TWO_SOCKETS, {0, 1, 2, 3}, 3),
        (WITHOUT_IDS, {0, 1, 2}, 3),
        (WITHOUT_IDS, {1}, 1),
        ("", {0, 1, 2, 3, 4}, 5),
    ],
)
def test_physical_cores(text: str, usable: set[int] | None, cores: int) -> None:
    assert physical_cores(text, frozenset(usable) if usable is not None else frozenset({0, 1, 2, 3})) == cores


def test_instructions_of_the_first_core() -> None:
    assert instructions(TWO_CORES_FOUR_THREADS) == {"fpu", "sse", "avx2"}
    assert instructions(WITHOUT_IDS) == {"fp", "asimd"}
    assert instructions("") == frozenset()


@pytest.mark.parametrize(
    ("flags", "branch"),
    [
        ("avx avx2 avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni", "AVX512"),
        ("avx avx2 avx512f avx512cd avx512er avx512pf", "AVX2"),  # Knights Landing
        ("avx avx2", "AVX2"),
        ("avx sse4_2", None),
        ("", None),
    ],
)
def test_branch(flags: str, branch: str | None) -> None:
    assert vector_branch(frozenset(flags.split())) == branch

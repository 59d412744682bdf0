"""Compiled kernels are loaded from folders of this user's own alone, whole, and need no folder that can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slidejoin.jit.caching import _Files

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = """
import numpy as np
from numba import types
from slidejoin.jit.compiling import I64, kernel

@kernel(I64, returns=types.int64)
def total(values):
    found = 0
    for value in values:
        found += value
    return found
"""
PROGRAM = """
import os, sys
import numpy as np
if sys.argv[1:]:
    # Python itself may be where that user cannot read: everything is loaded before.
    import numba
    from slidejoin.jit.compiling import kernel
    numba.njit("int64(int64[::1])")(lambda values: values.sum())
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
from mini import total
print(total(np.arange(5)), sum(total.stats.cache_hits.values()))
"""
NOBODY = 54_321
"""A user that has neither a name nor a home."""

as_nobody = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs of others")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with the module that anybody may read; pytest's own folders are for one user."""
    folder = Path(tempfile.mkdtemp(prefix="slidejoin-test-"))
    folder.chmod(0o755)
    (folder / "mini.py").write_text(MODULE)
    yield folder
    shutil.rmtree(folder)


def run(place: Path, user: int | None = None, program: str = PROGRAM, **settings: str) -> tuple[str, str]:
    """Run the kernel in a process of its own; return what it printed, and what it said."""
    kept = {name: value for name, value in os.environ.items() if name not in {"NUMBA_CACHE_DIR", "HOME"}}
    environment = kept | {"SLIDEJOIN_QUIET": "", "NUMBA_DISABLE_JIT": "0", "PYTHONPATH": str(place)} | settings
    done = subprocess.run(
        [sys.executable, "-c", program, *([] if user is None else [str(user)])],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=place,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.nbc"))


@as_nobody
def test_kernels_of_an_image_need_no_folder_that_can_be_written(place: Path) -> None:
    assert run(place)[0] == "10 0"
    assert len(files(place)) == 1
    assert run(place, NOBODY, HOME="/nonexistent") == ("10 1", "")


@as_nobody
def test_where_nothing_can_be_written_a_process_compiles_its_own_and_says_so(place: Path) -> None:
    (place / "__pycache__").mkdir(mode=0o755)
    out, said = run(place, NOBODY, HOME="/nonexistent")
    assert out == "10 0"
    assert said.count("compiled kernels cannot be saved") == 1
    assert f"{place}/__pycache__ cannot be written; /nonexistent" in said
    assert files(place) == []


@as_nobody
def test_without_a_home_nothing_is_made_in_the_working_directory(place: Path) -> None:
    place.chmod(0o777)  # the working directory
    (place / "__pycache__").mkdir(mode=0o755)
    out, said = run(place, NOBODY)
    assert out == "10 0"
    assert "is a relative path" in said
    assert not (place / "~").exists()


def test_a_folder_that_others_can_write_is_not_read(place: Path) -> None:
    kept = place / "kept"
    assert run(place, NUMBA_CACHE_DIR=str(kept))[0] == "10 0"
    assert run(place, NUMBA_CACHE_DIR=str(kept)) == ("10 1", "")
    (file,) = files(kept)
    file.write_bytes(PLANTED)
    for shared in (kept, file.parent):
        shared.chmod(0o777)
        out, said = run(place, NUMBA_CACHE_DIR=str(kept))
        assert out == "10 0"
        assert "can be written by other users" in said
        shared.chmod(0o700)
    assert file.read_bytes() == PLANTED


PLANTED = b"cos\nsystem\n(S'touch planted'\ntR."


def test_what_is_damaged_or_foreign_is_compiled_again(place: Path) -> None:
    import hashlib
    import pickle

    kept = place / "kept"
    run(place, NUMBA_CACHE_DIR=str(kept))
    (file,) = files(kept)
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 4
    other = pickle.dumps(("of", "another", "Numba"))
    for data in (bytes(flipped), PLANTED, hashlib.sha256(other).digest() + other):
        file.write_bytes(data)
        assert run(place, NUMBA_CACHE_DIR=str(kept))[0] == "10 0"
        assert file.read_bytes() != data
    assert run(place, NUMBA_CACHE_DIR=str(kept)) == ("10 1", "")
    assert not (place / "planted").exists()


@pytest.mark.parametrize("at", range(0, 400, 23))
def test_no_flipped_bit_is_loaded(tmp_path: Path, at: int) -> None:
    from tests.kernels.test_warming import only

    saved = _Files(str(tmp_path), "m.f.tag", "0a", only(tmp_path))
    saved.save("aa", list(range(200)))
    data = bytearray(saved.path("aa").read_bytes())
    data[at] ^= 1
    saved.path("aa").write_bytes(data)
    assert saved.load("aa") is None


LITTLE_MEMORY = """
import resource
import numpy as np
from mini import total
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
for _ in range(2):
    try:
        total(np.arange(5))
    except MemoryError as error:
        print(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(total(np.arange(5)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory that Linux alone keeps")
def test_little_memory_is_an_error_and_no_end_of_the_process(place: Path) -> None:
    out = run(place, program=LITTLE_MEMORY, NUMBA_CACHE_DIR=str(place / "kept"))[0].splitlines()
    assert out[0].startswith("compiling or loading a kernel takes up to 256 MiB, which this process cannot get; raise")
    assert out[1:] == [out[0], "10"]

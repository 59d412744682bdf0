"""Kernels are compiled once, and found again by every later process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from slidejoin.jit import warming
from slidejoin.jit.caching import KernelCache, _Files, _parts, _reached
from slidejoin.jit.folders import KERNEL_FOLDERS, KernelFolders, _Folders
from slidejoin.jit.registry import ALL_KERNELS, KERNELS, has_kernels
from slidejoin.jit.warming import warm_up


def test_all_kernels_are_found_by_the_next_process() -> None:
    names = [done.kernel for done in warm_up()]
    assert {"sorting.radix_order", "ordering.merge_ranks", "shifting.shift_ends"} <= set(names)
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert [kernel["kernel"] for kernel in report["kernels"] if not kernel["from_cache"]] == []
    assert sorted(kernel["kernel"] for kernel in report["kernels"]) == sorted(names)
    assert report["seconds"] > 0


RUN = """
from slidejoin.cli import main
main(["compile", "--json"])
"""


PLAIN_INSTALLATION = """
import sys
sys.modules["typer"] = None
from slidejoin.cli import main
main(["compile"])
"""


@pytest.mark.parametrize("program", [RUN.replace(', "--json"', ""), PLAIN_INSTALLATION], ids=["typer", "none"])
def test_the_command_in_words(program: str) -> None:
    warm_up()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert re.fullmatch(rf"{len(warm_up())} kernels ready, 0 compiled now, \d+\.\d s\n", done.stdout)


FIRST_CALLS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import numpy as np
from numba import njit
from slidejoin.jit.compiling import load
from slidejoin.jit.registry import KERNELS, has_kernels
from slidejoin.rows.kernels.gathering import find_pieces, gather_bits
loaded = lambda: sorted(kernel.__name__ for kernel, _ in KERNELS if kernel.overloads)
print(*loaded())
together = Barrier(4)
def first_call(n):
    out = np.empty(2, np.int64)
    together.wait()
    find_pieces(np.array([0, 2, 4]), np.array([0]), np.array([3, n % 4]), out)
    return out.tolist()
with ThreadPoolExecutor(4) as pool:
    print(*pool.map(first_call, range(4)), sep=" ")
print("numba.np.arraymath" in sys.modules)
print(*loaded())
@njit
def calls_another(addresses, pieces, ordinals, out):
    gather_bits(addresses, addresses, pieces, ordinals, out)
out = np.zeros(2, np.uint8)
calls_another(np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64), out)
print(out.tolist(), *loaded())
load(gather_bits)
try:
    find_pieces(1.5)
except TypeError as error:
    print("TypeError")
"""


def test_a_kernel_of_the_cache_is_loaded_by_its_first_call() -> None:
    warm_up()
    done = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "",
        "[1, 0] [1, 0] [1, 1] [1, 1]",
        "False",  # what Numba needs to compile has not been loaded
        "find_pieces",
        "[1, 1] find_pieces gather_bits",
        "TypeError",
    ]


def made(number: int, helper: object):
    def kernel() -> tuple[int, object]:
        return number, helper

    return kernel


def test_kernels_are_told_apart_by_what_they_close_over() -> None:
    def one() -> int:
        return 1

    def two() -> int:
        return 2

    keys = [_parts(made(*given)) for given in ((1, one), (2, one), (1, two))]
    assert keys[0] == _parts(made(1, one))
    assert keys[0] != keys[1] != keys[2] != keys[0]


@pytest.mark.parametrize("place", range(3))
def test_no_key_holds_an_address(place: int) -> None:
    warm_up()
    for kernel, _ in KERNELS[place::3]:
        function = getattr(kernel, "py_func", kernel)
        assert isinstance(getattr(kernel, "_cache", None), KernelCache)
        assert not any(b" at 0x" in part for part in _parts(function))


def test_a_kernel_is_made_of_all_modules_that_its_module_imports() -> None:
    """A kernel that calls another one, or has a constant of another module, is compiled with it."""
    known = set[str]()
    for kernel, _ in KERNELS:
        function = getattr(kernel, "py_func", kernel)
        reached = {str(path) for path in _reached(Path(function.__code__.co_filename))}
        used = {getattr(value, "__module__", None) for value in function.__globals__.values()}
        helpers = {name for name in used if name and has_kernels(name)}
        assert {sys.modules[name].__file__ for name in helpers} <= reached
        known |= reached
    assert any(path.endswith("fields.py") for path in known)
    assert not any(path.endswith(("caching.py", "progress.py")) for path in known)


def test_every_module_of_kernels_is_among_all() -> None:
    ALL_KERNELS.run()
    package = Path(warming.__file__).parent.parent
    known = len(KERNELS)
    for path in [*package.rglob("kernels/*.py"), *package.glob("jit/vectors/*.py")]:
        import_module(
            ".".join(("slidejoin", *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        )
    assert [kernel.__module__ for kernel, _ in KERNELS[known:]] == []
    assert all(has_kernels(kernel.__module__) for kernel, _ in KERNELS if kernel.__module__.startswith("slidejoin.jit"))


def only(folder: Path) -> KernelFolders:
    """Return the folders of a process that has one alone."""
    folders = KernelFolders()
    folders._known[str(folder)] = _Folders((folder,), folder, "")
    return folders


def test_files_appear_whole_and_those_of_earlier_sources_go(tmp_path: Path) -> None:
    old, new, other = (
        _Files(str(tmp_path), *named, only(tmp_path))
        for named in (("m.f.tag", "0a"), ("m.f.tag", "1b"), ("m.ff.tag", "0a"))
    )
    for files in (old, other):
        files.save("aa", {"code": b"old"})
    assert new.load("aa") is None
    for key in ("aa", "bb"):
        new.save(key, {"code": key})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "m.f.tag-1b-aa.nbc",
        "m.f.tag-1b-bb.nbc",
        "m.ff.tag-0a-aa.nbc",
    ]
    assert (new.load("aa"), old.load("aa"), other.load("aa")) == ({"code": "aa"}, None, {"code": b"old"})


def test_a_damaged_file_is_no_file(tmp_path: Path) -> None:
    files = _Files(str(tmp_path), "m.f.tag", "0a", only(tmp_path))
    files.save("aa", list(range(100)))
    whole = files.path("aa").read_bytes()
    for size in range(len(whole)):
        files.path("aa").write_bytes(whole[:size])
        assert files.load("aa") is None


def test_what_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = _Files(str(tmp_path), "m.f.tag", "0a", only(tmp_path))

    def refuse(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setenv("SLIDEJOIN_QUIET", "")
    monkeypatch.setattr("pathlib.Path.replace", refuse)
    for key in ("aa", "bb"):
        files.save(key, 1)
    assert capsys.readouterr().err.count("compiled kernels cannot be saved (no space left), so this process") == 1
    assert list(tmp_path.iterdir()) == []


def test_kernels_of_an_image_that_is_read_only_leave_room_for_others_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "file_of", lambda _: tmp_path / "an image" / "one.nbc")
    monkeypatch.setattr(KERNEL_FOLDERS, "target", lambda _: tmp_path)
    assert warming.can_save()

    def nowhere(_: str) -> Path:
        raise OSError("a read-only file system")

    monkeypatch.setattr(KERNEL_FOLDERS, "target", nowhere)
    assert not warming.can_save()


SHARED = """
import json, sys
from slidejoin.jit import warming
from slidejoin.jit.registry import KERNELS, has_kernels
warming.ALL_KERNELS.run()
names = {kernel.__module__.removeprefix("slidejoin.") for kernel, _ in KERNELS}
others = names - {"operator.ingest.kernels.clocks", "predicate.kernels.hashing", "jit.vectors.shifting"}
missing = len(warming.uncompiled(others))
if sys.argv[1] == "broken":
    warming.HELPER = "raise SystemExit(1)"
spent = warming.compile_all(3, others)
left = len(warming.uncompiled(others))
print(json.dumps([missing, sorted(spent), left, len(warming.compile_all(3, others))]))
"""


@pytest.mark.parametrize("helpers", ["whole", pytest.param("broken", marks=pytest.mark.nightly)])
def test_processes_share_what_is_to_be_compiled(tmp_path: Path, helpers: str) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    command = [sys.executable, "-c", SHARED, helpers]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    missing, spent, left, again = json.loads(done.stdout)
    assert missing == len(spent) >= 4
    assert spent == sorted(path.name for path in tmp_path.rglob("*.*"))
    assert (left, again) == (0, 0)

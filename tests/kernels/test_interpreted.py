"""The first minute of an installation: small pushes are answered at once, and whatever is compiled is said."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numba import types

import slidejoin as sj
from slidejoin.jit import background, interpreted
from slidejoin.jit.background import Background, alone_in
from slidejoin.jit.compiling import I64, kernel
from slidejoin.jit.interpreted import MOST_IN_ALL, MOST_ROWS, PATIENCE, Interpreter
from slidejoin.jit.registry import KERNELS, of_joins
from slidejoin.jit.warming import uncompiled
from slidejoin.operator.fused import FusedPath

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EMBEDDED, SHOWN = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, flags=re.DOTALL)[0]
STRICT = """
import slidejoin as sj

join = sj.StreamJoin(
    on="l.price BETWEEN r.bid - 5 AND r.ask + 5 AND l.size <= r.size",
    window=sj.TimeWindow(10, on="ts"), order="strict",
)
join.push(right={"bid": [98, 90], "ask": [101, 144], "size": [7, 5], "ts": [1, 2]})
pairs = join.push(left={"price": [103, 120], "size": [5, 6], "ts": [2, 3]})
print(pairs.select(["price", "bid"]).to_pylist())
# [{'price': 103, 'bid': 98}, {'price': 103, 'bid': 90}]
"""
CELLS = """
import slidejoin as sj

join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(1000), output="count")
for n in range(5):
    counts = join.push(left={"a": [n, n + 1]}, right={"a": [n, n]})
print(counts["match_count"].to_pylist())
# [0, 0, 2, 2]
"""
SAID = (
    r"slidejoin: compiling kernels in the background, once per installation, about \d+ s; "
    r"plain Python answers small pushes until then\n"
)
PID = """
from slidejoin.jit.background import BACKGROUND
print(BACKGROUND._process.pid)
"""


class Installation:
    """An installation without compiled kernels; what compiles for it ends with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.background: list[int] = []

    def run(self, program: str, **settings: str) -> tuple[str, str]:
        """Run a program that a user could write; return its output and what it said."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLIDEJOIN_")}
        done = subprocess.run(
            [sys.executable, "-c", program + PID],
            env=kept | {"NUMBA_CACHE_DIR": str(self.folder), "NUMBA_DISABLE_JIT": "0"} | settings,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        *lines, pid = done.stdout.splitlines()
        self.background.append(int(pid))
        return "".join(f"{line}\n" for line in lines), done.stderr

    def end(self) -> None:
        """End what compiles."""
        for pid in self.background:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path)
    yield made
    made.end()


def shown_in(program: str) -> str:
    """Return what a program prints: what the README shows below it, or its comments."""
    if program == EMBEDDED:
        return SHOWN
    return "".join(f"{line[2:]}\n" for line in program.splitlines() if line.startswith("# "))


@pytest.mark.parametrize(
    "program", [EMBEDDED, pytest.param(STRICT, marks=pytest.mark.nightly), CELLS], ids=["readme", "strict", "cells"]
)
def test_a_first_example_answers_at_once_and_says_what_goes_on(program: str, installation: Installation) -> None:
    start = monotonic()
    out, said = installation.run(program)
    seconds = monotonic() - start
    assert out == shown_in(program)
    assert re.fullmatch(SAID, said)
    # 1 to 2 s where nothing else runs; compiling what they call would take 7 to 15.
    assert seconds < 100
    assert not list(installation.folder.rglob("find_few*.nbc"))


def test_an_environment_variable_silences_it(installation: Installation) -> None:
    assert installation.run(EMBEDDED, SLIDEJOIN_QUIET="1") == (shown_in(EMBEDDED), "")


@pytest.mark.nightly
def test_the_background_leaves_nothing_to_compile(installation: Installation) -> None:
    installation.run(EMBEDDED)
    (folder,) = (path.parent for path in wait_for(installation.folder, "compiling.lock"))
    while not alone_in(folder):
        sleep(1)
    every_kernel = "from slidejoin.jit.warming import uncompiled; print(len(uncompiled())); import os\n"
    out, said = installation.run(f"{every_kernel}{EMBEDDED}".replace(PID, ""))
    assert (out, said) == (f"0\n{shown_in(EMBEDDED)}", "")


def wait_for(folder: Path, name: str) -> list[Path]:
    while not list(folder.rglob(name)):
        sleep(0.1)
    return list(folder.rglob(name))


ONE_KERNEL = """
import numpy as np
from slidejoin.predicate.kernels.hashing import hash_bytes
for _ in range(2):
    hash_bytes(np.array([0, 1]), np.array([7], np.uint8), np.zeros(1, np.int64))
"""


@pytest.mark.parametrize("quiet", ["0", "1"])
def test_a_kernel_that_is_compiled_while_the_user_waits_is_said(quiet: str, tmp_path: Path) -> None:
    settings = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0", "SLIDEJOIN_QUIET": quiet}
    for said in ("" if quiet == "1" else "slidejoin: compiling the kernels of this join, once per installation,", ""):
        done = subprocess.run(
            [sys.executable, "-c", ONE_KERNEL], env=os.environ | settings, capture_output=True, text=True, check=True
        )
        assert done.stderr.startswith(said)
        assert done.stderr.count("\n") == bool(said)


SOME_KERNELS = """
from slidejoin.jit import warming
from slidejoin.jit.registry import KERNELS, of_joins
warming.ALL_KERNELS.run()
names = {kernel.__module__.removeprefix("slidejoin.") for kernel, _ in KERNELS}
warming.compile_all(2, names - {"operator.ingest.kernels.clocks", "predicate.kernels.hashing"})
"""


def test_a_terminal_shows_how_far_it_is(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    settings = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0", "SLIDEJOIN_QUIET": ""}
    command = [sys.executable, "-c", SOME_KERNELS]
    with subprocess.Popen(command, env=os.environ | settings, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # how Linux says that the other end is closed
            while part := os.read(ours, 1 << 16):
                said += part
    os.close(ours)
    assert process.returncode == 0
    first, _, live = said.decode().partition("\r\n")
    told = re.fullmatch(r"slidejoin: compiling (\d+) kernels, once per installation, about \d+ s", first)
    assert told is not None
    every = int(told[1])
    assert every >= 3
    assert f"slidejoin: [{' ' * 24}] 0 of {every}, 0 s" in live
    assert f"slidejoin: [{'#' * 24}] {every} of {every}, " in live
    assert live.endswith("\r\x1b[2K")


# -- which calls are left to Python ------------------------------------------------------------------------------------


class Known:
    """A kernel as far as it is asked for."""

    __module__ = "slidejoin.predicate.kernels.hashing"

    def __init__(self, file: Path) -> None:
        self._cache, self._ready = SimpleNamespace(file=file), None


@pytest.fixture
def missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Known:
    """A kernel that another process compiles."""
    monkeypatch.setattr(Background, "begin", lambda *_: True)
    return Known(tmp_path / "kernel.nbc")


def begun(rows: int = 1) -> Interpreter:
    one = Interpreter()
    one.cold = True
    one.expect(rows)
    one.planned()
    return one


def test_only_kernels_that_are_missing_are_left_to_python(missing: Known) -> None:
    assert begun().takes(missing)
    missing._cache.file.touch()
    assert not begun().takes(missing)


def test_nothing_is_left_to_python_where_nobody_counts_rows(missing: Known) -> None:
    assert not Interpreter().takes(missing)


@pytest.mark.parametrize("on", ["l.a = r.a", "l.a < r.a"])
def test_the_fused_path_is_closed_until_its_kernels_are_compiled(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pushes = 8

    def push_all(compiled_at: int) -> tuple[list[list[int]], int]:
        """Push often; return the pairs, sorted, and how many pushes were fused."""
        fused, run = 0, FusedPath.run

        def counted(*args: Any) -> Any:
            nonlocal fused
            fused += 1
            return run(*args)

        with monkeypatch.context() as patched:
            patched.setattr(FusedPath, "run", counted)
            join, out = sj.StreamJoin(on=on, window=sj.CountWindow(5), output="positions"), []
            for n in range(pushes):
                patched.setattr(Interpreter, "awaits", lambda *_, n=n: n < compiled_at)
                out += sorted(
                    list(pair.values()) for pair in join.push({"a": [n, n + 2]}, {"a": [n + 1, n]}).to_pylist()
                )
        return out, fused

    expected, fused = push_all(0)
    assert len(expected) > pushes
    assert fused == pushes - 1  # the first push brings the schemas
    assert push_all(4) == (expected, pushes - 4)
    assert push_all(pushes) == (expected, 0)


@pytest.mark.parametrize(
    ("pushes", "little"),
    [
        ([MOST_ROWS], True),
        ([MOST_ROWS + 1], False),
        ([MOST_ROWS + 1, 1], False),
        ([MOST_ROWS] * (MOST_IN_ALL // MOST_ROWS), True),
        ([*[MOST_ROWS] * (MOST_IN_ALL // MOST_ROWS), 1], False),
    ],
)
def test_only_little_work_is_left_to_python(pushes: list[int], little: bool, missing: Known) -> None:
    one = begun(0)
    for rows in pushes:
        one.expect(rows)
    assert one.takes(missing) == little


def test_nothing_is_left_to_python_once_rows_came_uncounted(missing: Known) -> None:
    one = Interpreter()
    one.expect(1)
    one.planned()  # all kernels of that join are compiled
    one.cold = True
    assert not one.takes(missing)


def test_python_stops_when_it_takes_much_of_the_time(missing: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(interpreted, "perf_counter", lambda: now)
    one = begun()
    assert one.takes(missing)
    one._spent = PATIENCE + 0.1
    assert not one.takes(missing)
    now += 1.0
    assert one.takes(missing)


def test_a_restored_join_may_hold_any_number_of_rows(monkeypatch: pytest.MonkeyPatch, missing: Known) -> None:
    one = begun()
    monkeypatch.setattr("slidejoin.api.one_call.INTERPRETER", one)
    sj.StreamJoin.restore(sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(3)).snapshot())
    assert not one.takes(missing)


def test_every_kernel_has_its_plain_twin() -> None:
    uncompiled()  # imports all
    one = Interpreter()
    kernels = [each for each, _ in KERNELS if of_joins(each)]
    twins = [one._twin(each) for each in kernels]
    assert len(kernels) > 100
    assert all(isinstance(twin, FunctionType) for twin in twins)
    assert [twin.__qualname__ for twin in twins] == [getattr(each, "py_func", each).__qualname__ for each in kernels]


def test_plain_kernels_are_as_silent_as_compiled_ones() -> None:
    from slidejoin.predicate.kernels.hashing import hash_bytes

    given = np.array([0, 3]), np.frombuffer(b"abc", np.uint8)
    plain, compiled = np.zeros(1, np.int64), np.zeros(1, np.int64)
    Interpreter().run(hash_bytes, (*given, plain))  # warnings are errors here
    hash_bytes(*given, compiled)
    assert plain.tolist() == compiled.tolist() != [0]


def test_a_setting_that_cannot_be_is_refused_before_rows_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(3))
    monkeypatch.setenv("SLIDEJOIN_COMPILE", "later")
    with pytest.raises(sj.ConfigError, match='SLIDEJOIN_COMPILE must be "background" or "now"; got \'later\''):
        join.push(left={"a": [1]})
    monkeypatch.setenv("SLIDEJOIN_COMPILE", "now")
    assert join.push(left={"a": [1]}, right={"a": [1]}).num_rows == 1


# -- the process in the background -------------------------------------------------------------------------------------

HOLDS = """
import sys, time
from pathlib import Path
from slidejoin.jit.background import alone_in
print(alone_in(Path(sys.argv[1])), flush=True)
time.sleep(600)
"""


def test_one_process_compiles_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.delenv("SLIDEJOIN_QUIET")
    monkeypatch.delenv("SLIDEJOIN_COMPILE")
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"
        assert not alone_in(tmp_path)
        one = Background()
        assert one.begin(tmp_path, "there is tea")
        assert one._process is None
        assert capsys.readouterr().err == "slidejoin: another process is compiling kernels; there is tea until then\n"
        other.kill()
    assert not one.begin(tmp_path, "there is tea")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="processes have no groups here")
def test_nobody_counts_on_a_process_that_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.delenv("SLIDEJOIN_QUIET")
    monkeypatch.delenv("SLIDEJOIN_COMPILE")
    one = Background("import time; time.sleep(600)")
    assert one.begin(tmp_path)
    assert one.begin(tmp_path, "said once, or not at all")
    assert capsys.readouterr().err == ""
    one.end()
    assert not one.begin(tmp_path)


def test_nobody_waits_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_locked", lambda _: True)
    one = Background()
    assert not one.begin(tmp_path)  # SLIDEJOIN_COMPILE=now, as in all tests
    monkeypatch.delenv("SLIDEJOIN_COMPILE")
    assert one.begin(tmp_path)
    assert not Background(longest=-1.0).begin(tmp_path)


def test_other_tests_run_compiled_kernels() -> None:
    assert Interpreter.takes.__module__ == interpreted.__name__, "tests.mixed is a plugin for runs of its own"
    assert background.setting() == "now"


# -- compiled or not, it is the same join ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "tests"),
    [
        ("1", ["tests/law/test_nojit.py", "-k", "band or equality or filter or self"]),
        *(pytest.param(str(seed), ["tests/law"], marks=pytest.mark.nightly) for seed in range(3)),
    ],
)
def test_kernels_may_be_mixed(seed: str, tests: list[str]) -> None:
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "tests.mixed", *tests]
    done = subprocess.run(
        command, env=os.environ | {"MIXED_SEED": seed}, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"run by Python: (\d+)", done.stdout)[1]) > 10


def test_a_compilation_that_was_interrupted_can_be_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def value(values) -> int:
        return values[values.size - 1]

    last: Any = kernel(I64, returns=types.int64)(value)

    compile_ = last.compile
    monkeypatch.setattr(last, "compile", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        last(np.arange(3))
    monkeypatch.setattr(last, "compile", compile_)
    assert last(np.arange(3)) == 2

"""Kernels interpreted by Python, so that the first small pushes do not wait for compilation.

Each kernel has a plain Python version, which ``NUMBA_DISABLE_JIT=1`` selects for a whole process. Here a module of
kernels is executed a second time, without Numba, and a kernel that is not compiled yet is replaced by its plain version
as long as there are few rows. Both work on the same arrays, so one call may be plain and the next compiled.

Few rows means, counted over the whole process: at most `MOST_ROWS` in any push and `MOST_IN_ALL` in all. Plain kernels
run in one thread, since pushes are shared by threads only above that number of rows. Importing this module does not
load Numba.
"""

from __future__ import annotations

import builtins
import threading
from importlib.util import find_spec, module_from_spec
from time import perf_counter
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from slidejoin.jit.background import BACKGROUND, setting
from slidejoin.jit.registry import has_kernels, of_joins

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["INTERPRETER", "Interpreter"]

JIT = __name__.rpartition(".")[0]
REGISTRY = f"{JIT}.registry"
TWICE = frozenset({REGISTRY, f"{JIT}.compiling"})
"""Modules without kernels that plain kernels have a second time too, since they decide how a kernel is made."""

MOST_ROWS = 256
"""Rows of a push. Threads share one from 512 rows on."""

MOST_IN_ALL = 8192
"""Rows that a process has pushed in all: every row may match every other one, at a microsecond or two for each pair."""

MEANWHILE = "plain Python answers small pushes"

PATIENCE, SHARE = 1.0, 0.25
"""Plain kernels may take a second, and a quarter of the time after the first one. A stream that waits for its rows then
never waits for the compiler; one whose rows are waiting is better off compiling what it needs now."""


class Interpreter:
    """Decides whether Python runs a kernel that is not compiled, and runs it."""

    def __init__(self) -> None:
        self.cold = False
        """Whether a kernel was not compiled when its module was imported, and Python may still run it."""
        self._rows = 0
        self._closed = False
        self._began = self._spent = 0.0
        self._modules: dict[str, ModuleType] = {}
        self._twins: dict[int, Callable[..., Any]] = {}
        self._lock = threading.RLock()

    def expect(self, rows: int) -> None:
        """Count the rows of a push before it begins; if they are too many, Python runs no more kernels.

        Raises
        ------
        ConfigError
            If the environment has a setting that cannot be.
        """
        setting()
        self._rows += rows
        if rows > MOST_ROWS or self._rows > MOST_IN_ALL:
            # From here on nobody counts: 3 µs of each push.
            self._closed, self.cold = True, False

    def planned(self) -> None:
        """Stop counting pushes once a join has its kernels, if all of them are compiled."""
        if not self.cold:
            self._closed = True

    def imported(self, kernel: Any) -> None:  # noqa: ANN401 - Numba's kernels are untyped
        """Record a kernel."""
        self.cold |= not self._closed and not kernel._cache.file.is_file()  # noqa: SLF001 - as `compiling` sets it

    def awaits(self, kernel: Any) -> bool:  # noqa: ANN401 - see above
        """Tell whether another process is compiling a kernel, or is about to: it is not there, and rows are pushed."""
        if self._rows == 0 or not of_joins(kernel) or "_ready" not in vars(kernel):
            return False
        file = kernel._cache.file  # noqa: SLF001 - see above
        return not file.is_file() and BACKGROUND.begin(file.parent, "" if self._closed else MEANWHILE)

    def takes(self, kernel: Any) -> bool:  # noqa: ANN401 - see above
        """Tell whether Python is to run a kernel now, while another process compiles it."""
        if not self.awaits(kernel) or self._closed:
            return False
        self._began = self._began or perf_counter()
        return self._spent <= PATIENCE + SHARE * (perf_counter() - self._began)

    def run(self, kernel: Any, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - Numba's kernels are untyped
        """Run the plain version of a kernel."""
        import numpy as np  # noqa: PLC0415 - see above

        twin = self._twin(kernel)
        start = perf_counter()
        try:
            # Compiled code does not check overflows and divisions by zero either.
            with np.errstate(all="ignore"):
                return twin(*arguments)
        finally:
            self._spent += perf_counter() - start

    def _twin(self, kernel: Any) -> Callable[..., Any]:  # noqa: ANN401 - see above
        """Return the plain version of a kernel: the one that its module defines at the same place."""
        if id(kernel) not in self._twins:
            from slidejoin.jit.registry import KERNELS  # noqa: PLC0415 - the plain ones have another

            with self._lock:
                self._module(kernel.__module__)
                plain = self._modules[REGISTRY].KERNELS
                twins = zip(_made_in(kernel.__module__, KERNELS), _made_in(kernel.__module__, plain), strict=True)
                self._twins |= {id(one): twin for one, twin in twins}
        return self._twins[id(kernel)]

    def _module(self, name: str) -> ModuleType:
        """Execute a module of kernels once more; whatever it imports of the package is plain too."""
        known = self._modules.get(name)
        if known is not None:
            return known
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            raise ImportError(f"{name} cannot be loaded again", name=name)
        module = module_from_spec(spec)
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": self._import}
        self._modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del self._modules[name]
            raise
        return module

    def _import(
        self,
        name: str,
        globals: Any = None,  # noqa: A002, ANN401 - as `__import__` has them
        locals: Any = None,  # noqa: A002, ANN401
        fromlist: Any = (),  # noqa: ANN401
        level: int = 0,
    ) -> Any:  # noqa: ANN401
        if name == "numba" and not fromlist:
            return _Numba("numba")
        if name in TWICE or has_kernels(name):
            return self._module(name)
        return builtins.__import__(name, globals, locals, fromlist, level)


class _Numba(ModuleType):
    """Numba where ``NUMBA_DISABLE_JIT`` is set, as far as kernels use it by that name."""

    @property
    def config(self) -> SimpleNamespace:
        """The settings, this one changed."""
        import numba  # noqa: PLC0415 - see above

        return SimpleNamespace(**vars(numba.config) | {"DISABLE_JIT": 1})

    @staticmethod
    def njit(*functions: Any, **_options: Any) -> Any:  # noqa: ANN401 - a decorator with and without options
        """Leave a function as it is."""
        return functions[0] if functions else lambda function: function

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it is
        import numba  # noqa: PLC0415 - see above

        return getattr(numba, name)


def _made_in(module: str, kernels: list[tuple[Any, float]]) -> list[Any]:
    return [kernel for kernel, _ in kernels if kernel.__module__ == module]


INTERPRETER = Interpreter()
"""Of this process."""

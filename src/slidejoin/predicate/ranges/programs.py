"""Comparisons of doubles as programs that compute the exact bounds of a probe's range, see `predicate.kernels.ends`.

Rounding keeps the order, so ``l.x + 0.1 <= r.x`` as written holds for all l.x up to some double, and that double is
computed by inverting one operation after the other. Every bound is brought into one form: ``sign * key``, after
increasing operations, is at most a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from math import isfinite
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from slidejoin.predicate.ranges import ranges
from slidejoin.predicate.truth import floats
from slidejoin.predicate.truth.evaluate import ColumnsBySide, evaluate
from slidejoin.predicate.truth.types import Kind
from slidejoin.predicate.truth.values import across, both_valid

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.predicate.truth.tree import Node
    from slidejoin.predicate.truth.values import Values
    from slidejoin.sides import Side

__all__ = ["Draft", "Input", "Program", "constant_of"]

FusedPath = Literal["below", "above", "down", "up"]
"""Which double replaces an integer that is not a double: the nearest on one side, or any on that side."""


class Input(NamedTuple):
    """An input of a program, a value of each probe."""

    node: Node
    way: FusedPath


@dataclass(frozen=True)
class Program:
    """Instructions that give a probe's range.

    Attributes
    ----------
    inputs
        Expressions over the probe's columns.
    steps
        (instruction, input, operand) triples.
    """

    inputs: tuple[Input, ...]
    steps: tuple[tuple[str, int, float], ...]

    def ranges(self, source: ColumnsBySide, n: int) -> ranges.Ranges:
        """Return one range of keys of doubles for each of n probes."""
        rows, valid, exact = self._rows(source, n)
        lo, hi = np.empty((1, n), np.int64), np.empty((1, n), np.int64)
        exact &= self.find(rows, lo[0], hi[0])
        if valid is not None:
            lo[0, ~valid], hi[0, ~valid] = 1, 0
        return ranges.Ranges(lo, hi, exact)

    def find(self, rows: NDArray[np.float64], lo: NDArray[np.int64], hi: NDArray[np.int64]) -> bool:
        """Write the ranges of probes whose inputs are `rows` (r, n); lo and hi (n,). Returns whether they are exact."""
        return _kernel()(rows, *self.assembled, lo, hi) == 0

    def has(self, step: str) -> bool:
        """Whether an instruction occurs."""
        return any(name == step for name, _, _ in self.steps)

    @cached_property
    def assembled(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The instructions as the kernel takes them, (c, 2) int64 and (c,) float64."""
        from slidejoin.predicate.kernels import ends  # noqa: PLC0415 - loads Numba, which planning does not need

        code = [(getattr(ends, name), row) for name, row, _ in self.steps]
        return np.array(code, np.int64), np.array([operand for *_, operand in self.steps], np.float64)

    def _rows(self, source: ColumnsBySide, n: int) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None, bool]:
        """Return the inputs (r, n), where they are valid, and whether all of them are doubles."""
        if len(self.inputs) == 1:
            values, exact = _doubles(self.inputs[0], source)
            if values.data.shape == (n,):
                return np.ascontiguousarray(values.data).reshape(1, n), values.valid, exact
        rows, valid, every = np.empty((len(self.inputs), n)), None, True
        for row, one in zip(rows, self.inputs, strict=True):
            values, exact = _doubles(one, source)
            row[:] = values.data
            every = every and exact
            valid = both_valid(valid, values.valid)
        return rows, None if valid is None else across(valid, (n,)), every


@cache
def _kernel() -> Callable[..., int]:
    from slidejoin.predicate.kernels.ends import find_ends  # noqa: PLC0415 - see above

    return find_ends


def _doubles(one: Input, source: ColumnsBySide) -> tuple[Values, bool]:
    """Return the values of an input as doubles, and whether they are exact."""
    values = evaluate(one.node, source)
    if not one.node.type.exact:
        return values, True
    if one.way in {"below", "above"}:
        below, above = ranges.double_keys_around(values, integers=True)
        return type(values)(floats.from_keys(below if one.way == "below" else above), values.valid), True
    nearest = floats.to_float(values)
    low, high = values.limits()
    if low >= -floats.SAFE and high <= floats.SAFE:
        return type(values)(nearest, values.valid), True
    # Also beyond the largest double, where the nearest one is an infinity and the next one inwards is not.
    moved = np.nextafter(nearest, -np.inf if one.way == "down" else np.inf)
    return type(values)(moved, values.valid), False


def constant_of(node: Node) -> float | None:
    """Return the finite double that a constant is; None if it is none."""
    value = node.value
    if node.op != "literal" or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if node.type.kind is Kind.INT:
        return float(value) if abs(value) <= floats.SAFE else None
    return float(value) if node.type.kind is Kind.FLOAT and isfinite(value) else None


@dataclass
class Draft:
    """A program under construction, for probes of a stored side whose key is the double `core`."""

    stored: Side
    core: Node
    _inputs: dict[Input, int] = field(default_factory=dict)
    _steps: list[tuple[str, int, float]] = field(default_factory=list)

    def add(self, op: str, inside: Node, outside: Node) -> None:
        """Let ranges hold the keys with ``inside op outside``, of which `inside` has the core; op is not ``<>``."""
        if op in {"=", "<", "<="}:
            self._end(1, inside, outside, strict=op == "<")
        if op in {"=", ">", ">="}:
            self._end(-1, inside, outside, strict=op == ">")

    def program(self) -> Program:
        """Return what was added."""
        return Program(tuple(self._inputs), tuple(self._steps))

    def _end(self, sign: int, inside: Node, outside: Node, *, strict: bool) -> None:
        """Add ``sign * inside <= sign * outside``."""
        self._value(outside, "below" if (sign > 0) != strict else "above")
        if sign < 0:
            self._do("NEGATE")
        if strict:
            self._do("BEFORE")
        while inside != self.core:
            sign, inside = self._undo(sign, inside)
        self._do("TOP" if sign > 0 else "BOTTOM")

    def _undo(self, sign: int, node: Node) -> tuple[int, Node]:
        """Go from a node to its operand that has the core."""
        first = self.stored in node.args[0].sides
        inner = node.args[0 if first else 1]
        if node.op == "negate":
            return -sign, inner
        operand = node.args[1 if first else 0]
        constant = constant_of(operand)
        if node.op in {"*", "/"}:
            assert constant is not None  # noqa: S101 - else the node would be the core
            self._do("UNTIMES" if node.op == "*" else "UNOVER", abs(constant))
            return sign if constant > 0 else -sign, inner
        by = -sign if node.op == "-" and first else sign
        if constant is not None:
            self._do("UNPLUS", by * constant)
        else:
            # Rounded so that the range becomes larger, not smaller.
            self._do("UNPLUS_INPUT", by, self._input(operand, "down" if by > 0 else "up"))
        return -sign if node.op == "-" and not first else sign, inner

    def _value(self, node: Node, way: FusedPath) -> None:
        """Let the bound be the value of an expression over the probe."""
        constant = constant_of(node)
        if constant is not None:
            self._do("CONSTANT", constant)
            return
        if node.type.kind is Kind.FLOAT and node.op == "negate":
            self._value(node.args[0], way)
            self._do("NEGATE")
            return
        if node.type.kind is Kind.FLOAT and node.op in {"+", "-", "*", "/"}:
            one, two = node.args
            before, after = constant_of(one), constant_of(two)
            if after is not None and one.type.kind is Kind.FLOAT:
                self._value(one, way)
                name = {"+": "PLUS", "-": "PLUS", "*": "TIMES", "/": "OVER"}[node.op]
                self._do(name, -after if node.op == "-" else after)
                return
            if before is not None and two.type.kind is Kind.FLOAT and node.op != "/":
                self._value(two, way)
                if node.op == "-":
                    self._do("NEGATE")
                self._do("TIMES" if node.op == "*" else "PLUS", before)
                return
        self._do("INPUT", 0.0, self._input(node, way))

    def _input(self, node: Node, way: FusedPath) -> int:
        # Doubles are unchanged, however integers are rounded.
        return self._inputs.setdefault(Input(node, way if node.type.exact else "below"), len(self._inputs))

    def _do(self, name: str, operand: float = 0.0, row: int = 0) -> None:
        self._steps.append((name, row, operand))

"""Conditions on pairs of rows as programs of `predicate.kernels.instructions`: on numbers, times, booleans and texts.

Whatever has no instruction (casts, functions, lists, decimals) is evaluated by `truth.evaluate`, on the pairs that pass
the rest.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.predicate.truth.floats import SAFE
from slidejoin.predicate.truth.tree import COMPARATORS, Node, column_of
from slidejoin.predicate.truth.types import BYTES, SECONDS_A_DAY, Kind
from slidejoin.predicate.truth.values import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from slidejoin.sides import Side

__all__ = ["PairProgram", "pair_program", "split"]

MOST_REGISTERS = 48
"""Of 128 values each, which together fit into the first cache or nearly so."""

LARGEST_POWER = 18
"""Powers of ten up to this one are an int64."""

LARGEST_EXACT_POWER = 22
"""Powers of ten up to this one are a double."""


class NoProgramError(Exception):
    """A node has no instruction."""


@dataclass(frozen=True)
class PairProgram:
    """A condition as a program.

    Attributes
    ----------
    code : (i, 4) int64
        Instructions.
    constants : (k, 3) int64
        Register, value, whether it is known.
    columns : tuple of (side, name)
        In the order of their registers, which are the first.
    texts : tuple of (int, bytes)
        Constant texts, and their registers.
    registers : int
        How many there are.
    """

    code: NDArray[np.int64]
    constants: NDArray[np.int64]
    texts: tuple[tuple[int, bytes], ...]
    columns: tuple[tuple[Side, str], ...]
    registers: int


def split(node: Node) -> tuple[PairProgram | None, tuple[Node, ...]]:
    """Return a program for those parts of a condition, all of which are to hold, that have one, and the other parts."""
    parts = node.args if node.op == "and" else (node,)
    able = [pair_program((part,)) is not None for part in parts]
    program = pair_program(tuple(part for part, can in zip(parts, able, strict=True) if can))
    if program is None:
        return None, parts
    return program, tuple(part for part, can in zip(parts, able, strict=True) if not can)


def pair_program(parts: tuple[Node, ...]) -> PairProgram | None:
    """Return a program for the condition that all these hold; None if there is none."""
    if not parts:
        return None
    from slidejoin.predicate.kernels import instructions  # noqa: PLC0415 - loads Numba, which planning does not need

    draft = _Draft(instructions)
    try:
        return draft.program(parts)
    except NoProgramError:
        return None


@dataclass
class _Draft:
    """A program under construction; registers are named by numbers, those of constants by negative ones at first."""

    ops: ModuleType
    columns: dict[tuple[Side, str], int] = field(default_factory=dict)
    constants: dict[tuple[int, bool] | bytes, int] = field(default_factory=dict)
    code: list[tuple[int, int, int, int]] = field(default_factory=list)

    def program(self, parts: tuple[Node, ...]) -> PairProgram:
        """Return the program of a conjunction.

        Raises
        ------
        NoProgramError
        """
        for part in parts:
            self._collect(part)
        self._free = list(range(MOST_REGISTERS - 1, len(self.columns) - 1, -1))
        self._held = frozenset(self.columns.values())
        result = self._truth(parts[0])
        for part in parts[1:]:
            result = self._do(self.ops.AND, result, self._truth(part))
        if not self.code:
            result = self._do(self.ops.OR, result, result)
        used = max((max(step[1:]) for step in self.code), default=0)
        numbers = {constant: used + 1 + place for place, constant in enumerate(self.constants.values())}
        steps = [tuple(numbers.get(word, word) if word < 0 else word for word in step) for step in self.code]
        constants = [(numbers[at], *one) for one, at in self.constants.items() if isinstance(one, tuple)]
        texts = [(numbers[at], one) for one, at in self.constants.items() if isinstance(one, bytes)]
        registers = used + 1 + len(self.constants)
        if registers > MOST_REGISTERS:
            raise NoProgramError
        return PairProgram(
            np.array(steps, np.int64).reshape(-1, self.ops.INSTRUCTION),
            np.array(constants, np.int64).reshape(-1, self.ops.CONSTANT),
            tuple(texts),
            tuple(self.columns),
            registers,
        )

    def _collect(self, node: Node) -> None:
        if node.op == "column":
            self.columns.setdefault(column_of(node), len(self.columns))
        for arg in node.args:
            self._collect(arg)

    # -- registers -------------------------------------------------------------------------------------------------

    def _do(self, op: int, one: int, two: int | None = None) -> int:
        """Add an instruction, and return the register of its result; those of its operands may be used again.

        The result has a register of its own: loops whose arrays may overlap do not become vector instructions.
        """
        two = one if two is None else two
        if not self._free:
            raise NoProgramError
        target = self._free.pop()
        self.code.append((op, target, one, two))
        self._free += [register for register in {one, two} if register >= 0 and register not in self._held]
        return target

    def _constant(self, value: float, *, known: bool = True) -> int:
        bits = value if isinstance(value, int) else struct.unpack("<q", struct.pack("<d", value))[0]
        if not INT64_MIN <= bits <= INT64_MAX:
            raise NoProgramError
        return self.constants.setdefault((bits, known), -1 - len(self.constants))

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _truth(self, node: Node) -> int:
        if node.type.kind is not Kind.BOOL:
            raise NoProgramError
        return self._value(node)

    def _value(self, node: Node) -> int:  # noqa: C901, PLR0911, PLR0912 - one line for each kind of node
        """Return the register of a node's value: unscaled integers, or the bits of doubles."""
        ops, kind = self.ops, node.type.kind
        if kind in BYTES:
            return self._text(node)
        if not (node.type.exact or kind is Kind.FLOAT):
            raise NoProgramError
        if node.op == "column":
            return self._column(node)
        if node.op == "literal":
            return self._literal(node)
        if node.op in COMPARATORS or node.op == "same":
            return self._compare(node)
        if node.op in {"and", "or"}:
            registers = [self._truth(arg) for arg in node.args]
            result = registers[0]
            for other in registers[1:]:
                result = self._do(ops.AND if node.op == "and" else ops.OR, result, other)
            return result
        if node.op == "not":
            return self._do(ops.NOT, self._truth(node.args[0]))
        if node.op == "isnull":
            return self._do(ops.IS_NULL, self._value(node.args[0]))
        if node.op == "double":
            return self._double(node.args[0])
        if node.op == "rescale":
            return self._rescaled(node.args[0], node.type.scale)
        if node.op in {"negate", "abs"}:
            op = ops.NEGATE if node.op == "negate" else ops.ABS
            return self._do(op + (ops.OF_DOUBLES if kind is Kind.FLOAT else 0), self._value(node.args[0]))
        if node.op in {"+", "-", "*", "/", "//", "%"}:
            return self._arithmetic(node)
        raise NoProgramError

    def _column(self, node: Node) -> int:
        register = self.columns[column_of(node)]
        if node.type.kind is Kind.DATE:  # of days; those of milliseconds are not loaded
            return self._do(self.ops.MULTIPLY, register, self._constant(SECONDS_A_DAY))
        return register

    def _text(self, node: Node) -> int:
        """Return the register of the address of a text."""
        if node.op == "column":
            return self.columns[column_of(node)]
        if node.op == "literal" and isinstance(node.value, bytes):
            return self.constants.setdefault(node.value, -1 - len(self.constants))
        raise NoProgramError

    def _literal(self, node: Node) -> int:
        value = node.value
        if value is None:
            return self._constant(0, known=False)
        if node.type.kind is Kind.FLOAT:
            return self._constant(float(value))  # type: ignore[arg-type]  # of doubles
        if not isinstance(value, int):
            raise NoProgramError
        return self._constant(int(value))

    def _rescaled(self, node: Node, scale: int) -> int:
        """Return an exact value as an unscaled integer with so many digits."""
        digits = scale - node.type.scale
        if digits == 0:
            return self._value(node)
        if not 0 < digits <= LARGEST_POWER:
            raise NoProgramError
        return self._do(self.ops.MULTIPLY, self._value(node), self._constant(10**digits))

    def _double(self, node: Node) -> int:
        """Return the nearest double of a value."""
        ops, register = self.ops, self._value(node)
        if node.type.kind is Kind.FLOAT:
            return register
        if node.type.scale == 0:
            return self._do(ops.NEAREST, register)
        if node.type.scale > LARGEST_EXACT_POWER:
            raise NoProgramError
        return self._do(ops.DIVIDE_DOUBLES, self._do(ops.EXACT, register), self._constant(float(10**node.type.scale)))

    def _exactly(self, node: Node) -> int:
        """Return a value as the double that it is, or give up."""
        if node.type.kind is Kind.FLOAT:
            return self._value(node)
        if node.type.scale:
            raise NoProgramError
        if node.op == "literal" and isinstance(node.value, int) and abs(node.value) <= SAFE:
            return self._constant(float(node.value))
        return self._do(self.ops.EXACT, self._value(node))

    def _compare(self, node: Node) -> int:
        ops, (one, two) = self.ops, node.args
        if one.type.kind in BYTES:
            if node.op == "same":
                raise NoProgramError
            first, second, of = self._value(one), self._value(two), ops.OF_TEXTS
        elif Kind.FLOAT in {one.type.kind, two.type.kind}:
            first, second, of = self._exactly(one), self._exactly(two), ops.OF_DOUBLES
        else:
            scale = max(one.type.scale, two.type.scale)
            first, second, of = self._rescaled(one, scale), self._rescaled(two, scale), 0
        if node.op == "same":
            return self._do(ops.SAME + of, first, second)
        if node.op == "<>":
            return self._do(ops.NOT, self._do(ops.EQUAL + of, first, second))
        if node.op in {">", ">="}:
            first, second = second, first
        op = {"=": ops.EQUAL, "<": ops.LESS, ">": ops.LESS, "<=": ops.UP_TO, ">=": ops.UP_TO}[node.op]
        return self._do(op + of, first, second)

    def _arithmetic(self, node: Node) -> int:
        ops, (one, two), op = self.ops, node.args, node.op
        if node.type.kind is not Kind.FLOAT:
            names = {"+": ops.ADD, "-": ops.SUBTRACT, "*": ops.MULTIPLY, "//": ops.QUOTIENT, "%": ops.REMAINDER}
            if op in {"*", "//"}:
                return self._do(names[op], self._value(one), self._value(two))
            scale = node.type.scale
            return self._do(names[op], self._rescaled(one, scale), self._rescaled(two, scale))
        if op == "%":
            return self._do(ops.OF_DOUBLES + ops.REMAINDER, self._double(one), self._double(two))
        first, second = self._exactly(one), self._exactly(two)
        names = {"+": ops.ADD, "-": ops.SUBTRACT, "*": ops.MULTIPLY, "/": ops.QUOTIENT}
        result = self._do(ops.OF_DOUBLES + names[op], first, second)
        both = one.type.exact and two.type.exact
        return self._do(ops.UNSIGN, result) if both else result

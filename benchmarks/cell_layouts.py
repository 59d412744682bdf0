"""Measure other layouts of cells than that of `index.cells.kernels.table`, see docs/engineering/performance.md.

Three questions, each answered by small kernels of one form that run in turns on one thread, uniform keys, bands as wide
as a cell. What no question is about is left out: a row that finds 16 lines full is dropped, and there is no pool.

1. Half buckets: 32 bytes with three rows, against whole cache lines with seven, in as much memory.
2. One pass: each row asks the other side and is stored, against one side after the other; and with both sides' buckets
   of a cell beside each other in memory.
3. Hot cells kept sorted: cells of many rows, each found by halving, against rows as they come.

Prints nanoseconds a row (medians); results are in benchmarks/notes/2026-11-cells.md.
"""

# ruff: noqa: ANN401 - Numba's and LLVM's values are untyped
# mypy: disable-error-code="untyped-decorator,no-any-return,return-value,misc"

from __future__ import annotations

import sys
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

U32, U64, GOLDEN, AHEAD, LINES = np.uint32, np.uint64, np.uint64(0x9E3779B97F4A7C15), 24, 16
WORD, WIDE = ir.IntType(32), ir.IntType(64)
RUNS, PUSH, WIDTH = 9, 1 << 14, 10


def _lanes(builder: Any, address: Any, lanes: int) -> Any:
    return builder.load(builder.inttoptr(address, ir.VectorType(WORD, lanes).as_pointer()), align=4)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    undefined = ir.Constant(ir.VectorType(WORD, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, WORD(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(WORD, lanes), [0] * lanes))


def primitives(lanes: int) -> tuple[Any, Any, Any]:
    """Return, for buckets of so many lanes of keys and as many of positions: which are free, which match, and put."""

    @intrinsic
    def free(_typing: Any, place: Any, floor: Any) -> Any:  # noqa: ARG001 - Numba looks at the names
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            at = builder.add(args[0], WIDE(4 * lanes))
            age = builder.sub(_lanes(builder, at, lanes), _splat(builder, args[1], lanes))
            dead = builder.icmp_signed("<", age, ir.Constant(ir.VectorType(WORD, lanes), [0] * lanes))
            return builder.zext(builder.bitcast(dead, ir.IntType(lanes)), WIDE)

        return types.int64(types.int64, types.uint32), generate

    @intrinsic
    def matching(_typing: Any, place: Any, low: Any, span: Any, first: Any, seen: Any) -> Any:  # noqa: ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            place, low, span, first, seen = args
            keys, ages = (_lanes(builder, builder.add(place, WIDE(4 * lanes * half)), lanes) for half in range(2))
            near = builder.sub(keys, _splat(builder, low, lanes))
            near = builder.icmp_unsigned("<=", near, _splat(builder, span, lanes))
            age = builder.sub(ages, _splat(builder, first, lanes))
            both = builder.and_(near, builder.icmp_unsigned("<", age, _splat(builder, seen, lanes)))
            return builder.zext(builder.bitcast(both, ir.IntType(lanes)), WIDE)

        return types.int64(types.int64, *[types.uint32] * 4), generate

    @intrinsic
    def put(_typing: Any, place: Any, mask: Any, to: Any) -> Any:  # noqa: ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            place, mask, to = args
            kind, chosen = ir.VectorType(WORD, lanes), ir.VectorType(ir.IntType(1), lanes)
            name = f"llvm.experimental.vector.compress.v{lanes}i32"
            known = builder.module.globals.get(name)
            compress = known or ir.Function(builder.module, ir.FunctionType(kind, [kind, chosen, kind]), name)
            found = _lanes(builder, builder.add(place, WIDE(4 * lanes)), lanes)
            bits = builder.bitcast(builder.trunc(mask, ir.IntType(lanes)), chosen)
            kept = builder.call(compress, [found, bits, ir.Constant(kind, ir.Undefined)])
            builder.store(kept, builder.inttoptr(to, kind.as_pointer()), align=4)
            return builder.ctpop(mask)

        return types.int64(types.int64, types.int64, types.int64), generate

    return free, matching, put


@intrinsic
def trailing(_typing: Any, mask: Any) -> Any:  # noqa: ARG001
    """Return the number of the first lane of a mask."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(0))

    return types.int64(types.int64), generate


@intrinsic
def ask(_typing: Any, address: Any) -> Any:  # noqa: ARG001
    """Ask for the cache line of an address."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind, name = ir.FunctionType(ir.VoidType(), [byte, WORD, WORD, WORD]), "llvm.prefetch.p0"
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        builder.call(function, [builder.inttoptr(args[0], byte), WORD(0), WORD(3), WORD(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def word_at(_typing: Any, address: Any) -> Any:  # noqa: ARG001
    """Read 32 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], WORD.as_pointer()), align=4)

    return types.uint32(types.int64), generate


@intrinsic
def put_word(_typing: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    """Write 32 bits."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], WORD.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint32), generate


@njit(inline="always")
def bucket(cell: Any, buckets: Any) -> Any:
    """Return where a cell's rows are."""
    return np.int64((((U64(cell) * GOLDEN) >> U64(32)) * U64(buckets)) >> U64(32))


def kernels(lanes: int) -> tuple[Any, Any, Any]:  # noqa: C901, PLR0915 - a table, seen whole
    """Return what inserts rows, what asks for ranges, and what does both row by row, for buckets of so many lanes.

    A table is an address and a stride in bytes. A bucket's last lane of keys says how many buckets behind it have rows
    of it, and its last lane of positions the newest of these, with which that ends.
    """
    free, matching, put = primitives(lanes)
    slots, everything = lanes - 1, (1 << (lanes - 1)) - 1

    @njit(inline="always")
    def behind(head: Any, floor: Any) -> Any:
        lives = U32(word_at(head + 4 * (lanes + slots)) - floor) < U32(1 << 31)
        return np.int64(word_at(head + 4 * slots)) if lives else np.int64(0)

    @njit(inline="always")
    def store(table: Any, stride: Any, buckets: Any, key: Any, position: Any, floor: Any) -> Any:
        head = table + bucket(key >> WIDTH, buckets) * stride
        room, at = free(head, floor) & everything, np.int64(0)
        while room == 0 and at + 1 < LINES:
            at += 1
            room = free(head + at * stride, floor) & everything
        if room != 0:
            to = head + at * stride + 4 * trailing(room)
            put_word(to, U32(key))
            put_word(to + 4 * lanes, U32(position))
            if at > 0:
                put_word(head + 4 * slots, U32(max(at, behind(head, floor))))
                put_word(head + 4 * (lanes + slots), U32(position))
        return at

    @njit(inline="always")
    def look(table: Any, stride: Any, head: Any, low: Any, span: Any, first: Any, seen: Any, to: Any) -> Any:
        place = table + head * stride
        for line in range(behind(place, first) + 1):
            mask = matching(place + line * stride, low, span, first, seen) & everything
            to += 4 * put(place + line * stride, mask, to)
        return to

    @njit(inline="always")
    def find(table: Any, stride: Any, buckets: Any, key: Any, first: Any, seen: Any, to: Any) -> Any:
        low, high = key - (1 << (WIDTH - 1)), key + (1 << (WIDTH - 1)) - 1
        one, two = low >> WIDTH, high >> WIDTH
        border = two << WIDTH
        if one == two:
            return look(table, stride, bucket(one, buckets), U32(low), U32(high - low), first, seen, to)
        to = look(table, stride, bucket(one, buckets), U32(low), U32(border - 1 - low), first, seen, to)
        return look(table, stride, bucket(two, buckets), U32(border), U32(high - border), first, seen, to)

    @njit(inline="always")
    def ask_two(table: Any, stride: Any, buckets: Any, key: Any) -> None:
        ask(table + bucket((key - (1 << (WIDTH - 1))) >> WIDTH, buckets) * stride)
        ask(table + bucket((key + (1 << (WIDTH - 1)) - 1) >> WIDTH, buckets) * stride)

    @njit(nogil=True)
    def insert(table: int, stride: int, buckets: int, keys: Any, position: int, floor: int) -> int:
        beyond = np.int64(0)
        for i in range(keys.size):
            ask(table + bucket(keys[min(i + AHEAD, keys.size - 1)] >> WIDTH, buckets) * stride)
            beyond += store(table, stride, buckets, keys[i], position + i, U32(floor)) > 0
        return beyond

    @njit(nogil=True)
    def probe(table: int, stride: int, buckets: int, keys: Any, first: int, seen: int, found: Any) -> int:
        to = start = np.int64(found.ctypes.data)
        for i in range(keys.size):
            ask_two(table, stride, buckets, keys[min(i + AHEAD, keys.size - 1)])
            to = find(table, stride, buckets, keys[i], U32(first), U32(seen), to)
        return (to - start) >> 2

    @njit(nogil=True)
    def both(
        left: int, right: int, stride: int, buckets: int, mine: Any, theirs: Any, position: int, floor: int, found: Any
    ) -> int:
        to = start = np.int64(found.ctypes.data)
        seen, last = U32(1 << 30), mine.size - 1
        for i in range(mine.size):
            soon = min(i + AHEAD, last)
            ask(left + bucket(mine[soon] >> WIDTH, buckets) * stride)
            ask(right + bucket(theirs[soon] >> WIDTH, buckets) * stride)
            ask_two(right, stride, buckets, mine[soon])
            ask_two(left, stride, buckets, theirs[soon])
            to = find(right, stride, buckets, mine[i], U32(floor), seen, to)
            store(left, stride, buckets, mine[i], position + i, U32(floor))
            to = find(left, stride, buckets, theirs[i], U32(floor), seen, to)
            store(right, stride, buckets, theirs[i], position + i, U32(floor))
        return (to - start) >> 2

    return insert, probe, both


class Tables:
    """Both sides' tables of so many buckets and lanes; `beside`: each cell's two buckets beside each other."""

    def __init__(self, lanes: int, buckets: int, window: int, *, beside: bool = False) -> None:
        own = 8 * lanes
        self.lanes, self.buckets, self.window, self.stride = lanes, buckets, window, own * (2 if beside else 1)
        room = np.zeros(2 * (buckets + LINES) * own + 64, np.uint8)
        self._room, at = room, room.ctypes.data + -room.ctypes.data % 64
        self.tables = (at, at + (own if beside else (buckets + LINES) * own))
        self.next, self.beyond, self.found = 1, 0, np.empty(64 * PUSH, U32)
        room[: room.size // 4 * 4].view(U32)[:] = 0
        self.insert, self.probe, self.both = kernels(lanes)

    @property
    def floor(self) -> int:
        """The first position that lives."""
        return max(1, self.next - self.window)

    def by_sides(self, left: Any, right: Any) -> tuple[float, float, int]:
        """Insert both, then ask with both; return the seconds of each, and how many match."""
        start, floor, pairs = perf_counter(), self.floor, 0
        for table, keys in zip(self.tables, (left, right), strict=True):
            self.beyond += self.insert(table, self.stride, self.buckets, keys, self.next, floor)
        middle = perf_counter()
        for table, keys in zip(self.tables[::-1], (left, right), strict=True):
            pairs += self.probe(table, self.stride, self.buckets, keys, floor, self.next - floor, self.found)
        self.next += left.size
        return middle - start, perf_counter() - middle, pairs

    def in_one(self, left: Any, right: Any) -> tuple[float, float, int]:
        """Do both row by row."""
        start, floor = perf_counter(), self.floor
        pairs = self.both(*self.tables, self.stride, self.buckets, left, right, self.next, floor, self.found)
        self.next += left.size
        return perf_counter() - start, 0.0, pairs


def compare(window: int, forms: dict[str, tuple[Tables, Callable[..., tuple[float, float, int]]]]) -> None:
    """Push the same rows into all, in turns, and print what each takes once windows are full."""
    rng = np.random.default_rng(1)
    spent: dict[str, tuple[list[float], ...]] = {name: ([], [], []) for name in forms}
    pushes = window // PUSH
    for push in range(2 * pushes + 16 * RUNS):
        # Two rows of a window in each cell.
        left, right = (rng.integers(0, window << (WIDTH - 1), PUSH) for _ in range(2))
        for name, (_, step) in forms.items():
            took = step(left, right)
            if push >= 2 * pushes:
                for into, value in zip(spent[name], took, strict=True):
                    into.append(value)
    for name, (insert, probe, pairs) in spent.items():
        stored, asked = (median(part) / (2 * PUSH) * 1e9 for part in (insert, probe))
        tables = forms[name][0]
        full = tables.beyond / (2 * (tables.next - 1))
        sys.stdout.write(
            f"  {name:<44} {stored:6.1f} + {asked:5.1f} = {stored + asked:5.1f} ns a row, "
            f"{sum(pairs) / len(pairs) / PUSH:.2f} pairs, {full:.1%} found their bucket full\n"
        )


# -- hot cells ---------------------------------------------------------------------------------------------------------


@njit(nogil=True)
def keep_sorted(cells: Any, which: Any, keys: Any, position: int) -> None:
    """Put rows into cells, (cells, 2, m) uint32, in which keys ascend, each in the place of the cell's oldest."""
    m = cells.shape[2]
    for i in range(which.size):
        cell, key, oldest = cells[which[i]], U32(keys[i]), 0
        # The smallest position goes.
        for j in range(m):
            oldest = j if cell[1, j] < cell[1, oldest] else oldest
        place = np.searchsorted(cell[0], key)
        if place > oldest:
            place -= 1
            for j in range(oldest, place):
                cell[0, j], cell[1, j] = cell[0, j + 1], cell[1, j + 1]
        else:
            for j in range(oldest, place, -1):
                cell[0, j], cell[1, j] = cell[0, j - 1], cell[1, j - 1]
        cell[0, place], cell[1, place] = key, U32(position + i)


@njit(nogil=True)
def keep_as_they_come(cells: Any, heads: Any, which: Any, keys: Any, position: int) -> None:
    """Put rows into cells, each in the place of the oldest, whose number is in `heads`."""
    m = cells.shape[2]
    for i in range(which.size):
        cell, head = cells[which[i]], heads[which[i]]
        cell[0, head], cell[1, head] = U32(keys[i]), U32(position + i)
        heads[which[i]] = head + 1 if head + 1 < m else 0


def askers() -> tuple[Any, Any]:
    """Return what asks cells that are sorted, and what asks others: half a cell each, those that are seen."""
    _, _, put = primitives(8)

    @njit(inline="always")
    def take(keys: Any, positions: Any, lanes: Any, low: Any, span: Any, first: Any, to: Any) -> Any:
        mask = matching_apart(keys, positions, low, span, first) & ((1 << min(lanes, 8)) - 1)
        # It takes a line of eight keys with its eight positions behind it.
        return to + 4 * put(positions - 32, mask, to)

    @intrinsic
    def matching_apart(_typing: Any, keys: Any, positions: Any, low: Any, span: Any, first: Any) -> Any:  # noqa: ARG001
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            keys, ages = (_lanes(builder, at, 8) for at in args[:2])
            near = builder.sub(keys, _splat(builder, args[2], 8))
            near = builder.icmp_unsigned("<=", near, _splat(builder, args[3], 8))
            both = builder.and_(near, builder.icmp_unsigned(">=", ages, _splat(builder, args[4], 8)))
            return builder.zext(builder.bitcast(both, ir.IntType(8)), WIDE)

        return types.int64(types.int64, types.int64, *[types.uint32] * 3), generate

    @njit(nogil=True)
    def ask_sorted(cells: Any, which: Any, low: Any, span: int, first: int, found: Any) -> int:
        m, total = cells.shape[2], np.int64(0)
        base, start = np.int64(cells.ctypes.data), np.int64(found.ctypes.data)
        for i in range(which.size):
            cell, to = cells[which[i]], start
            at, last = np.searchsorted(cell[0], U32(low[i])), np.searchsorted(cell[0], U32(low[i] + span), side="right")
            keys = base + np.int64(which[i]) * 8 * m
            for j in range(at, last, 8):
                to = take(keys + 4 * j, keys + 4 * (m + j), last - j, U32(low[i]), U32(span), U32(first), to)
            total += (to - start) >> 2
        return total

    @njit(nogil=True)
    def ask_all(cells: Any, which: Any, low: Any, span: int, first: int, found: Any) -> int:
        m, total = cells.shape[2], np.int64(0)
        base, start = np.int64(cells.ctypes.data), np.int64(found.ctypes.data)
        for i in range(which.size):
            keys, to = base + np.int64(which[i]) * 8 * m, start
            for j in range(0, m, 8):
                to = take(keys + 4 * j, keys + 4 * (m + j), m - j, U32(low[i]), U32(span), U32(first), to)
            total += (to - start) >> 2
        return total

    return ask_sorted, ask_all


def compare_hot_cells(rows: int) -> None:
    """Print what cells of 16 to 1,024 rows take, kept sorted and not."""
    ask_sorted, ask_all = askers()
    rng, span = np.random.default_rng(2), 1 << WIDTH
    for m in (16, 64, 256, 1024):
        count = rows // m
        held = np.zeros((count, 2, m + 8), U32)[:, :, :m].copy()
        held[:, 1] = 1 + np.arange(rows).reshape(count, m)
        held[:, 0] = rng.integers(0, span, (count, m))
        ordered = held.copy()
        order = np.argsort(held[:, 0], axis=1)
        for half in range(2):
            ordered[:, half] = np.take_along_axis(held[:, half], order, axis=1)
        heads, found, position = np.zeros(count, np.int64), np.empty(2 * m + 64, U32), rows + 1
        spent: list[list[float]] = [[], [], [], []]
        for run in range(RUNS + 1):
            which, keys = rng.integers(0, count, PUSH), rng.integers(0, span, PUSH)
            low = rng.integers(0, span // 2, PUSH)
            times = [perf_counter()]
            keep_sorted(ordered, which, keys, position)
            times.append(perf_counter())
            one = ask_sorted(ordered, which, low, span // 2, 1, found)
            times.append(perf_counter())
            keep_as_they_come(held, heads, which, keys, position)
            times.append(perf_counter())
            other = ask_all(held, which, low, span // 2, 1, found)
            times.append(perf_counter())
            if one != other:
                msg = f"cells of {m} rows: {one} rows found in sorted ones, {other} in others"
                raise AssertionError(msg)
            if run:
                for into, took in zip(spent, np.diff(times), strict=True):
                    into.append(took / PUSH * 1e9)
            position += PUSH
        ns = [median(part) for part in spent]
        sys.stdout.write(
            f"  {m:>5} rows a cell: sorted {ns[0]:7.1f} + {ns[1]:6.1f}, "
            f"as they come {ns[2]:6.1f} + {ns[3]:6.1f} ns a row\n"
        )


def main() -> int:
    """Print the answers to the three questions."""
    for power in (17, 20, 22):
        window = 1 << power
        sys.stdout.write(f"windows of 2^{power} rows, inserting + asking:\n")
        forms: dict[str, Tables] = {
            "whole lines, 32 bytes a row": Tables(8, window // 2, window),
            "half buckets, 32 bytes a row": Tables(4, window, window),
            "whole lines, 16 bytes a row": Tables(8, window // 4, window),
            "half buckets, 16 bytes a row": Tables(4, window // 2, window),
        }
        passes = {
            "whole lines, one pass over the rows": Tables(8, window // 2, window),
            "the same, both sides' buckets side by side": Tables(8, window // 2, window, beside=True),
        }
        compare(
            window,
            {name: (each, each.by_sides) for name, each in forms.items()}
            | {name: (each, each.in_one) for name, each in passes.items()},
        )
    sys.stdout.write("hot cells, inserting + asking for half of a cell, 2^20 rows:\n")
    compare_hot_cells(1 << 20)
    return 0


if __name__ == "__main__":
    sys.exit(main())

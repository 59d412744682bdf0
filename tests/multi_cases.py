"""Random joins of many streams: predicates, windows, rows, and cuts into pushes, from tiny domains that force ties."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import slidejoin as sj
from tests.multi_oracle import Last, MultiOracle, Within
from tests.render import literal_sql

Node = tuple[Any, ...]
NAMES = ("a", "b", "c", "d")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int64()),
        ("x", pa.int32()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("ts", pa.int64()),
    ]
)


KINDS = ("equal", "band", "less", "string", "float", "differ", "same", "shift", "or")
"""Conditions between two streams."""

OF_INTEGERS = ("equal", "equal", "band", "band", "shift")
"""Those of one range of integers, mostly a narrow one."""


def col(stream: str, name: str) -> Node:
    """A column of a stream, in the oracle's form."""
    return "col", "left", f"{stream}.{name}"


def wide_text(node: Node) -> str:
    """A predicate over many streams as SQL text."""
    form, *parts = node
    if form == "col":
        return str(parts[1])
    if form == "lit":
        return literal_sql(parts[0])
    texts = [wide_text(part) for part in parts]
    if form in ("and", "or"):
        return "(" + f" {form.upper()} ".join(texts) + ")"
    if form == "between":
        return f"({texts[0]} BETWEEN {texts[1]} AND {texts[2]})"
    if form == "same":
        return f"({texts[0]} IS NOT DISTINCT FROM {texts[1]})"
    if form in ("not", "isnull", "abs"):
        return {"not": "(NOT {})", "isnull": "({} IS NULL)", "abs": "abs({})"}[form].format(*texts)
    return f"({texts[0]} {form} {texts[1]})"


@st.composite
def links(draw: st.DrawFn, one: str, two: str, kinds: tuple[str, ...] = KINDS) -> Node:
    """A condition between two streams."""
    kind = draw(st.sampled_from(kinds))
    width = ("lit", draw(st.integers(0, 2)))
    if kind == "equal":
        return "=", col(one, "k"), col(two, "k")
    if kind == "band":
        return "between", col(one, "x"), ("-", col(two, "x"), width), ("+", col(two, "x"), width)
    if kind == "less":
        return draw(st.sampled_from(["<", "<=", ">", ">="])), col(one, "x"), col(two, "k")
    if kind == "string":
        return draw(st.sampled_from(["=", "<"])), col(one, "s"), col(two, "s")
    if kind == "float":
        return draw(st.sampled_from(["=", "<="])), col(one, "f"), col(two, "f")
    if kind == "differ":
        return "<>", col(one, "k"), col(two, "k")
    if kind == "same":
        return "same", col(one, "k"), col(two, "k")
    if kind == "shift":
        return "<", ("+", col(one, "x"), col(two, "k")), ("lit", draw(st.integers(-1, 4)))
    return "or", ("=", col(one, "k"), col(two, "k")), ("<", col(one, "x"), col(two, "x"))


@st.composite
def predicates(draw: st.DrawFn, names: tuple[str, ...], kinds: tuple[str, ...] = KINDS) -> Node:
    """Links between some of the streams, filters, conditions of three, constants; some streams may have no link."""
    parts: list[Node] = []
    shape = draw(st.sampled_from(["chain", "star", "clique", "any", "any"]))
    chosen = {
        "chain": list(pairwise(names)),
        "star": [(names[0], name) for name in names[1:]],
        "clique": [(one, two) for at, one in enumerate(names) for two in names[at + 1 :]],
    }.get(shape)
    if chosen is None:
        pairs = [(one, two) for one in names for two in names if one != two]
        chosen = draw(st.lists(st.sampled_from(pairs), max_size=3))
    parts += [draw(links(one, two, kinds)) for one, two in chosen]
    extra = draw(st.sampled_from(["none", "none", "filter", "three", "or of three", "constant", "null"]))
    one, two, *rest = draw(st.permutations(names))
    three = rest[0] if rest else one
    if extra == "filter":
        parts.append((draw(st.sampled_from(["<", "="])), col(one, "k"), ("lit", draw(st.integers(0, 2)))))
    if extra == "three":
        parts.append(("<", ("+", col(one, "x"), col(two, "x")), col(three, "k")))
    if extra == "or of three":
        parts.append(("or", ("=", col(one, "x"), col(two, "x")), ("isnull", col(three, "k"))))
    if extra == "constant":
        parts.append(("<", ("lit", draw(st.integers(0, 1))), ("lit", 1)))
    if extra == "null":
        parts.append(("not", ("isnull", col(one, "k"))))
    if not parts:
        return "=", ("lit", 1), ("lit", 1)
    return parts[0] if len(parts) == 1 else ("and", *parts)


@dataclass
class MultiCase:
    """A join and its rows, cut into pushes.

    Attributes
    ----------
    pushes : list of dict from stream to table
    order_by : str or None
    """

    windows: dict[str, Any]
    predicate: Node
    pushes: list[dict[str, pa.Table]]
    order_by: str | None

    def join(self, **options: Any) -> sj.MultiJoin:
        """The join under test."""
        schemas = dict.fromkeys(self.windows, SCHEMA)
        return sj.MultiJoin(self.public_windows, on=wide_text(self.predicate), **({"schemas": schemas} | options))

    @property
    def public_windows(self) -> dict[str, Any]:
        """The windows as users write them."""
        return {
            name: sj.CountWindow(one.rows, slide=one.slide)
            if isinstance(one, Last)
            else sj.TimeWindow(one.length, on=one.on, lateness=one.lateness)
            for name, one in self.windows.items()
        }

    def oracle(self) -> MultiOracle:
        """The law."""
        return MultiOracle(self.windows, self.predicate)


@st.composite
def cases(
    draw: st.DrawFn, *, least: int = 2, most: int = 4, order_by: bool | None = None, plain: bool = False
) -> MultiCase:
    """A join of two to four streams; if `plain`, of integers without NULLs."""
    names = NAMES[: draw(st.integers(least, most))]
    windows: dict[str, Any]
    if draw(st.booleans()):
        sizes = st.integers(1, 6)
        windows = {}
        for name in names:
            rows = draw(sizes)
            windows[name] = Last(rows, draw(st.integers(1, min(rows, 3))) if draw(st.booleans()) else 1)
    else:
        windows = {name: Within(draw(st.integers(0, 5)), "ts", draw(st.integers(0, 3))) for name in names}
    value = st.integers(0, 3) if plain else st.one_of(st.none(), st.integers(0, 2))
    number, time = 0, 0
    pushes = []
    for _ in range(draw(st.integers(1, 5))):
        push = {}
        for name in names:
            own = []
            for _ in range(draw(st.integers(0, 7 - len(names)))):
                time += draw(st.integers(0, 2))
                late = draw(st.sampled_from([0, 0, 0, 1, 4]))
                at = None if draw(st.integers(0, 20)) == 20 else time - late
                own.append(
                    {
                        "id": number,
                        "k": draw(value),
                        "x": draw(value),
                        "f": draw(st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), float("inf")])),
                        "s": draw(st.sampled_from([None, "", "a", "ä", "a longer text than fits"])),
                        "ts": at,
                    }
                )
                number += 1
            push[name] = pa.Table.from_pylist(own, schema=SCHEMA)
        pushes.append(push)
    by = draw(st.sampled_from([None, "id", "k0"])) if order_by is None else ("id" if order_by else None)
    if by == "k0":
        # A column with ties and without NULLs.
        pushes = [
            {
                name: one.set_column(0, "id", pa.array([v % 3 for v in one.column("id").to_pylist()], pa.int64()))
                for name, one in push.items()
            }
            for push in pushes
        ]
        by = "id"
    return MultiCase(windows, draw(predicates(names, OF_INTEGERS if plain else KINDS)), pushes, by)

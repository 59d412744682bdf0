"""Names of columns: whatever Arrow takes is taken everywhere, or refused in one sentence that quotes the name."""

from __future__ import annotations

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.errors import SlideJoinError

NAMES = [
    *("Event Time", "event-time", "@timestamp", "größe", "when r", "l.x", "r.x", "l", "r", 'a"b', '"', "a`b", "a\nb"),
    *("\t", "", " ", " padded ", "select", "NULL", "true", "and", "interval", "sum(r.x)", "count", "*", "x" * 300),
    *("a.b.c", ".", "match_count", "side", "left", "right", "v_right", "😀", "数量", "é", "e\u0301", "İ", "0", "1e5"),
    *("a'b", "a\\b", "{x}", "%s", "--", "/* */", "code of v", "slidejoin: number in the sample", "punctuation"),
    *("__index_level_0__", "[0]", "a,b"),
]

VALUES = {"left": [1, 2, 3], "right": [2, 3, 9]}
PAIRS = [(2, 2), (3, 3)]
WINDOW = sj.CountWindow(10)


def batch(name, side, kind=None):
    kind = kind or pa.int64()
    values = pa.array(VALUES[side]).cast(kind)
    return pa.table([values, pa.array([10, 20, 30])], names=[name, "other"])


def schemas(name):
    return batch(name, "left").schema, batch(name, "right").schema


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def pushed(join, name):
    tables = [join.push(left=batch(name, "left")), join.push(right=batch(name, "right")), join.finish()]
    return pa.concat_tables(tables)


def pairs(out, *names):
    return list(zip(*(out.column(name).to_pylist() for name in names), strict=True))


def of_join(name, **options):
    options = {"on": sj.left[name] == sj.right[name], "window": WINDOW, "schemas": schemas(name)} | options
    return sj.StreamJoin(order="strict", **options)


def in_sql(name):
    join = of_join(name, on=f"l.{quoted(name)} = r.{quoted(name)} AND l.{quoted(name)} > 0")
    assert pairs(pushed(join, name), name, f"{name}_right") == PAIRS
    assert str(join.explain())


def in_python(name):
    assert pairs(pushed(of_join(name), name), name, f"{name}_right") == PAIRS


def in_a_function(name):
    on = sj.function("abs", sj.left[name] - sj.right[name]) < 1
    assert pairs(pushed(of_join(name, on=on), name), name, f"{name}_right") == PAIRS


def selected(name):
    join = of_join(name, select=[f"r.{name}", f"l.{name}"])
    out = pushed(join, name)
    assert out.column_names == [f"{name}_right", name]
    assert pairs(out, name, f"{name}_right") == PAIRS


def with_a_suffix(name):
    out = pushed(of_join(name, suffix=name or "."), name)
    assert pairs(out, name, name + (name or ".")) == PAIRS


def as_event_time(name):
    join = of_join(name, on="l.other > 0 AND r.other > 0", window=sj.TimeWindow(0, on=name, lateness=10))
    assert pairs(pushed(join, name), name, f"{name}_right") == PAIRS


def ordered(name):
    join = of_join(name, output="count")
    out = join.push(left=batch(name, "left"), right=batch(name, "right"), order_by=name)
    assert out["side"].to_pylist() == ["left", "left", "right", "left", "right", "right"]


def nearest(name):
    keep = sj.Nearest(f"l.{name}", f"r.{name}", direction="forward")
    out = pushed(of_join(name, on="l.other > 0 AND r.other > 0", keep=keep), name)
    assert pairs(out, name, f"{name}_right") == [(1, 2), (2, 2), (3, 3)]


def aggregated(name):
    output = sj.Aggregate(**{f"most {name}": f"max(r.{name})"})
    out = pushed(of_join(name, on="l.other = r.other", output=output), name)
    assert pairs(out, name, f"most {name}") == [(1, 2), (2, 3), (3, 9)]


def named_aggregate(name):
    output = sj.Aggregate(**{name: "count"})
    join = sj.StreamJoin(on="l.k = r.k", window=WINDOW, output=output, select=["l.k"])
    join.push(left={"k": [1]}, right={"k": [1, 1]})
    assert join.finish().to_pydict() == {"k": [1], name: [2]}


def counted(name):
    out = pushed(of_join(name, output="count"), name)
    assert out.column_names == ["side", name, "other", f"{name}_right", "other_right", "match_count"]
    assert out["match_count"].to_pylist() == [0, 0, 0, 1, 1, 0]


def as_text(name):
    kinds = pa.string()
    join = sj.StreamJoin(on=sj.left[name] == sj.right[name], window=WINDOW)
    join.push(left=batch(name, "left", kinds))
    again = sj.StreamJoin.restore(join.snapshot())
    out = again.push(right=batch(name, "right", kinds))
    assert pairs(out, name, f"{name}_right") == [("2", "2"), ("3", "3")]


def restored(name):
    join = of_join(name, on=f"l.{quoted(name)} <= r.{quoted(name)} AND lower(l.{quoted(name)}::VARCHAR) = '3'")
    join.push(left=batch(name, "left"))
    again = sj.StreamJoin.restore(join.snapshot())
    assert pairs(again.push(right=batch(name, "right")), name, f"{name}_right") == [(3, 3), (3, 9)]


def outer(name):
    out = pushed(of_join(name, how="full"), name)
    assert sorted(pairs(out, name, f"{name}_right"), key=str) == [(1, None), (2, 2), (3, 3), (None, 9)]


def late(name):
    join = of_join(name, window=sj.TimeWindow(1, on="other"), late="emit")
    join.push(left=batch(name, "left"), right=batch(name, "right"))
    join.push(left=batch(name, "left").slice(0, 1))
    assert join.late_rows().left.column_names == [name, "other"]


def many(name):
    a, b = sj.stream("a"), sj.stream("b")
    for on in (a[name] == b[name], f"a.{quoted(name)} = b.{quoted(name)}"):
        join = sj.MultiJoin({"a": WINDOW, "b": WINDOW, "c": WINDOW}, on=on, select=[f"a.{name}", f"b.{name}", "c.z"])
        join.push(a=batch(name, "left"), b=batch(name, "right"))
        again = sj.MultiJoin.restore(join.snapshot())
        out = again.push(c={"z": [0]})
        assert out.column_names == [name, f"{name}_b", "z"]
        assert pairs(out, name, f"{name}_b") == PAIRS


def fed(name):
    feed = sj.Feed(of_join(name), capacity=5, overload="shed", shed="least_likely")
    feed.put(left=batch(name, "left"), right=batch(name, "right"), order_by=name)
    feed.close()
    out = list(feed)
    assert feed.stats.dropped_left + feed.stats.dropped_right == 1
    assert all(table.column_names == [name, "other", f"{name}_right", "other_right"] for table in out)


USES = [
    in_sql, in_python, in_a_function, selected, with_a_suffix, as_event_time, ordered, nearest, aggregated,
    named_aggregate, counted, as_text, restored, outer, late, many, fed,
]  # fmt: skip

REFUSED = {
    ("side", counted), ("match_count", counted), ("side", ordered), ("match_count", ordered),
    ("", as_event_time), ("", ordered), ("", nearest), ("", aggregated), ("", fed),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_taken_everywhere_or_refused_in_one_sentence(name):
    refused: dict[str, str] = {}
    for use in USES:
        try:
            use(name)
        except SlideJoinError as error:
            refused[use.__name__] = str(error)
    assert set(refused) == {use.__name__ for one, use in REFUSED if one == name}, refused
    assert [text for text in refused.values() if repr(name) not in text and f".{name}" not in text] == []


def test_names_that_differ_by_case_alone_are_different_columns():
    rows = {"Id": [1, 2], "id": [2, 1], "ID": [5, 5]}
    join = sj.StreamJoin(on='l."Id" = r.id AND l."ID" = r."ID"', window=WINDOW, select=["l.Id", "r.id"])
    out = join.push(left=rows, right=rows)
    assert sorted(zip(out["Id"].to_pylist(), out["id_right"].to_pylist(), strict=True)) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("name", ["v", "größe", "a b"])
def test_a_suffix_that_makes_a_name_that_is_there_is_refused(name):
    left = pa.schema([(name, pa.int64()), (f"{name}_right", pa.int64())])
    right = pa.schema([(name, pa.int64())])
    message = f"output columns '{name}_right' would appear twice; choose another suffix= than '_right', rename"
    with pytest.raises(sj.PredicateError, match=message):
        sj.StreamJoin(on=sj.left[name] == sj.right[name], window=WINDOW, schemas=(left, right))

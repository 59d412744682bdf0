"""SQL text to expressions: sqlglot parses it, and its tree is converted into our nodes here and nowhere else.

Import this module only where SQL text has been given, since importing sqlglot takes a moment.

Names: a column is always written with the alias of its side. Column names stay as written; an alias is matched
exactly first, then regardless of case unless it is quoted. Constants: ``0.1`` and ``1e5`` are exact decimals, a
TIMESTAMP with an offset is an instant, an INTERVAL has a fixed length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from slidejoin.errors import PredicateError, nearest
from slidejoin.predicate.expression import build
from slidejoin.predicate.expression.build import SUPPORTED
from slidejoin.predicate.expression.expr import Column, Literal
from slidejoin.predicate.expression.functions import ALIASES, FUNCTIONS, NAMES, function_name
from slidejoin.predicate.expression.literals import literal
from slidejoin.predicate.expression.streams import wide_column
from slidejoin.predicate.sql_text import constants
from slidejoin.predicate.sql_text.dialect import read_tree, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slidejoin.predicate.expression.expr import Comparator, Expr, Operator
    from slidejoin.sides import Side

__all__ = ["called", "parse", "parse_wide", "part_of_date"]

_ONE: dict[type[exp.Expr], str] = {
    exp.Lower: "lower",
    exp.Upper: "upper",
    exp.Length: "length",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Trunc: "trunc",
    exp.Sign: "sign",
    exp.Sqrt: "sqrt",
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Week: "week",
    exp.WeekOfYear: "week",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfYear: "dayofyear",
    exp.DayOfWeek: "dayofweek",
    exp.DayOfWeekIso: "isodow",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_TWO: dict[type[exp.Expr], str] = {
    exp.Left: "left",
    exp.Right: "right",
    exp.StartsWith: "starts_with",
    exp.EndsWith: "ends_with",
    exp.Contains: "contains",
    exp.DPipe: "||",
    exp.Like: "like",
    exp.ILike: "ilike",
}
_MANY: dict[type[exp.Expr], str] = {
    exp.Concat: "concat",
    exp.Array: "list",
}
_FIRST_AND_MANY: dict[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Greatest: "greatest",
    exp.Least: "least",
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim", "": "trim"}
# What sqlglot notes in a call by itself.
_CALL_NOTES = {"typed", "safe", "coalesce", "ignore_nulls", "value_constructor", "dialect", "negate", "sql_names"}


def called(  # noqa: C901, PLR0911 - one case for each shape of call
    tree: exp.Expr,
) -> tuple[str, list[exp.Expr]] | None:
    """Return our name of the function that `tree` calls and the values given; None if it calls none of ours."""
    kind = type(tree)
    for names, given in _SHAPES:
        if kind in names:
            return names[kind], _with_nothing_else(tree, given(tree))
    match tree:
        case exp.Substring():
            return "substr", _with_nothing_else(tree, _given(tree, "this", "start", "length"))
        case exp.Replace():
            return "replace", _with_nothing_else(tree, _given(tree, "this", "expression", "replacement"))
        case exp.Round():
            return "round", _with_nothing_else(tree, _given(tree, "this", "decimals"))
        case exp.StrPosition():
            return "strpos", _with_nothing_else(tree, _given(tree, "this", "substr"))
        case exp.Trim():
            values = _with_nothing_else(tree, _given(tree, "this", "expression"), "position")
            return _TRIMS[str(tree.args.get("position") or "").upper()], values
        case exp.DateTrunc() | exp.TimestampTrunc():
            unit = tree.args["unit"]
            word = unit if isinstance(unit, exp.Literal) else exp.Literal.string(unit.name)
            return "date_trunc", [word, *_with_nothing_else(tree, _given(tree, "this"), "unit")]
        case exp.Extract():
            return part_of_date(tree.this.name, tree), [tree.expression]
        case exp.Anonymous():
            return _anonymous(tree)
        case _:
            return None


def part_of_date(word: str, tree: exp.Expr) -> str:
    """Return the function for a part of a date by its name; PredicateError, about `tree`, if there is none."""
    name = function_name(word)
    if name is None or name not in _PARTS:
        msg = f"there is no part {word} of a time in {shown(tree)}; the parts are {', '.join(sorted(_PARTS))}"
        raise PredicateError(msg)
    return name


_PARTS = frozenset(list(FUNCTIONS)[list(FUNCTIONS).index("epoch") :])


def _anonymous(tree: exp.Anonymous) -> tuple[str, list[exp.Expr]] | None:
    name, values = str(tree.name), list(tree.expressions)
    if name.lower() == "date_part" and values and isinstance(values[0], exp.Literal) and values[0].is_string:
        return part_of_date(values[0].name, tree), values[1:]
    known = function_name(name)
    return None if known is None else (known, values)


def _given(tree: exp.Expr, *names: str) -> list[exp.Expr]:
    return [tree.args[name] for name in names if tree.args.get(name) is not None]


def _with_nothing_else(tree: exp.Expr, values: list[exp.Expr], *known: str) -> list[exp.Expr]:
    """Return the values, if nothing else was written into the call."""
    held = {id(value) for value in values}
    for name, value in tree.args.items():
        some = value if isinstance(value, list) else [value]
        if name not in _CALL_NOTES and name not in known and any(one and id(one) not in held for one in some):
            msg = f"{shown(tree)} has something that cannot be used in a predicate: {name}. Write the call without it"
            raise PredicateError(msg)
    return values


_SHAPES: tuple[tuple[dict[type[exp.Expr], str], Callable[[exp.Expr], list[exp.Expr]]], ...] = (
    (_ONE, lambda tree: _given(tree, "this")),
    (_TWO, lambda tree: _given(tree, "this", "expression")),
    (_MANY, lambda tree: list(tree.expressions)),
    (_FIRST_AND_MANY, lambda tree: [*_given(tree, "this"), *tree.expressions]),
)


_COMPARATORS: dict[type[exp.Expr], Comparator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "//",
}
_CONDITIONS = (*_COMPARATORS, exp.Between, exp.In, exp.Is, exp.Not)
# Attributes that sqlglot adds to a node by itself, though nothing was written.
_NOTES = {"typed", "safe", "fraction_in_string", "dialect"}


def parse(text: str, aliases: tuple[str, str] = ("l", "r")) -> Expr:
    """Read a join predicate.

    Parameters
    ----------
    text
        One SQL condition over columns of both sides.
    aliases
        The names of the left and the right side in the text.

    Raises
    ------
    PredicateError
        If the text cannot be read or has something that a predicate cannot have; the message names it.

    Examples
    --------
    >>> parse("dc1.a < dc2.b", aliases=("dc1", "dc2"))
    Compare(op='<', left=Column(side='left', name='a'), right=Column(side='right', name='b'))
    """
    try:
        tree, lists = read_tree(text)
        return build.predicate(_Reader(aliases, lists).read(tree))
    except RecursionError:
        msg = "the predicate is nested too deeply to be read; compute part of it into a column first"
        raise PredicateError(msg) from None


def parse_wide(text: str, streams: Sequence[str]) -> Expr:
    """Read a predicate over many streams, see `slidejoin.predicate.expression.streams`.

    Parameters
    ----------
    streams
        Their names, which are the names in the text.

    Raises
    ------
    PredicateError
        As of `parse`.

    Examples
    --------
    >>> parse_wide("a.k < b.k", ("a", "b", "c"))
    Compare(op='<', left=WideColumn(side='left', name='a.k'), right=WideColumn(side='left', name='b.k'))
    """
    try:
        tree, lists = read_tree(text)
        return build.predicate(_WideReader(tuple(streams), lists).read(tree))
    except RecursionError:
        msg = "the predicate is nested too deeply to be read; compute part of it into a column first"
        raise PredicateError(msg) from None


class _Reader:
    """Turns sqlglot's nodes into ours, under the names of one join's sides."""

    _kind = "side"

    def __init__(self, aliases: tuple[str, ...], lists: dict[str, list[Expr]]) -> None:
        self._aliases, self._lists = aliases, lists

    def read(self, tree: exp.Expr) -> Expr:  # noqa: PLR0911 - one case for each kind of node
        """Return the node for `tree`, or raise PredicateError."""
        kind = type(tree)
        if isinstance(tree, exp.Paren):
            return self.read(tree.this)
        if isinstance(tree, exp.And | exp.Or):
            parts = [self.read(part) for part in _spine(tree, kind)]
            return build.conjunction(parts) if kind is exp.And else build.disjunction(parts)
        if isinstance(tree, exp.Not):
            return build.negation(self.read(tree.this))
        if kind in _COMPARATORS:
            return self._comparison(tree)
        if kind in _OPERATORS:
            _only(tree, "this", "expression")
            return build.arithmetic(_OPERATORS[kind], self.read(tree.this), self.read(tree.expression))
        if isinstance(tree, exp.Neg):
            return self._negative(tree)
        if isinstance(tree, exp.Column):
            return self._column(tree)
        constant = _constant(tree)
        if constant is not None:
            return constant
        return self._special(tree)

    def _special(self, tree: exp.Expr) -> Expr:  # noqa: C901, PLR0911, PLR0912 - one case for each kind of node
        match tree:
            case exp.Abs():
                return build.absolute(self.read(tree.this))
            case exp.Case():
                return self._case(tree)
            case exp.If():
                _only(tree, "this", "true", "false")
                cases = [(self.read(tree.this), self.read(tree.args["true"]))]
                return build.choice(cases, self._perhaps(tree.args.get("false")))
            case exp.Date() if isinstance(tree.this, exp.Expr):
                _only(tree, "this")
                return build.cast(self.read(tree.this), "DATE")
            case exp.Nullif():
                return build.nullif(self.read(tree.this), self.read(tree.expression))
            case exp.Escape() if isinstance(tree.this, exp.Like | exp.ILike):
                name, values = called(tree.this) or ("like", [])
                made = build.call(name, [self.read(value) for value in (*values, tree.expression)])
                return build.negation(made) if tree.this.args.get("negate") else made
            case exp.Between():
                _only(tree, "this", "low", "high")
                return build.between(*(self._operand(tree, name) for name in ("this", "low", "high")))
            case exp.In(this=exp.Tuple()) if "expressions" in tree.args:
                _only(tree, "this", "expressions")
                options = [self._row(option) for option in tree.expressions]
                return build.disjunction([build.row_compare("=", self._row(tree.this), row) for row in options])
            case exp.In() if "expressions" in tree.args:
                _only(tree, "this", "expressions")
                return build.member(self._operand(tree, "this"), self._options(tree.expressions))
            case exp.Is() if isinstance(tree.expression, exp.Null):
                return build.is_null(self._operand(tree, "this"))
            case exp.Is() if isinstance(tree.expression, exp.Boolean):
                value = Literal(bool(tree.expression.this))
                return build.compare("IS NOT DISTINCT FROM", self._operand(tree, "this"), value)
            case exp.Cast() if type(tree) in {exp.Cast, exp.TryCast}:
                return self._cast(tree)
            case _:
                return self._call(tree)

    def _call(self, tree: exp.Expr) -> Expr:
        call = called(tree)
        if call is None:
            raise PredicateError(refusal(tree))
        name, values = call
        made = build.call(name, [self.read(value) for value in values])
        return build.negation(made) if tree.args.get("negate") else made

    def _comparison(self, tree: exp.Expr) -> Expr:
        op = _COMPARATORS[type(tree)]
        if isinstance(tree.this, exp.Tuple) or isinstance(tree.expression, exp.Tuple):
            return build.row_compare(op, self._row(tree.this), self._row(tree.expression))
        return build.compare(op, self._operand(tree, "this"), self._operand(tree, "expression"))

    def _row(self, tree: exp.Expr) -> tuple[Expr, ...]:
        if not isinstance(tree, exp.Tuple):
            msg = f"{shown(tree)} is compared with a row of values; write one too, as in (l.a, l.b) = (r.c, r.d)"
            raise PredicateError(msg)
        return tuple(self.read(part) for part in tree.expressions)

    def _case(self, tree: exp.Case) -> Expr:
        _only(tree, "this", "ifs", "default")
        operand = self._perhaps(tree.this)
        cases = []
        for case in tree.args["ifs"]:
            when = self.read(case.this)
            cases.append((when if operand is None else build.compare("=", operand, when), self.read(case.args["true"])))
        return build.choice(cases, self._perhaps(tree.args.get("default")))

    def _options(self, options: list[exp.Expr]) -> list[Expr]:
        named = self._lists.get(options[0].name) if len(options) == 1 and isinstance(options[0], exp.Column) else None
        return [self.read(option) for option in options] if named is None else named

    def _perhaps(self, tree: exp.Expr | None) -> Expr | None:
        return None if tree is None else self.read(tree)

    def _operand(self, tree: exp.Expr, name: str) -> Expr:
        """Return an operand of a comparison, which must not be a bare condition itself."""
        operand = tree.args[name]
        if isinstance(operand, _CONDITIONS):
            first = shown(tree.this.expression) if type(tree.this) in _COMPARATORS else "b"
            msg = (
                f"comparisons cannot be chained: {shown(tree)}. Write two of them, as in "
                f"a < {first} AND {first} < c, or put one in parentheses if its truth value is meant"
            )
            raise PredicateError(msg)
        return self.read(operand)

    def _negative(self, tree: exp.Expr) -> Expr:
        operand = self.read(tree.this)
        return build.negative(operand, fold=not isinstance(tree.this, exp.Paren))

    def _column(self, tree: exp.Column) -> Expr:
        if isinstance(tree.this, exp.Star):
            msg = f"{shown(tree)} stands for many columns; name one, as in {self._example(tree)}"
            raise PredicateError(msg)
        if tree.args.get("db") is not None:
            msg = f"{shown(tree)} is a field inside a column, which cannot be read; make it a column of its own first"
            raise PredicateError(msg)
        if not tree.table:
            raise PredicateError(self._without_side(tree))
        _only(tree, "this", "table")
        return self._named(tree)

    def _named(self, tree: exp.Column) -> Column:
        return Column(self._side(tree), tree.name)

    def _side(self, tree: exp.Column) -> Side:
        alias, quoted = tree.table, bool(tree.args["table"].args.get("quoted"))
        left, right = self._aliases
        for same in (_exactly, _regardless_of_case) if not quoted else (_exactly,):
            fits: list[Side] = []
            if same(alias, left):
                fits.append("left")
            if same(alias, right):
                fits.append("right")
            if len(fits) == 1:
                return fits[0]
        hint = nearest(alias, self._aliases)
        msg = f"unknown side {alias!r} in {shown(tree)}; the sides are {left!r} (left) and {right!r} (right).{hint}"
        raise PredicateError(msg)

    def _without_side(self, tree: exp.Column) -> str:
        name = shown(tree)
        if tree.name in self._aliases:
            return f"{name} is a {self._kind}, not a column; name one of its columns, as in {name}.id"
        written = [f"{alias}.{name}" for alias in self._aliases]
        text = f"the column {name} has no {self._kind}; write {', '.join(written[:-1])} or {written[-1]}"
        if tree.this.args.get("quoted"):
            text += f". If a string was meant, it takes single quotes: '{tree.name}'"
        return text

    def _example(self, tree: exp.Column) -> str:
        return f"{tree.table or self._aliases[0]}.id"

    def _cast(self, tree: exp.Cast) -> Expr:
        _only(tree, "this", "to")
        target, operand = tree.args["to"].this.name, tree.this
        if isinstance(operand, exp.Literal) and operand.is_string:
            if target in constants.TYPES:
                return constants.typed(target, operand.this)
            if target == "DOUBLE" and operand.this.lower() in constants.NOT_FINITE:
                return literal(float(operand.this))
        return build.cast(self.read(operand), shown(tree.args["to"]))


class _WideReader(_Reader):
    """The same for the streams of a join of many."""

    _kind = "stream"

    def _named(self, tree: exp.Column) -> Column:
        alias, quoted = tree.table, bool(tree.args["table"].args.get("quoted"))
        for same in (_exactly, _regardless_of_case) if not quoted else (_exactly,):
            fits = [stream for stream in self._aliases if same(alias, stream)]
            if len(fits) == 1:
                return wide_column(fits[0], tree.name)
        hint = nearest(alias, self._aliases)
        msg = f"unknown stream {alias!r} in {shown(tree)}; the streams are {', '.join(map(repr, self._aliases))}.{hint}"
        raise PredicateError(msg)


def _constant(tree: exp.Expr) -> Literal | None:
    """Return the constant that `tree` is, or None."""
    match tree:
        case exp.Literal():
            return literal(tree.this) if tree.is_string else constants.number(tree.this)
        case exp.Boolean():
            return Literal(bool(tree.this))
        case exp.Null():
            return Literal(None)
        case exp.HexString():
            return constants.binary(tree.this)
        case exp.Interval():
            return _interval(tree)
        case _:
            return None


def _interval(tree: exp.Interval) -> Literal:
    amount, unit = tree.this, tree.args.get("unit")
    if isinstance(amount, exp.Paren):
        amount = amount.this
    if not isinstance(amount, exp.Literal) or not (unit is None or isinstance(unit, exp.Var)):
        msg = f"cannot read {shown(tree)}; write a constant such as INTERVAL '10 minutes' or INTERVAL '1 day 2 hours'"
        raise PredicateError(msg)
    return constants.interval(amount.this if unit is None else f"{amount.this} {unit.name.lower()}", shown(tree))


def _spine(tree: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """Return the operands of a chain of one connective, without recursion: such chains may be long."""
    parts = []
    while type(tree) is kind:
        parts.append(tree.args["expression"])
        tree = tree.this
    return [tree, *reversed(parts)]


def _only(tree: exp.Expr, *known: str) -> None:
    """Refuse whatever else was written into `tree`, rather than overlook it."""
    if any(value and name not in known and name not in _NOTES for name, value in tree.args.items()):
        raise PredicateError(refusal(tree))


def _exactly(alias: str, side: str) -> bool:
    return alias == side


def _regardless_of_case(alias: str, side: str) -> bool:
    return alias.casefold() == side.casefold()


_ONE_PAIR = "a predicate sees one left and one right row, nothing else"

# The first line that fits counts, so that special kinds come before general ones.
_HINTS: tuple[tuple[tuple[type[exp.Expr], ...], str], ...] = (
    (
        (exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.Glob),
        "write [NOT] LIKE, or match the expression into a boolean column of the stream first",
    ),
    ((exp.Query, exp.Subquery, exp.Exists, exp.Any, exp.All), _ONE_PAIR),
    ((exp.Window, exp.AggFunc), f"{_ONE_PAIR}, so there is nothing to aggregate over"),
    ((exp.Is,), "only IS [NOT] NULL, TRUE, FALSE and DISTINCT FROM are supported"),
    ((exp.Pow,), "write x * x"),
    (
        (exp.Ln, exp.Log, exp.Exp, exp.Sin, exp.Cos, exp.Tan),
        "its last bit differs from machine to machine; compute it into a column of the stream first",
    ),
    (
        (exp.DateDiff, exp.TimestampDiff, exp.DateAdd, exp.DateSub, exp.TimestampAdd),
        "subtract times and compare with an interval, as in l.a - r.b < INTERVAL '1 day'",
    ),
    (
        (exp.RegexpReplace, exp.RegexpExtract, exp.Pad, exp.Initcap, exp.Reverse, exp.ConcatWs, exp.Split),
        "build the string as a column of the stream first",
    ),
    ((exp.Collate,), "strings are compared by their bytes; write lower(x) on both sides to overlook case"),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "put the value itself into the text"),
    ((exp.Bracket, exp.Dot, exp.JSONExtract), "make the inner value a column of its own first"),
    ((exp.Tuple,), "a row of values is compared with another, as in (l.a, l.b) = (r.c, r.d), and nothing else"),
    ((exp.In,), "IN takes a list of values, as in x IN (1, 2, 3)"),
    ((exp.Between,), "only plain BETWEEN low AND high is supported"),
    (
        (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot),
        "write AND, OR, NOT for conditions; bits cannot be computed",
    ),
)


def refusal(tree: exp.Expr) -> str:
    """Return the message for a piece of SQL that has no place in a predicate."""
    name = _function_name(tree)
    hint = next((text for kinds, text in _HINTS if isinstance(tree, kinds)), None)
    if hint is not None:
        return f"{shown(tree)} cannot be used in a predicate: {hint}. {SUPPORTED}"
    if name is not None:
        return (
            f"unknown function {name} in {shown(tree)}.{nearest(name.lower(), [*NAMES, *ALIASES, 'abs', 'cast'])} "
            f"The functions are abs, {', '.join(NAMES)}. "
            "Compute others into a column of the stream first"
        )
    return f"{shown(tree)} cannot be used in a predicate. {SUPPORTED}"


def _function_name(tree: exp.Expr) -> str | None:
    if isinstance(tree, exp.Anonymous):
        return str(tree.name)
    return tree.sql_name().lower() if isinstance(tree, exp.Func) else None

"""Command lines of the experiments: one option for each parameter of a function that returns a report."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import fields
from functools import partial
from inspect import Parameter, signature, unwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cases.workload import Workload
from slidejoin.bench.case import whole_number
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slidejoin.bench.report import Report

__all__ = ["main", "options_of"]

NUMBERS = tuple[int, ...]
KINDS: dict[str, Any] = {
    "int": int, "float": float, "str": str, "bool": bool, "tuple": tuple, "Output": str, "Order": str,
    "JoinType": str, "StrategyName": str,
}  # fmt: skip
"""Types of options, by the first word of an annotation such as ``int | None`` or ``tuple[str, ...]``."""


def main(
    run: Callable[..., Report],
    arguments: Sequence[str] | None = None,
    *,
    program: str | None = None,
    plot: Callable[[Path], Callable[[Report], None]] | None = None,
) -> int:
    """Call `run` with the options of a command line and print its report; return the exit status.

    ``--json`` prints the report as JSON. An option that is not given keeps its default. The status is 1 if measuring
    failed, 2 if the command line is wrong.

    Parameters
    ----------
    run : callable
        Returns the report.
    arguments : sequence of str, optional
        Those of this process by default.
    program : str, optional
        What is called, for the help and for errors.
    plot : callable, optional
        Returns what draws a report into the file of ``--plot``, once it is sure that it can.
    """
    about = (run.__doc__ or "").strip().partition("\n")[0]
    parser = argparse.ArgumentParser(prog=program, description=about, argument_default=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", default=False, help="print the report as JSON")
    if plot is not None:
        parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the report too, where it has a picture")
    for name, kind in options_of(run).items():
        option = f"--{name.replace('_', '-')}"
        if kind is bool:
            parser.add_argument(option, dest=name, action=argparse.BooleanOptionalAction)
        else:
            read, shown = READERS.get(kind, (kind, kind.__name__.upper()))
            parser.add_argument(option, dest=name, type=read, metavar=shown)
    given = vars(parser.parse_args(arguments))
    as_json, file = given.pop("json"), given.pop("plot", None)
    try:
        draw = None if plot is None or file is None else plot(file)
        report = run(**given)
    except SlideJoinError as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 2 if isinstance(error, ConfigError) else 1
    sys.stdout.write((json.dumps(report.to_json(), indent=2) if as_json else report.text()) + "\n")
    if draw is not None:
        draw(report)
    return 0


def options_of(run: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a function with their types: its keywords, and those of `Workload` for ``**options``.

    Parameters of other types, such as callables, are no options, nor are those that a `functools.partial` has set and
    the operation of the workload, where the function does not take it itself.

    Examples
    --------
    >>> from benchmarks.papers.run import run
    >>> options_of(run)
    {'only': <class 'tuple'>, 'window': <class 'int'>, 'rows': <class 'int'>, 'seed': <class 'int'>}
    """
    declared: dict[str, str] = {}
    whole = unwrap(run)
    for name, parameter in signature(whole).parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            loads = {one.name: str(one.type) for one in fields(Workload) if one.name != "operation"}
            declared = loads | declared
        else:
            declared[name] = str(parameter.annotation)
    for name in whole.keywords if isinstance(whole, partial) else ():
        del declared[name]
    kinds = {name: _kind(text) for name, text in declared.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _kind(annotation: str) -> Any:  # noqa: ANN401 - a type, or one of tuples
    """Return the type of an option, or None if it is no option."""
    return NUMBERS if annotation.startswith("tuple[int") else KINDS.get(re.split(r"\W", annotation)[0])


def _number(text: str) -> int:
    try:
        return whole_number(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_number(one) for one in text.split(","))


def _names(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(","))


READERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (_number, "INT"),
    tuple: (_names, "NAME,NAME,…"),
    NUMBERS: (_numbers, "INT,INT,…"),
}
"""How options of some types are read, and how they are shown."""

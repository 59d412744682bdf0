"""Command lines of the experiments: one option for each parameter of a function that returns a report."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import fields
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from slidejoin.bench.workload import Workload
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slidejoin.bench.report import Report

__all__ = ["main", "options_of"]

KINDS = {"int": int, "float": float, "str": str, "bool": bool, "tuple": tuple, "Output": str, "Order": str}
"""Types of options, by the first word of an annotation such as ``int | None`` or ``tuple[str, ...]``."""


def main(run: Callable[..., Report], arguments: Sequence[str] | None = None) -> int:
    """Call `run` with the options of a command line and print its report; return the exit status.

    ``--json`` prints the report as JSON. An option that is not given keeps its default.
    """
    about = (run.__doc__ or "").strip().partition("\n")[0]
    parser = argparse.ArgumentParser(description=about, argument_default=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", default=False, help="print the report as JSON")
    for name, kind in options_of(run).items():
        option = f"--{name.replace('_', '-')}"
        if kind is bool:
            parser.add_argument(option, dest=name, action=argparse.BooleanOptionalAction)
        elif kind is tuple:
            parser.add_argument(option, dest=name, type=_names, metavar="NAME,NAME,…")
        else:
            parser.add_argument(option, dest=name, type=_number if kind is int else kind, metavar=kind.__name__.upper())
    given = vars(parser.parse_args(arguments))
    as_json = given.pop("json")
    try:
        report = run(**given)
    except SlideJoinError as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 1
    sys.stdout.write((json.dumps(report.to_json(), indent=2) if as_json else report.text()) + "\n")
    return 0


def options_of(run: Callable[..., Any]) -> dict[str, type]:
    """Return the options of a function with their types: its keywords, and those of `Workload` for ``**options``.

    Parameters of other types, such as callables, are no options.

    Examples
    --------
    >>> from benchmarks.papers.run import run
    >>> options_of(run)
    {'only': <class 'tuple'>, 'window': <class 'int'>, 'rows': <class 'int'>, 'seed': <class 'int'>}
    """
    declared: dict[str, str] = {}
    for name, parameter in signature(run).parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            declared = {one.name: str(one.type) for one in fields(Workload)} | declared
        else:
            declared[name] = str(parameter.annotation)
    kinds = {name: KINDS.get(re.split(r"\W", text)[0]) for name, text in declared.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _number(text: str) -> int:
    """Read a whole number, also written as a power such as 2^20."""
    base, power, exponent = text.partition("^")
    return int(base) ** int(exponent) if power else int(base)


def _names(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(","))

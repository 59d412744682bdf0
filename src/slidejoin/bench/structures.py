"""Algorithms in an option: a name, or a structure with what is set of it, such as ``im_tree:merge_ratio=0.5``."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError, nearest
from slidejoin.spec.join_spec import ALGORITHMS
from slidejoin.spec.options import STRUCTURES

if TYPE_CHECKING:
    from slidejoin.spec.options import Options

__all__ = ["algorithm_in"]

WORDS = {"none": None, "true": True, "false": False}


def algorithm_in(text: str) -> str | Options:
    """Return what ``algorithm=`` of a join takes for an option as it is typed.

    Colons stand between the parts, so that a shell leaves them alone and commas can separate options of `beside`.

    Raises
    ------
    ConfigError
        For a name that is none, a parameter that the structure does not have, or a value that it refuses.

    Examples
    --------
    >>> algorithm_in("auto"), algorithm_in("bplus_tree:fan_out=64").fan_out
    ('auto', 64)
    """
    name, *settings = text.split(":")
    if name not in ALGORITHMS:
        msg = f"algorithm: got {name!r}, expected one of {', '.join(ALGORITHMS)}.{nearest(name, ALGORITHMS)}"
        raise ConfigError(msg)
    if not settings:
        return name
    kind = STRUCTURES.get(name)
    taken = () if kind is None else tuple(one.name for one in fields(kind))
    given: dict[str, object] = {}
    for setting in settings:
        parameter, equals, value = setting.partition("=")
        if not equals or parameter not in taken:
            known = f"name=value with a name of {', '.join(taken)}" if taken else f"nothing: {name} has no parameters"
            msg = f"algorithm: got {setting!r} for {name}, expected {known}.{nearest(parameter, taken)}"
            raise ConfigError(msg)
        given[parameter] = _value(value)
    try:
        return STRUCTURES[name](**given)
    except ValueError as error:
        msg = f"algorithm: {error}"
        raise ConfigError(msg) from None


def _value(text: str) -> object:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

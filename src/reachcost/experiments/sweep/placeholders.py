"""A dataclass filled from what a file says; whatever does not fit gets one sentence: what, where, remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from reachcost.errors import ReachcostError

Kind = TypeVar("Kind")
WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
SEVERAL = {str: "names", int: "whole numbers", float: "numbers"}


def filled(kind: type[Kind], given: Mapping[str, Any], where: str, **further: Any) -> Kind:
    """An instance of a dataclass whose fields are what a file gives.

    Args:
        kind: The dataclass; its annotations say what fits.
        given: Values by the name of their field.
        where: What messages call the place.
        further: Values of fields that no file gives.
    """
    values = checked(kind, given, where, [*further])
    with told(where):
        return kind(**values, **further)


def checked(kind: type, given: Mapping[str, Any], where: str, but: Sequence[str] = ()) -> dict[str, Any]:
    """What a file gives for the fields of a dataclass, some left out, if it fits; lists become tuples.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Plan:
    ...     steps: int = 1
    >>> checked(Plan, {"step": 2}, "plan.toml")
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: plan.toml: there is no `step`: did you mean `steps`? It may hold steps
    """
    hints, known = _hints(kind), {part.name: part for part in fields(kind) if part.name not in but}
    for name, value in given.items():
        if name not in known:
            close = get_close_matches(name, known, 1)
            meant = f"did you mean `{close[0]}`? " if close else ""
            raise ReachcostError(f"{where}: there is no `{name}`: {meant}It may hold {', '.join(known)}")
        if not _fits(value, hints[name]):
            raise ReachcostError(f"{where}: {name} is {_shown(value)}: give {_wanted(hints[name])}")
    if missing := next((name for name, part in known.items() if name not in given and _required(part)), None):
        raise ReachcostError(f"{where}: {missing} is missing: give {_wanted(hints[missing])}")
    return {name: _frozen(value) for name, value in given.items()}


_hints = cache(get_type_hints)
"""Annotations of a dataclass; evaluating them takes longer than anything else here."""


@contextmanager
def told(where: str) -> Iterator[None]:
    """Say where it was that something was refused."""
    try:
        yield
    except ReachcostError as error:
        raise ReachcostError(f"{where}: {error}") from error


def _required(part: Field[Any]) -> bool:
    return part.default is MISSING and part.default_factory is MISSING


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        several = isinstance(value, list) and len(value) > 0
        return several and (parts[-1] is not ... or all(_fits(one, parts[0]) for one in value))
    if origin is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if origin is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin)


def _wanted(hint: Any) -> str:
    """What fits, in words."""
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        literal = [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]
        others = [_wanted(part) for part in parts if get_origin(part) is not Literal and part is not type(None)]
        return " or ".join([*([_choices(literal)] if literal else []), *others])
    if origin is Literal:
        return _choices(parts)
    if origin is tuple:
        return f"a list of {SEVERAL.get(parts[0], 'values')}, one or more"
    return WORDS.get(origin, "a table")


def _choices(parts: Any) -> str:
    return f"one of {', '.join(map(str, parts))}"


def _shown(value: Any) -> str:
    text = "empty" if value == [] else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value

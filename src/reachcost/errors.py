"""Exceptions for mistakes that a user can fix, and checks of arguments that raise them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from numbers import Integral, Real
from traceback import extract_tb
from types import UnionType
from typing import Any, NoReturn, get_args


class ReachcostError(ValueError):
    """Something outside the program is wrong: the message says what, where, and what to do next."""


class ReachcostWarning(UserWarning):
    """Something that works as asked but will hardly do what was wanted; the message says what to do."""


def reason_of(error: Exception) -> str:
    """One sentence about an error: the message of ours; of others also their kind and where they were raised."""
    if isinstance(error, ReachcostError):
        return str(error)
    where = "".join(f" in {frame.filename}:{frame.lineno}" for frame in extract_tb(error.__traceback__)[-1:])
    return f"{type(error).__name__}: {error}{where}"


FOREIGN_ERRORS = (LookupError, AttributeError, TypeError, ValueError, RuntimeError)
"""What foreign code raises that is unfinished, or was given what it cannot use; other errors are left as they are."""
NUMBER_KINDS: dict[str, tuple[type, str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "True or False"),
}
"""Annotations of fields that are checked, and what to give."""


def require_type(value: object, kind: type | UnionType, what: str, remedy: str) -> None:
    """Refuse a value of another kind, and a class in place of an instance; numbers of numpy will do.

    Args:
        value: What was given.
        kind: What it has to be: a type, a union or a protocol that can be checked at run time.
        what: The name of the argument, or what it is about.
        remedy: What to do about another one.

    >>> require_type("5", int, "budget", "give a whole number")
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: `budget` is '5': give a whole number
    """
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    wanted = tuple({int: Integral, float: Real}.get(kind, kind) for kind in kinds)
    truth = isinstance(value, bool) and bool not in kinds
    if truth or isinstance(value, type) or not isinstance(value, wanted):
        refuse(value, what, remedy)


def call_foreign(call: Callable[[], Any], failed: str, remedy: str) -> Any:
    """What foreign code answers; whatever it raises instead becomes one sentence.

    >>> call_foreign(lambda: [][0], "step failed", "see reachcost.Task")
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: step failed (IndexError: list index out of range): see reachcost.Task
    """
    try:
        return call()
    except ReachcostError:
        raise
    except Exception as error:  # foreign code may raise anything
        raise ReachcostError(f"{failed} ({type(error).__name__}: {error}): {remedy}") from error


def require_callable(value: object, what: str, remedy: str) -> None:
    """Refuse what cannot be called, and a class, which would be called in vain."""
    if isinstance(value, type) or not isinstance(value, Callable):
        refuse(value, what, remedy)


def require_numbers(instance: Any) -> None:
    """Refuse a dataclass whose fields are annotated as numbers or switches and hold something else.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Plan:
    ...     steps: int | None = None
    >>> require_numbers(Plan("ten"))
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: steps of Plan is 'ten': give a whole number
    """
    for field in fields(instance):
        annotation, _, rest = str(field.type).partition(" | ")
        value = getattr(instance, field.name)
        if annotation in NUMBER_KINDS and rest in ("", "None") and not (rest and value is None):
            kind, remedy = NUMBER_KINDS[annotation]
            require_type(value, kind, f"{field.name} of {type(instance).__name__}", f"give {remedy}")


def refuse(value: object, what: str, remedy: str) -> NoReturn:
    """Say in one line what a value is, and what to do.

    >>> refuse(int, "planner", "make one")
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: `planner` is the class int: make one
    """
    if isinstance(value, type):
        shown = f"the class {value.__name__}"
    elif value is None or isinstance(value, str | bool | Real):
        shown = repr(value)[:80]
    else:
        shown = f"of type {type(value).__name__}"
    name = f"`{what}`" if what.isidentifier() else what
    raise ReachcostError(f"{name} is {shown}: {remedy}")

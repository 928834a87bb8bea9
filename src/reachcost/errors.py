"""Exceptions for mistakes that a user can fix, and checks of arguments that raise them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from numbers import Integral, Real
from traceback import extract_tb
from types import UnionType
from typing import Any, NoReturn, get_args


class ReachcostError(ValueError):
    """An error that the user can fix: the message says what is wrong, where, and what to do."""


class ReachcostWarning(UserWarning):
    """Warns of a valid choice that rarely gives the wanted result; the message says what to do."""


def reason_of(error: Exception) -> str:
    """One sentence about an error; errors of other kinds come with their kind and place."""
    if isinstance(error, ReachcostError):
        return str(error)
    where = "".join(f" in {frame.filename}:{frame.lineno}" for frame in extract_tb(error.__traceback__)[-1:])
    return f"{type(error).__name__}: {error}{where}"


NUMBER_KINDS: dict[str, tuple[type, str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "True or False"),
}
"""Field annotations that are checked, with type and description."""


def require_type(value: object, kind: type | UnionType, what: str, remedy: str) -> None:
    """Refuse a value of another type, and a class in place of an instance; numbers of numpy are accepted.

    >>> require_type("5", int, "budget", "give a whole number")
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: `budget` is '5': give a whole number
    """
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    wanted = tuple({int: Integral, float: Real}.get(kind, kind) for kind in kinds)
    truth = isinstance(value, bool) and bool not in kinds
    if truth or isinstance(value, type) or not isinstance(value, wanted):
        refuse(value, what, remedy)


@contextmanager
def foreign_errors(failed: str, remedy: str) -> Iterator[None]:
    """Turn any exception in the block, raised by foreign code or for a damaged file, into one sentence.

    >>> with foreign_errors("the model failed", "fix it"):
    ...     1 / 0
    Traceback (most recent call last):
    reachcost.errors.ReachcostError: the model failed (ZeroDivisionError: division by zero): fix it
    """
    try:
        yield
    except ReachcostError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        raise ReachcostError(f"{failed} ({reason}): {remedy}") from error


def call_foreign(call: Callable[[], Any], failed: str, remedy: str) -> Any:
    """Result of foreign code; its exceptions become one sentence."""
    with foreign_errors(failed, remedy):
        return call()


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The remedy for an unknown name: the known name that resembles it, else all of them.

    >>> did_you_mean("temporl", ["temporal", "stitched"]), did_you_mean("x", ["temporal", "stitched"])
    ('did you mean temporal?', 'choose one of temporal, stitched')
    """
    close = get_close_matches(name, known, 1)
    return f"did you mean {close[0]}?" if close else f"choose one of {', '.join(known)}"


def require_callable(value: object, what: str, remedy: str) -> None:
    """Refuse a class, and everything that cannot be called."""
    if isinstance(value, type) or not isinstance(value, Callable):
        refuse(value, what, remedy)


def require_numbers(instance: Any) -> None:
    """Refuse a dataclass with a field that is annotated as a number or bool and holds something else."""
    for field in fields(instance):
        annotation, _, rest = str(field.type).partition(" | ")
        value = getattr(instance, field.name)
        if annotation in NUMBER_KINDS and rest in ("", "None") and not (rest and value is None):
            kind, remedy = NUMBER_KINDS[annotation]
            require_type(value, kind, f"{field.name} of {type(instance).__name__}", f"give {remedy}")


def refuse(value: object, what: str, remedy: str) -> NoReturn:
    """Raise an error that shows a value and what to do instead.

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

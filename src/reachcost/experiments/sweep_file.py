"""The file of a sweep: what it may hold, and how its lists are combined."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from itertools import product
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from reachcost.errors import ReachcostError
from reachcost.experiments.study import HeadPlan
from reachcost.heads.recipe import Recipe
from reachcost.labels.coverage import SETTINGS as COVERAGES
from reachcost.labels.imagined import Imagination
from reachcost.labels.temporal import SAMPLERS
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.planning.planner import Planner

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


LIKE = "like"
"""Of recipes and planners: whose settings they have, but for those that stand beside it."""
RECIPES = {"ours": Recipe, "paper": Recipe.paper}
PLANNERS = {
    "paper": CEM,
    "replanning": CEM.replanning,
    "improved": CEM.improved,
    "mppi": CEM.mppi,
    "experienced": CEM.experienced,
}
DISCRETE_PLANNERS = {"paper": CategoricalCEM, "experienced": CategoricalCEM.experienced}


LONGEST, LONGEST_TEXT, LONGEST_PART = 2**16, 1000, 255
"""Characters of a file, of a text in it, and bytes of each part of a path, at most."""
MOST, MOST_RUNS = 10_000, 100_000
"""Combinations of the settings of heads, or of planners, and closed loops, at most."""
DEEP = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++\s*+\.\s*+){32}|\[{32}")
"""Tables within tables, or lists within lists, that no sweep has; a name is looked at from its beginning alone."""
LARGEST = 2**32 - 1
"""Largest number: seeds of most programs end there, and nothing here counts further."""
ROUNDS, MOST_ROUNDS = ("budgets", "epochs", "iterations"), 1_000_000
"""Settings that repeat work, and how often at most."""


@dataclass(frozen=True)
class Sweep:
    """What a file says; everything in its lists is combined with everything else."""

    task: str
    """The world, as `--task` names it."""
    models: tuple[str, ...]
    """World models, as `--model` names them."""
    logs: str | Mapping[str, Any] = field(default_factory=dict)
    """What heads learn from: a file, or what the task generates logs with."""
    sets: tuple[str, ...] = ()
    """Evaluation sets; by default the first of the task."""
    episodes: int | None = None
    """Of every set, spread over it; by default all."""
    seeds: tuple[int, ...] = (0,)
    """Of heads and planners; a line is the mean over them."""
    costs: tuple[str, ...] = ()
    """Terminal costs; by default latent distance, every head and every hybrid."""
    hybrids: tuple[float, ...] = ()
    """Weights with which heads are added to latent distance, too."""
    budgets: tuple[int, ...] = ()
    """Actions of an episode; by default those of the set."""
    clamp: bool = True
    """Whether world models see actions clamped to the logged range."""
    heads: Mapping[str, Any] = field(default_factory=dict)
    """Heads by name: a table of settings each."""
    planners: Mapping[str, Any] = field(default_factory=dict)
    """Planners by name: a table of settings each; by default the paper's."""
    name: str = ""
    """What records and table are called; by default as the file."""
    file: str = ""
    """The file, for messages."""

    def head_plans(self) -> dict[str, HeadPlan]:
        """Every head, one for each combination of its settings."""
        return {
            name: _head_plan(settings, where)
            for name, settings, where in _all_combined(self.heads, f"{self.file}: heads")
        }

    def all_planners(self, discrete_actions: int | None) -> dict[str, Planner]:
        """Every planner, one for each combination of its settings."""
        return {
            name: _planner(settings, where, discrete_actions)
            for name, settings, where in _all_combined(self.planners or {"paper": {}}, f"{self.file}: planners")
        }


def read_sweep(file: str, text: str) -> Sweep:
    """The sweep that a file holds.

    Args:
        file: Its name, for messages.
        text: Its content.

    >>> read_sweep("small.toml", "task = 'corridor'\\nmodels = ['exact']").name
    'small'
    """
    if len(text) > LONGEST or DEEP.search(text):
        raise ReachcostError(f"{file} is longer or nested deeper than any sweep: write lists of a few settings")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of many digits is no TOMLDecodeError
        raise ReachcostError(f"{file} is not TOML ({str(error).partition(';')[0]}): mend that place") from error
    _require_usable(document, file)
    document.setdefault("name", Path(file).stem)
    sweep = filled(Sweep, document, file, file=file)
    for name in ("models", "sets", "costs", "seeds", "budgets", "hybrids"):
        twice = next((value for value, count in Counter(getattr(sweep, name)).items() if count > 1), None)
        if twice is not None:
            raise ReachcostError(f"{file}: {name} holds {twice!r} twice: leave one of them out")
    for name, least, given in (
        ("episodes", 1, () if sweep.episodes is None else (sweep.episodes,)),
        ("budgets", 1, sweep.budgets),
        ("seeds", 0, sweep.seeds),
    ):
        if given and min(given) < least:
            raise ReachcostError(f"{file}: {name} holds {min(given)}: give {least} or more")
    return sweep


def _head_plan(given: Mapping[str, Any], where: str) -> HeadPlan:
    settings = dict(given)
    parts: dict[str, Any] = {"recipe": _recipe(settings.pop("recipe", {}), f"{where}.recipe")}
    if isinstance(imagined := settings.get("imagination"), Mapping):
        parts["imagination"] = filled(Imagination, imagined, f"{where}.imagination")
        del settings["imagination"]
    for name, choices in (("sampling", (*SAMPLERS,)), ("coverage", COVERAGES)):
        if settings.get(name, choices[0]) not in choices:
            raise ReachcostError(f"{where}: {name} is {settings[name]!r}: give one of {', '.join(choices)}")
    return filled(HeadPlan, settings, where, **parts)


def _recipe(given: Any, where: str) -> Recipe:
    settings = {LIKE: given} if isinstance(given, str) else given
    if not isinstance(settings, Mapping):
        raise ReachcostError(f"{where} is {given!r}: give one of {', '.join(RECIPES)}, or a table")
    return _like(settings, where, RECIPES, Recipe)


def _planner(given: Mapping[str, Any], where: str, actions: int | None) -> Planner:
    if actions is None:
        return _like(given, where, PLANNERS, CEM)
    return _like(given, where, DISCRETE_PLANNERS, CategoricalCEM, actions=actions)


def _like(
    given: Mapping[str, Any], where: str, makers: Mapping[str, Callable[..., Any]], kind: type, **fixed: Any
) -> Any:
    """What is made like another one, by default like the first, with changes."""
    changes = dict(given)
    like = changes.pop(LIKE, next(iter(makers)))
    if like not in makers:
        raise ReachcostError(f"{where}: {LIKE} is {like!r}: give one of {', '.join(makers)}")
    changes = checked(kind, changes, where, [*fixed])
    with told(where):
        return makers[like](**changes, **fixed)


def _all_combined(tables: Mapping[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Every combination of the settings of every table: its name, the settings, and where they stand."""
    made: dict[str, str] = {}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise ReachcostError(f"{where}.{name} is {table!r}: give a table of settings")
        varied = {path: value for path, value in _leaves(table) if isinstance(value, list)}
        if empty := next((path for path, values in varied.items() if not values), None):
            raise ReachcostError(f"{where}.{name}: {'.'.join(empty)} is empty: give one or more, or leave it out")
        if (count := len(made) + math.prod(map(len, varied.values()))) > MOST:
            raise ReachcostError(f"{where}.{name} makes {count:,} of them: give at most {MOST:,} combinations in all")
        for values in product(*varied.values()):
            chosen = dict(zip(varied, values, strict=True))
            told_apart = [value for path, value in chosen.items() if len(varied[path]) > 1]
            called = "-".join([name, *map(_word, told_apart)])
            if called in made:
                raise ReachcostError(
                    f"{where}.{name} makes {called!r}, as {made[called]} did: name one of them otherwise, or "
                    "leave out what is there twice"
                )
            made[called] = name
            yield called, _replaced(table, chosen), f"{where}.{name}"


def _leaves(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _replaced(
    table: Mapping[str, Any], chosen: Mapping[tuple[str, ...], Any], above: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        name: _replaced(value, chosen, (*above, name))
        if isinstance(value, Mapping)
        else chosen.get((*above, name), value)
        for name, value in table.items()
    }


def _require_usable(part: Any, where: str, name: str = "") -> None:
    """Refuse texts that no path can be, and numbers without end, in any part of a document.

    Args:
        part: A value of TOML.
        where: The place that holds it, for messages.
        name: Whose value it is.
    """
    if isinstance(part, dict):
        for key, value in part.items():
            _require_usable(key, where)
            _require_usable(value, f"{where}.{key}" if name else f"{where}: {key}", key)
    elif isinstance(part, list):
        for value in part:
            _require_usable(value, where, name)
    elif isinstance(part, str):
        if not part.isprintable():
            raise ReachcostError(f"{where} holds {part[:40]!r}: leave out characters that cannot be printed")
        if len(part) > LONGEST_TEXT or any(len(name.encode()) > LONGEST_PART for name in part.split("/")):
            raise ReachcostError(
                f"{where} holds {part[:40]!r}... of {len(part)} characters: give at most {LONGEST_TEXT}, and at most "
                f"{LONGEST_PART} bytes between slashes"
            )
    elif isinstance(part, int | float):
        most = MOST_ROUNDS if name in ROUNDS else LARGEST
        if not abs(part) <= most:  # nan is refused, too
            bits = 0 if isinstance(part, float) else part.bit_length()
            shown = part if bits < 64 else f"a number of {bits} bits"  # Python refuses to write thousands of digits
            raise ReachcostError(f"{where} holds {shown}: give a number of at most {most:,}")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Sweeps: a TOML file of lists becomes a study with one table, with `random` and `oracle` as references."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BaseModel, Field, create_model

from reachcost.core.json_files import read_as
from reachcost.data.logs import Logs
from reachcost.errors import ReachcostError, call_foreign, did_you_mean
from reachcost.experiments.experiment import ORACLE, RANDOM
from reachcost.experiments.rows import BOUNDS, RowPlan
from reachcost.experiments.study import COSTS, CostPlan, HeadPlan, Member, Study, hybrid
from reachcost.experiments.tables import TablePlan, plain_rows
from reachcost.heads.recipe import Recipe
from reachcost.labels.imagined import Imagination
from reachcost.labels.oracle import SETTINGS as COVERAGES
from reachcost.labels.temporal import SAMPLERS
from reachcost.planning.categorical_cem import CategoricalCEM
from reachcost.planning.cem import CEM
from reachcost.planning.planner import Planner
from reachcost.protocols import WorldModel
from reachcost.tasks.contract import Task

REMEDY = "correct that setting (see docs/sweeps.md)"
LIKE = "like"
"""The setting of recipes and planners that names the preset they change."""
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
"""Maximum number of characters of a file, of a text in it, and of bytes of each part of a path."""
MOST, MOST_RUNS = 10_000, 100_000
"""Maximum number of combinations of the settings of heads, or of planners, and of closed loops."""
DEEP = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++\s*+\.\s*+){32}|\[{32}")
"""Tables within tables, or lists within lists, deeper than in any sweep; a name is matched from its beginning only."""
LARGEST = 2**32 - 1
"""Largest number: the largest seed of most programs."""
ROUNDS, MOST_ROUNDS = ("budgets", "epochs", "iterations"), 1_000_000
"""Settings that repeat work, and their maximum."""
NOTE = (
    "A sweep: success and steps from closed loops, each row the mean over the seeds of heads and planners. `raw` is "
    "latent distance, `random` acts at random."
)
RANKED_NOTE = (
    " `oracle` plans with the simulator and the true distance. ρ_geo and rank are from SASC on shared pools, which no "
    "planner changes."
)

Kind = TypeVar("Kind")
Several = Annotated[tuple[Kind, ...], Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Sweep:
    """The settings of a sweep file; everything in its lists is combined with everything else."""

    task: str
    """The world, as for `--task`."""
    models: Several[str]
    """World models, as for `--model`."""
    logs: str | dict[str, Any] = field(default_factory=dict)
    """Logs that heads learn from: a file, or the arguments of `task.generate_logs`."""
    sets: Several[str] = ()
    """Evaluation sets; by default the first of the task."""
    episodes: Positive | None = None
    """Number of episodes of every set, spread over it; by default all."""
    seeds: Several[Annotated[int, Field(ge=0)]] = (0,)
    """Seeds of heads and planners; a row is the mean over them."""
    costs: Several[str] = ()
    """Terminal costs; by default latent distance, every head and every hybrid."""
    hybrids: Several[float] = ()
    """Weights with which heads are also added to latent distance."""
    budgets: Several[Positive] = ()
    """Actions of an episode; by default those of the set."""
    clamp: bool = True
    """Whether world models see actions clamped to the logged range."""
    heads: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Settings of heads by name."""
    planners: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Settings of planners by name; by default the paper's planner."""
    name: str = ""
    """Name of records and table; by default that of the file."""
    file: str = ""
    """The file, for error messages."""

    def head_plans(self) -> dict[str, HeadPlan]:
        """Return a head for each combination of settings, by name."""
        found = _combinations(self.heads, f"{self.file}: heads")
        return {name: _head_plan(settings, where) for name, settings, where in found}

    def all_planners(self, discrete_actions: int | None) -> dict[str, Planner]:
        """Return a planner for each combination of settings, by name."""
        found = _combinations(self.planners or {"paper": {}}, f"{self.file}: planners")
        kind = (PLANNERS, CEM) if discrete_actions is None else (DISCRETE_PLANNERS, CategoricalCEM)
        fixed = {} if discrete_actions is None else {"actions": discrete_actions}
        return {name: _changed(settings, where, *kind, **fixed) for name, settings, where in found}


def read_sweep(file: str, text: str) -> Sweep:
    """Return the sweep in a text; `file` is the name of its file, for error messages.

    >>> read_sweep("small.toml", "task = 'corridor'\\nmodels = ['exact']").name
    'small'
    """
    if len(text) > LONGEST or DEEP.search(text):
        raise ReachcostError(f"{file} is longer or nested deeper than any sweep: write lists of a few settings")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of many digits is another ValueError
        raise ReachcostError(f"{file} is not TOML ({str(error).partition(';')[0]}): correct that place") from error
    _require_usable(document, file)
    _require_known(Sweep, document, file, "file")
    sweep = read_as(Sweep, {"name": Path(file).stem, **document, "file": file}, file, REMEDY)
    for name in ("models", "sets", "costs", "seeds", "budgets", "hybrids"):
        twice = next((value for value, count in Counter(getattr(sweep, name)).items() if count > 1), None)
        if twice is not None:
            raise ReachcostError(f"{file}: {name} holds {twice!r} twice: leave one of them out")
    return sweep


def _require_usable(part: Any, where: str, name: str = "") -> None:
    """Refuse texts that cannot be paths, and numbers that are too large, anywhere in a document."""
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
        if not abs(part) <= most:  # also refuses nan
            bits = 0 if isinstance(part, float) else part.bit_length()
            shown = part if bits < 64 else f"a number of {bits} bits"  # Python refuses to write thousands of digits
            raise ReachcostError(f"{where} holds {shown}: give a number of at most {most:,}")
    else:
        raise ReachcostError(f"{where} holds {part}, a date or time: {REMEDY}")


def _require_known(kind: type, given: Mapping[str, Any], where: str, *hidden: str) -> None:
    """Refuse names that are not fields of a dataclass."""
    known = [part.name for part in fields(kind) if part.name not in hidden]
    for name in given:
        if name not in known:
            raise ReachcostError(f"{where}: there is no `{name}`: {did_you_mean(name, known)}")


def _checked(kind: type, given: Mapping[str, Any], where: str, *hidden: str) -> dict[str, Any]:
    """Return settings that fit the fields of a dataclass, unchanged except that lists become tuples."""
    _require_known(kind, given, where, *hidden)
    read_as(_model_of(kind), dict(given), where, REMEDY)
    return {name: _as_tuple(value) for name, value in given.items()}


@cache
def _model_of(kind: type) -> type[BaseModel]:
    """Return a pydantic model with the fields of a dataclass, all optional, and without its `__post_init__`."""
    optional: dict[str, Any] = {name: (hint, None) for name, hint in get_type_hints(kind).items()}
    return create_model(kind.__name__, **{part.name: optional[part.name] for part in fields(kind)})


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Put a place in front of errors."""
    try:
        yield
    except ReachcostError as error:
        raise ReachcostError(f"{where}: {error}") from error


def _combinations(tables: Mapping[str, Mapping[str, Any]], where: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield every combination of the lists in every table: its name, its settings, and its place in the file."""
    made: dict[str, str] = {}
    for name, table in tables.items():
        place = f"{where}.{name}"
        if (count := len(made) + _count(table, place)) > MOST:
            raise ReachcostError(f"{place} makes {count:,} of them: give at most {MOST:,} combinations in all")
        for words, settings in _expanded(table):
            called = "-".join([name, *words])
            if called in made:
                raise ReachcostError(
                    f"{place} makes {called!r}, as {made[called]} did: rename one of them, or leave out what is there "
                    "twice"
                )
            made[called] = name
            yield called, settings, place


def _count(table: Mapping[str, Any], where: str) -> int:
    """Return the number of combinations in a table, whose lists must not be empty."""
    count = 1
    for name, value in table.items():
        if value == []:
            raise ReachcostError(f"{where}: {name} is empty: give one or more, or leave it out")
        if isinstance(value, Mapping | list):
            count *= _count(value, where) if isinstance(value, Mapping) else len(value)
    return count


def _expanded(table: Mapping[str, Any]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Yield every combination of the lists in a table, with the values that distinguish it as words."""
    choices: list[list[tuple[list[str], Any]]] = []
    for value in table.values():
        if isinstance(value, Mapping):
            choices.append([*_expanded(value)])
        else:
            values = value if isinstance(value, list) else [value]
            words = [str(one).lower() if isinstance(one, bool) else str(one) for one in values]
            choices.append([([word] * (len(values) > 1), one) for word, one in zip(words, values, strict=True)])
    for chosen in product(*choices):
        yield [word for words, _ in chosen for word in words], dict(zip(table, (one for _, one in chosen), strict=True))


def _head_plan(given: Mapping[str, Any], where: str) -> HeadPlan:
    settings = dict(given)
    recipe = settings.pop("recipe", {})
    recipe = {LIKE: recipe} if isinstance(recipe, str) else recipe
    if not isinstance(recipe, Mapping):
        raise ReachcostError(f"{where}.recipe is {recipe!r}: give one of {', '.join(RECIPES)}, or a table")
    parts: dict[str, Any] = {"recipe": _changed(recipe, f"{where}.recipe", RECIPES, Recipe)}
    settings = _checked(HeadPlan, settings, where)
    if isinstance(imagination := settings.pop("imagination", None), Mapping):
        _require_known(Imagination, imagination, f"{where}.imagination")
        parts["imagination"] = Imagination(**imagination)
    for name, choices in (("sampling", (*SAMPLERS,)), ("coverage", COVERAGES)):
        if settings.get(name, choices[0]) not in choices:
            raise ReachcostError(f"{where}: {name} is {settings[name]!r}: give one of {', '.join(choices)}")
    with _located(where):
        return HeadPlan(**settings, **parts)


def _changed(
    given: Mapping[str, Any], where: str, presets: Mapping[str, Callable[..., Any]], kind: type, **fixed: Any
) -> Any:
    """Return a preset, by default the first, with changes."""
    changes = dict(given)
    like = changes.pop(LIKE, next(iter(presets)))
    if like not in presets:
        raise ReachcostError(f"{where}: {LIKE} is {like!r}: give one of {', '.join(presets)}")
    changes = _checked(kind, changes, where, *fixed)
    with _located(where):
        return presets[like](**changes, **fixed)


def sweep_study(
    sweep: Sweep,
    find_task: Callable[[str], Task],
    find_logs: Callable[[Path, Task], Logs],
    find_model: Callable[..., WorldModel],
) -> Study:
    """Return the study that a sweep declares; its one table has the name of the sweep.

    The functions resolve names of a task, of logs for a task, and of a world model for `task`, `logs` and `clamp`.
    """
    with _located(f"{sweep.file}: task"):
        task = find_task(sweep.task)

    @cache
    def logs(world: Task) -> Logs:
        where, given = f"{sweep.file}: logs", sweep.logs
        if isinstance(given, str):
            with _located(where):
                return find_logs(Path(given), world)
        remedy = "give the arguments of the task's generate_logs"
        return call_foreign(lambda: world.generate_logs(**given), f"{where} failed", remedy)

    def model(text: str, world: Task, clamp: bool) -> WorldModel:
        with _located(f"{sweep.file}: models"):
            return find_model(text, task=world, logs=logs(world), clamp=clamp)

    sets, heads = sweep.sets or task.sets[:1], sweep.head_plans()
    if not sets:
        raise ReachcostError(f"{sweep.file}: the task {task.name!r} has no evaluation sets: give it `sets`")
    if unknown := next((name for name in sets if name not in task.sets), None):
        raise ReachcostError(f"{sweep.file}: {task.name} has no set {unknown!r}: choose among {', '.join(task.sets)}")
    planners, hybrids, models = sweep.all_planners(task.discrete_actions), _hybrids(sweep, heads), _labels(sweep)
    costs = _costs(sweep, heads, hybrids)
    first = task.evaluation_set(sets[0])
    groups = {name.replace(" ", "_"): name for name in task.groups(first.starts, first.goals)}
    ranked = task.offers("distance")
    metrics = ("success", "steps", *(("rho_geo", "rank") if ranked else ()), *groups)
    rows = _row_plans(sweep, [*models], sets, planners, costs, BOUNDS if ranked else (RANDOM,))
    with _located(sweep.file):
        return Study(
            name=sweep.name,
            protocol=1,
            task=lambda: task,
            logs={},
            open_logs=logs,
            models={label: partial(model, text) for label, text in models.items()},
            members={label: [Member(label, seed, f"{label}-{seed}") for seed in sweep.seeds] for label in models},
            planner=next(iter(planners.values())),
            evaluation=sets[0],
            heads=heads,
            costs=hybrids,
            groups=groups,
            headings={metric: (f"{name} %", 1) for metric, name in groups.items()},
            tables={sweep.name: TablePlan(NOTE + RANKED_NOTE * ranked, metrics, plain_rows(metrics, lambda: rows))},
        )


def _row_plans(
    sweep: Sweep,
    models: Sequence[str],
    sets: Sequence[str],
    planners: Mapping[str, Planner],
    costs: Sequence[str],
    bounds: Sequence[str],
) -> list[RowPlan]:
    """Return every combination, set by set and budget by budget, each of these with lower and upper reference."""
    parts = sets, sweep.budgets or (None,), planners, models, costs, sweep.seeds
    if (count := math.prod(map(len, parts))) > MOST_RUNS:
        raise ReachcostError(f"{sweep.file} asks for {count:,} closed loops: ask for at most {MOST_RUNS:,}")
    rows: list[RowPlan] = []
    for name, budget in product(sets, sweep.budgets or (None,)):
        protocol = {"evaluation": name, **({} if budget is None else {"budget": budget})}
        words = [name] * (len(sets) > 1) + [f"{budget} actions"] * (len(sweep.budgets) > 1)
        for number, (called, planner) in enumerate(planners.items()):
            changes: dict[str, Any] = {**protocol, **({} if sweep.clamp else {"clamp": False})}
            changes |= {"planner": planner} if number else {}  # the first is that of the study
            setting = ", ".join([*words, *([called] * (len(planners) > 1))])
            rows += [RowPlan(model, cost, changes=changes, setting=setting) for model in models for cost in costs]
        rows += [RowPlan(models[0], bound, changes=protocol, setting=", ".join(words)) for bound in bounds]
    return rows


def _costs(sweep: Sweep, heads: Collection[str], hybrids: Collection[str]) -> list[str]:
    """Return the costs of the table; the name of a head with lists stands for all heads made from these lists."""
    if taken := next((name for name in heads if name in (*COSTS, ORACLE, RANDOM)), None):
        raise ReachcostError(f"{sweep.file}: heads.{taken} has the name of a built-in cost: give it another name")
    known = {name: [name] for name in (*heads, *hybrids, *COSTS)}
    for base in sweep.heads:
        known.setdefault(base, [name for name in heads if name.startswith(f"{base}-")])
    if unknown := next((name for name in sweep.costs if name not in known), None):
        hint = "leave it out, it is always there" if unknown in BOUNDS else f"choose among {', '.join(known)}"
        raise ReachcostError(f"{sweep.file}: costs holds {unknown!r}: {hint}")
    found = [name for cost in sweep.costs for name in known[cost]] or ["raw", *heads, *hybrids]
    return [*dict.fromkeys(found)]


def _hybrids(sweep: Sweep, heads: Collection[str]) -> dict[str, CostPlan]:
    """Return every head with every weight, by name."""
    if (count := len(heads) * len(sweep.hybrids)) > MOST:
        raise ReachcostError(f"{sweep.file}: hybrids makes {count:,} costs: ask for at most {MOST:,}")
    made: dict[str, CostPlan] = {}
    for head, weight in product(heads, sweep.hybrids):
        name = f"{head}-hybrid" if weight == 1 else f"{head}-hybrid-{weight:g}"
        if name in made or name in heads:
            raise ReachcostError(
                f"{sweep.file}: hybrids holds {weight!r}, but there is another {name!r}: give weights that differ in "
                "six digits, and other names to heads"
            )
        made[name] = hybrid(head, weight)
    return made


def _labels(sweep: Sweep) -> dict[str, str]:
    """Return world models by their label, which is the name of a directory."""
    labels: dict[str, str] = {}
    for text in sweep.models:
        label = text.replace("/", "-").replace(":", "-").strip(".-")
        if label in labels:
            raise ReachcostError(f"{sweep.file}: models holds {labels[label]!r} and {text!r}: rename one of them")
        labels[label] = text
    return labels

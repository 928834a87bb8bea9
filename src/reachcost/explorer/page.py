"""The page itself: what can be asked for, two maps side by side, and the rounds of the planner."""

from __future__ import annotations

from typing import Any

import numpy as np

from reachcost.costs.latent import unit_of
from reachcost.explorer.engine import Engine
from reachcost.explorer.requests import CANDIDATES, ITERATIONS, SEEDS
from reachcost.explorer.responses import handles_of
from reachcost.report.html import Markup, asset, joined, page, tag
from reachcost.tasks.contract import Task
from reachcost.tasks.plane import Handle

SIDES = ("left", "right")
LOOKED_AT = 200
"""Episodes among which the one to begin with is chosen."""
MOST = 0.8
"""Share of them whose detour is shorter."""


def explorer_page(engine: Engine) -> str:
    """The whole page of an engine."""
    task = engine.task
    start, goal = first_places(task)
    plane = task.plane()
    data = {
        "plane": {"low": plane.low, "high": plane.high, "cell": plane.cell},
        "handles": handles_of(task),
        "units": {name: unit_of(name, engine.cost(name), task) for name in engine.costs},
        "distance_unit": task.distance_unit,
        "start": start,
        "goal": goal,
    }
    first = engine.costs[0], engine.costs[min(1, len(engine.costs) - 1)]
    maps = (_map(side, engine.costs, cost) for side, cost in zip(SIDES, first, strict=True))
    body = joined(
        tag("a", "To the maps", href="#maps", class_="skip"),
        _head(task.name),
        tag(
            "main",
            _controls(engine),
            tag("section", *maps, id="maps", class_="side-by-side", aria_label="Maps"),
            tag("p", id="note", class_="note row", aria_live="polite", hidden=True),
            _rounds(),
            class_="stack",
        ),
    )
    script, style = (asset(f"explore.{kind}", "reachcost.explorer") for kind in ("js", "css"))
    return page(f"{task.name} - reachcost explore", body, [script], data, talks=True, styles=[style])


def first_places(task: Task) -> tuple[list[float], list[float]]:
    """A start and a goal to begin with, (x, y) each: one that needs a longer detour than most."""
    plane = task.plane()
    if task.sets:
        found = task.evaluation_set(task.sets[0])
        starts, goals = found.starts[:LOOKED_AT], found.goals[:LOOKED_AT]
    else:
        free = plane.grid().reshape(-1, 2)
        states = plane.states(free[plane.free(free)][[0, -1]])
        starts, goals = states[:1], states[1:]
    here, there = plane.places(starts), plane.places(goals)
    straight = np.maximum(np.linalg.norm(np.asarray(there, float) - here, axis=1), plane.cell)
    way = task.distance(starts, goals) if task.offers("distance") else straight
    detours = np.argsort(np.where(np.isfinite(way), way, 0) / straight, kind="stable")
    chosen = detours[int(MOST * len(detours))]
    return [float(part) for part in here[chosen]], [float(part) for part in there[chosen]]


def _head(name: str) -> Markup:
    what = "One planner, one frozen world model, the same random numbers, two terminal costs."
    how = "Click a goal, drag the start, and watch where each cost leads."
    return tag("header", tag("h1", f"Explore {name}"), tag("p", f"{what} {how}", class_="soft"), class_="top")


def _controls(engine: Engine) -> Markup:
    """What can be asked for, beside places."""
    handles = engine.task.handles() if engine.task.offers("handles") else ()
    chosen = [tag("option", name, value=name) for name in engine.models]
    settings = tag(
        "div",
        tag("label", "world model", tag("select", *chosen, id="model"), class_="broad"),
        _number("candidates", engine.candidates, CANDIDATES),
        _number("iterations", engine.iterations, ITERATIONS),
        _number("seed", 0, SEEDS),
        *(_slider(handle) for handle in handles),
        class_="controls",
    )
    buttons = tag(
        "div",
        tag("button", "Plan", type="submit", class_="main"),
        tag("button", "Other places", type="button", id="elsewhere"),
        tag("button", "Reset layout", type="button", id="reset") if handles else None,
        _clicks(),
        tag("p", id="status", role="status", aria_live="polite", class_="last"),
        class_="row",
    )
    details = tag("details", tag("summary", "Settings"), settings, id="settings", open=True)
    return tag(
        "form",
        buttons,
        details,
        id="asked",
        class_="card stack",
        autocomplete="off",
        novalidate=True,
        aria_label="What to plan",
    )


def _clicks() -> Markup:
    choices = [
        tag("label", tag("input", type="radio", name="sets", value=name, checked=name == "goal"), name)
        for name in ("start", "goal")
    ]
    return tag("fieldset", tag("legend", "a click sets the"), tag("span", *choices, class_="row"))


def _number(name: str, value: int, limits: tuple[int, int]) -> Markup:
    low, high = limits
    return tag("label", name, tag("input", type="number", id=name, value=value, min=low, max=high, step=1))


def _slider(handle: Handle) -> Markup:
    step: Any = "any" if handle.positions is None else 1 / (handle.positions - 1)
    attributes = {"type": "range", "min": 0, "max": 1, "step": step, "value": handle.value, "data_handle": handle.name}
    return tag("label", handle.name, tag("input", **attributes))


def _map(side: str, costs: tuple[str, ...], chosen: str) -> Markup:
    """One map: its cost, the world under it, what colours mean, how the episode came out."""
    options = [tag("option", name, value=name, selected=name == chosen) for name in costs]
    return tag(
        "article",
        tag("label", "terminal cost", tag("select", *options, class_="cost")),
        tag("canvas", tabindex=0, role="application", class_="map"),
        tag("div", class_="scale"),
        tag("p", class_="here small soft"),
        tag("p", class_="outcome", aria_live="polite"),
        class_="card stack",
        aria_label=f"The {side} map",
    )


def _rounds() -> Markup:
    """The rounds of the planner, one after the other."""
    shown = {"pool": "candidates", "ways": "ways of the elites"}
    return tag(
        "section",
        tag("h2", "Round by round"),
        tag(
            "div",
            tag("button", "Play", type="button", id="play"),
            tag("label", "round", tag("input", type="range", id="round", min=0, max=0, value=0, step=1), class_="wide"),
            tag("output", id="when", for_="round"),
            class_="row",
        ),
        tag(
            "div",
            *(tag("label", tag("input", type="checkbox", id=name, checked=True), text) for name, text in shown.items()),
            class_="row",
        ),
        tag("ul", id="key"),
        tag(
            "p",
            "A dot is where a candidate really ends, in the colour of the cost that the planner gave it; elites are "
            "ringed. On a map, arrow keys move a cursor, ", tag("kbd", "Enter"), " sets what a click does, ",
            tag("kbd", "S"), " the start, ", tag("kbd", "G"), " the goal.",
            class_="small soft",
        ),
        class_="card stack",
        aria_label="Rounds of the planner",
    )  # fmt: skip

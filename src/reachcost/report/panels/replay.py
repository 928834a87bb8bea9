"""Episodes, step by step, under several costs side by side."""

from __future__ import annotations

from reachcost.report.html import Markup, tag
from reachcost.report.material import Material
from reachcost.report.panels.fields import FROM_RECORDS
from reachcost.report.panels.section import cannot, section
from reachcost.report.panels.success import plain
from reachcost.report.scene import Scene

HEADING = "Watch episodes"
ANY = "any"


def replay(material: Material) -> Markup:
    """The panel; scripts fill it."""
    scene = material.scene
    if scene is None:
        return cannot("replay", HEADING, FROM_RECORDS)
    if not any(episode.ways for episode in scene.episodes):
        return cannot("replay", HEADING, scene.without.get("replay", "No episode was kept."))
    costs = [way.cost for way in next(episode for episode in scene.episodes if episode.ways).ways]
    count = len(scene.episodes)
    shown = f"{count} of {scene.of} episodes, of many kinds" if scene.of > count else f"{count} episodes"
    lead = f"The same start, goal and random numbers under each cost; {shown}."
    if others := sum(1 for other in material.scenes if other.episodes and not {*other.costs} <= {*scene.costs}):
        lead += f" Scenes with other costs are in these records, too ({others}): report them by themselves."
    player = tag(
        "div",
        _controls(),
        tag("div", _goal(scene), *(_stage(cost, scene) for cost in costs), class_="side-by-side narrow"),
        tag("ul", id="replay-key"),
        tag("div", *_filters(scene, costs[0]), class_="row"),
        tag("p", class_="small soft", id="replay-said", role="status", aria_live="polite"),
        class_="card stack",
        id="player",
    )
    return section("replay", HEADING, player, lead=lead)


def _filters(scene: Scene, first: str) -> list[Markup]:
    ended = sorted({way.outcome for episode in scene.episodes for way in episode.ways if way.cost == first})
    kinds = sorted({episode.group for episode in scene.episodes if episode.group})
    parts = [tag("label", "episode", tag("select", id="replay-episode"))]
    if len(ended) > 1:
        choices = [tag("option", "in any way", value=""), *(tag("option", plain(name), value=name) for name in ended)]
        parts.append(
            tag("label", tag("span", tag("code", first), " ended"), tag("select", *choices, id="replay-outcome"))
        )
    if len(kinds) > 1:
        choices = [tag("option", ANY, value=""), *(tag("option", name, value=name) for name in kinds)]
        parts.append(tag("label", "kind", tag("select", *choices, id="replay-group")))
    return parts


def _stage(cost: str, scene: Scene) -> Markup:
    way = next(way for episode in scene.episodes for way in episode.ways if way.cost == cost)
    seen = tag("canvas", class_="seen", role="img", aria_label=f"frame under {cost}") if way.frames else None
    told = tag("p", class_="told soft")
    heading = tag("figcaption", tag("h3", tag("code", cost), " ", tag("span", class_="badge ended")))
    if not way.places:
        return tag("figure", heading, seen, told, class_="way", data_cost=cost)
    drawn = tag("canvas", class_="map", role="img", aria_label=f"path under {cost}")
    under = tag("div", seen, told, class_="under")
    return tag("figure", heading, drawn, tag("div", class_="scale"), under, class_="way", data_cost=cost)


def _goal(scene: Scene) -> Markup | None:
    """The goal as a frame, where no map shows it."""
    if scene.plane is not None or not any(episode.goal_frame for episode in scene.episodes):
        return None
    seen = tag("canvas", class_="seen", role="img", aria_label="frame of the goal")
    return tag("figure", tag("figcaption", tag("h3", "goal")), seen, class_="goal-frame")


def _controls() -> Markup:
    buttons = [
        tag("button", "Play", type="button", id="replay-play", class_="main"),
        tag("button", "◀", tag("span", "one step back", class_="sr-only"), type="button", id="replay-back"),
        tag("button", "▶", tag("span", "one step on", class_="sr-only"), type="button", id="replay-on"),
    ]
    slider = tag("input", type="range", min=0, max=1, value=0, step=1, id="replay-step", aria_label="step")
    return tag("div", *buttons, tag("span", slider, class_="grow"), class_="row controls")

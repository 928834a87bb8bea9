"""What costs say about every place or, where the world is no plane, which logged states they take for near."""

from __future__ import annotations

from reachcost.report.html import Markup, tag
from reachcost.report.material import Material
from reachcost.report.panels.section import cannot, number, section
from reachcost.report.scene import Neighbourhood, Neighbours, Scene, Strip

HEADING = "What each cost says about the world"
FROM_RECORDS = (
    "These records hold outcomes alone: the command that made them draws episodes and maps if it is given --report, "
    "and audits keep theirs beside --out, in a file that ends in .scene.json."
)


def fields(material: Material) -> Markup:
    """The panel: maps, or neighbours, or why there are none."""
    scene = material.scene
    if scene is None:
        return cannot("fields", HEADING, FROM_RECORDS)
    if any(episode.fields for episode in scene.episodes):
        return _maps(scene)
    if scene.neighbourhoods:
        why = (
            f"{scene.without.get('fields', '')} Instead, for some logged goals, the states that each cost puts nearest."
        )
        return section(
            "fields",
            HEADING,
            *map(_neighbourhood, scene.neighbourhoods, range(1, 1 + len(scene.neighbourhoods))),
            lead=why.strip(),
        )
    reasons = [scene.without[name] for name in ("fields", "neighbours") if name in scene.without]
    return cannot("fields", HEADING, " ".join(reasons) or "There are no maps in this scene.")


def _maps(scene: Scene) -> Markup:
    mapped = [episode for episode in scene.episodes if episode.fields]
    names = [name for name in scene.costs if name in mapped[0].fields]
    options = [tag("option", f"of episode {episode.number}", value=episode.number) for episode in mapped]
    chosen = tag("label", "goal", tag("select", *options, id="field-goal"))
    figures = [
        tag(
            "figure",
            tag("figcaption", tag("h3", tag("code", name))),
            tag("canvas", class_="field", data_cost=name, role="img", aria_label=f"map of {name} for a goal"),
            tag("div", data_scale=name),
        )
        for name in names
    ]
    lead = (
        "The cost of ending at each place, for one goal: dark is cheap, light is expensive, lines join equal costs. "
        "A planner slides down to the darkest place it can see."
    )
    key = tag("ul", id="field-key")
    return section(
        "fields",
        HEADING,
        tag(
            "div",
            tag("div", chosen, key, class_="row"),
            tag("div", *figures, class_="side-by-side narrow"),
            class_="card stack",
        ),
        lead=lead,
    )


def _neighbourhood(near: Neighbourhood, number_: int) -> Markup:
    goal = tag("div", tag("h3", f"Goal {number_}"), picture(near.goal, f"goal {number_}"), class_="goal")
    rows = [_nearest(one, near.unit) for one in near.nearest]
    told = tag(
        "p",
        f"Nearest first, of {near.pool} logged states; below each, how far it is from the goal, in {near.unit}.",
        class_="soft small",
    )
    return tag("div", tag("div", goal, tag("div", *rows, told, class_="stack"), class_="neighbourhood"), class_="card")


def _nearest(near: Neighbours, unit: str) -> Markup:
    known = [far for far in near.apart if far is not None]
    mean = f"on average {number(sum(known) / len(known))}, in {unit}" if known else f"{unit} unknown"
    lost = len(near.apart) - len(known)
    items = [
        tag("li", picture(frame, f"{_far(far)} {unit} from the goal"), tag("span", _far(far), aria_hidden="true"))
        for frame, far in zip(near.frames, near.apart, strict=False)
    ]
    said = f" {mean}{f', {lost} without a way' if lost and known else ''}"
    return tag(
        "div",
        tag("h4", tag("code", near.cost), tag("span", said, class_="soft small")),
        tag("ol", *items, class_="frames"),
    )


def _far(far: float | None) -> str:
    return "–" if far is None else number(far)


def picture(strip: Strip, words: str) -> Markup:
    """One frame."""
    return tag("img", src=strip.image, alt=words, class_="frame")

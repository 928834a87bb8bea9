"""How a head learned: its curve, its labels, and the proof that it never saw the evaluation set."""

from __future__ import annotations

from reachcost.report.charts import curve
from reachcost.report.html import Markup, joined, tag
from reachcost.report.material import Material
from reachcost.report.panels.section import facts, number, scrolled_table, section
from reachcost.report.training import Errors, Training

HEADINGS = (("validation", ""), ("loss", "number"), ("RMSE, steps", "number"))
HEADS = 6
"""Heads that are shown."""
EPOCHS = 400
"""Epochs of a curve, at most."""


def learning(material: Material) -> Markup | None:
    """The panel, where a head is among the material."""
    if not material.heads:
        return None
    shown = list(material.heads.items())[:HEADS]
    cards = [tag("div", tag("h3", name), *_head(record), class_="card stack") for name, record in shown]
    more = len(material.heads) - HEADS
    left = tag("p", f"{more} further heads are not shown.", class_="soft") if more > 0 else None
    constant = any(record.references.constant.loss is not None for _, record in shown)
    lead = "Error on pairs of held-out episodes, by epoch, on a scale from 0"
    lead += "; the dashed line is the best constant, which knows nothing." if constant else "."
    return section("learning", "How the head learned", tag("div", *cards, class_="side-by-side wide"), left, lead=lead)


def _head(record: Training) -> list[Markup | None]:
    drawn, kept_out = record.pairs, record.pairs.exclusion
    told = {
        "labels": drawn.labels,
        "head seed": record.seed,
        "pairs of an epoch": drawn.train_pairs,
        "validation pairs": drawn.validation_pairs,
        "held-out episodes": drawn.held_out_episodes,
        "evaluation episodes kept out": kept_out.excluded_episodes,
        "pairs that touch them": kept_out.overlapping_pairs,
        "world model": drawn.model and drawn.model.name,
        "sha256 of the logs": drawn.logs_sha256 and f"{drawn.logs_sha256[:16]}…",
    }
    return [_curve(record), _errors(record), facts(told)]


def _curve(record: Training) -> Markup | None:
    losses = [epoch.validation_loss for epoch in record.curve[:EPOCHS] if epoch.validation_loss is not None]
    if len(losses) < 2:
        return None
    constant = record.references.constant.loss
    said = (
        f"validation loss, {number(losses[0])} after the first of {len(losses)} epochs, {number(min(losses))} at best"
    )
    drawn = curve([("series-1", losses)], [] if constant is None else [constant])
    return joined(drawn, tag("p", said, class_="soft small"))


def _errors(record: Training) -> Markup | None:
    """Validation error beside those of heads that cannot know anything."""
    lines = {
        "this head": Errors(record.validation_loss, record.validation_rmse),
        "best constant": record.references.constant,
        "shuffled labels": record.references.shuffled or Errors(),
    }
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            *(tag("td", number(value), class_="number") for value in (one.loss, one.rmse)),
        )
        for name, one in lines.items()
        if one.loss is not None and one.rmse is not None
    ]
    return scrolled_table("validation error", HEADINGS, rows) if rows else None

"""Planning inside stable-worldmodel: its `CEMSolver` with a repaired model against the same solver with the plain one.

The plain model scores candidates by latent distance, the repaired one by a head of the paper's size; both are of
official size with the same weights. Their plans differ, as they should.
"""

from __future__ import annotations

from functools import partial

import torch

from reachcost.heads.recipe import Recipe
from reachcost.planning.cem import CEM
from reachcost.swm.costs import RepairedModel
from reachcost.worldmodels.public import PublicArchitecture
from reachcost_tools.bench.entry import Entry, Side, Sides
from reachcost_tools.bench.models import official, random_frames
from reachcost_tools.bench.peers import Family, information, normalised, public_model, solve
from reachcost_tools.bench.plans import SEED

TARGET = 1.4
"""Of every entry here: how many times as fast as with the plain model a plan with the repaired one has to be."""
FAMILIES: tuple[Family, ...] = ("LeWM", "PLDM")


def inside_entries() -> list[Entry]:
    """A line for each family of models."""
    return [
        Entry(
            f"inside CEMSolver, repaired {family} official history 1, 1 thread",
            f"CEMSolver with RepairedModel(model, head) against CEMSolver with the plain {family}",
            partial(repaired_against_plain, family),
            "plan",
            TARGET,
            against="swm",
        )
        for family in FAMILIES
    ]


def repaired_against_plain(
    family: Family, architecture: PublicArchitecture | None = None, planner: CEM | None = None, threads: int = 1
) -> Sides:
    """One plan each, from the same frames and random numbers."""
    planner, model = planner or CEM(), official(architecture or PublicArchitecture(history=1))
    plain = public_model(model, family)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        head = Recipe.paper().build(model.latent_dim)
    info = information(*normalised(random_frames(2, model.parts.pixels)).chunk(2))
    ours, theirs = (partial(solve, cost, info, planner, SEED) for cost in (RepairedModel(plain, head), plain))
    return Sides(Side(ours, threads=threads), Side(theirs, threads=threads))

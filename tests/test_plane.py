"""Maps of worlds, costs at their places, and layouts that can be changed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import reachcost as rc
from reachcost.costs.maps import CostMap
from reachcost.errors import ReachcostError
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.worldmodels.jepa import JepaWorldModel

MAP = rc.tasks.TwoRoom().plane()


@pytest.mark.parametrize("name", ["tworoom", "toponav"])
def test_states_of_free_places_are_at_these_places(name: str) -> None:
    plane = rc.make_task(name).plane()
    places = plane.grid().reshape(-1, 2)
    free = places[plane.free(places)]
    assert 0.7 < len(free) / len(places) < 1
    assert np.abs(plane.places(plane.states(free)) - free).max() <= plane.cell / 2


def test_a_field_is_the_cost_of_each_place(world: rc.tasks.TwoRoom, lewm: JepaWorldModel) -> None:
    goals = np.array([[40, 40], [180, 60]], np.float32)
    found = CostMap(world, lewm).field(rc.LatentMSE(), goals)
    column, row = 5, 30
    place = world.plane().grid()[row, column][None].astype(np.float32)
    here, goal = lewm.encode(world.observe(place)), lewm.encode(world.observe(goals[1:]))
    torch.testing.assert_close(found[1, row, column], float(rc.LatentMSE()(here[None], goal)), rtol=1e-4, atol=1e-5)
    assert np.isnan(found[:, row, found.shape[2] // 2]).all()  # in the wall


def test_a_field_of_the_oracle_distance_is_minimal_at_the_goal(task: rc.tasks.TopoNav, model: ExactTopoNav) -> None:
    goal = task.evaluation_set().goals[:1]
    field = CostMap(task, model).field(rc.costs.OracleGeodesic(model), goal)[0]
    assert field[goal[0, 1], goal[0, 0]] == np.nanmin(field) == 0
    assert np.isnan(field).sum() == field.size - len(task.cells)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "swapped places": (
        {"plane": lambda task: replace(MAP, states=lambda places: np.float32(places[:, ::-1]))},
        "places and states",
    ),
    "too small": ({"plane": lambda task: replace(MAP, low=(0, 0), high=(10, 10))}, "low and high"),
    "a fixed door": ({"moved": lambda task, name, value: task}, r"moved\('door', 1.0\)"),
}


@pytest.mark.parametrize(("parts", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_map_is_refused(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        rc.check_task(type("Wrong", (rc.tasks.TwoRoom,), parts)())


def test_the_door_and_the_wall_of_tworoom_can_be_moved(world: rc.tasks.TwoRoom) -> None:
    door, wall = world.handles()
    assert world.moved("door", door.value).world == world.moved("wall", wall.value).world == world.world
    turned = world.moved("wall", 1.0).moved("door", 0.5)
    assert turned.layout == rc.tasks.Layout(wall="horizontal", doors=((112.0, 14.0),))
    assert [handle.place for handle in turned.handles()] == [(112.0, 112.0), (200.0, 112.0)]
    assert turned.plane().free(np.array([door.place, turned.handles()[0].place])).all()
    for name, value in (("roof", 0.5), ("door", 1.5), ("door", np.nan)):
        with pytest.raises(ReachcostError, match=name):
            world.moved(name, value)


def test_worlds_name_their_world_models(world: rc.tasks.TwoRoom) -> None:
    named = [name for task in ("tworoom", "toponav", "pusht") for name in rc.make_task(task).models]
    assert {*named} == {*rc.zoo(), "reachcost.tasks:ExactTopoNav"}
    assert world.moved("door", 0.9).models == ("lewm-layouts-3072",)
    assert rc.tasks.TwoRoom(rc.tasks.Layout(thickness=20)).models == ()

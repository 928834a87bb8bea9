"""Small tasks, models, logs and heads that many tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest

# Fixtures import torch when they run: the process that distributes tests to workers does not need it.
if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from reachcost.data.evaluation import EvaluationSet
    from reachcost.data.latents import Latents
    from reachcost.heads.kinds import PairHead
    from reachcost.labels.temporal import TemporalPairs
    from reachcost.tasks.toponav.features import ExactTopoNav
    from reachcost.tasks.toponav.task import TopoNav
    from reachcost.tasks.tworoom import TwoRoom
    from reachcost.worldmodels.jepa import JepaWorldModel

# Shells start background jobs with interrupts ignored, and some tests send interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    """Tests do not fail because a machine is busy."""
    from hypothesis import HealthCheck, settings

    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")


def pytest_collection_finish() -> None:
    """Exclude imported modules from garbage collection, which would take half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests do not use the user's cache of latents; workers share one cache, like several commands of a user."""
    base = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REACHCOST_CACHE", str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"))
        yield


@pytest.fixture(scope="session")
def task() -> TopoNav:
    from reachcost.tasks.toponav.task import TopoNav

    return TopoNav()


@pytest.fixture(scope="session")
def model(task: TopoNav) -> ExactTopoNav:
    from reachcost.tasks.toponav.features import ExactTopoNav

    return ExactTopoNav(task)


@pytest.fixture(scope="session")
def evaluation(task: TopoNav) -> EvaluationSet:
    return task.evaluation_set()


@pytest.fixture(scope="session")
def latents(task: TopoNav, model: ExactTopoNav) -> Latents:
    from reachcost.data.latents import encode_logs

    return encode_logs(model, task.generate_logs(episodes=300))


@pytest.fixture(scope="session")
def pairs(latents: Latents, evaluation: EvaluationSet) -> TemporalPairs:
    from reachcost.labels.temporal import TemporalPairs

    return TemporalPairs(latents.without(evaluation), count=6000, validation=1000, holdout=0.1)


@pytest.fixture(scope="session")
def head(pairs: TemporalPairs) -> PairHead:
    from reachcost.fitting.fit import fit
    from reachcost.heads.recipe import Recipe

    recipe = Recipe.paper(hidden=32, scale=29, epochs=3, batch_size=256, learning_rate=1e-2)
    return cast("PairHead", fit(pairs, recipe, seed=1))


@pytest.fixture(scope="session")
def world() -> TwoRoom:
    from reachcost.tasks.tworoom import TwoRoom

    return TwoRoom()


@pytest.fixture(scope="session")
def lewm() -> JepaWorldModel:
    from reachcost.worldmodels.loading import load_world_model

    return load_world_model("lewm-tworoom-3072")


@pytest.fixture(scope="session")
def logged(world: TwoRoom, lewm: JepaWorldModel) -> Latents:
    from reachcost.data.latents import encode_logs

    return encode_logs(lewm, world.generate_logs(400))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from tests.browser import started

    with started() as running:
        yield running

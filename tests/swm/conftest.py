"""The real package, imported before any test needs it."""

from collections.abc import Iterator

import pytest
import torch
from loguru import logger

from reachcost.swm.evaluation import import_stable_worldmodel

import_stable_worldmodel()  # before any test module imports it by itself


@pytest.fixture(scope="session", autouse=True)
def real_package() -> Iterator[None]:
    torch.set_num_threads(1)  # what its environments draw is too small for two
    logger.disable("stable_worldmodel")
    yield
    logger.enable("stable_worldmodel")

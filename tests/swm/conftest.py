"""The real package, imported before any test needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reachcost.swm.package import import_stable_worldmodel


@pytest.fixture(scope="session", autouse=True)
def real_package() -> Iterator[None]:
    import_stable_worldmodel()
    from loguru import logger

    logger.disable("stable_worldmodel")
    yield
    logger.enable("stable_worldmodel")

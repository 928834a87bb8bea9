"""A cluster of several nodes on this machine, for all tests."""

from collections.abc import Iterator

import pytest

from reachcost.experiments.cells.ray_tasks import quiet

from .nodes import Nodes

quiet()  # before it is imported, here and in processes that are started here
pytest.importorskip("ray", reason="these tests need Ray: make test-ray")


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    nodes = Nodes(2)
    yield nodes
    nodes.close()

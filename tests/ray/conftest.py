"""A cluster of several nodes on this machine, for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .nodes import Nodes

pytest.importorskip("ray", reason="these tests need Ray: make test-ray")


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    nodes = Nodes(2)
    yield nodes
    nodes.close()

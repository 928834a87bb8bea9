"""Work in pieces uses every core, and no bit depends on their number."""

import threading
import time
from collections.abc import Iterator
from typing import ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reachcost as rc
from reachcost.core.parallel import LARGEST, one_thread, parallel_map, piece_size, reserve_threads
from reachcost.core.seeding import EpisodeStreams
from reachcost.protocols import Observations


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@given(st.integers(1, 5000))
def test_pieces_have_one_size_with_little_padding(count: int) -> None:
    size = piece_size(count)
    assert 1 <= size <= LARGEST
    assert -count % size < -(-count // size)  # padding: less than one candidate per piece


def test_results_of_several_threads_are_in_order(two_threads: None) -> None:
    seen: set[int] = set()

    def work(number: int) -> int:
        seen.add(threading.get_ident())
        assert torch.get_num_threads() == 1
        assert not torch.is_grad_enabled()
        return number**2

    with torch.no_grad():
        assert parallel_map(work, range(7)) == [number**2 for number in range(7)]
    assert len(seen) == 2
    assert torch.get_num_threads() == 2


def test_other_pieces_stop_after_a_failure(two_threads: None) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number == 0:
            raise ZeroDivisionError
        time.sleep(0.02)
        done.append(number)

    with pytest.raises(ZeroDivisionError):
        parallel_map(work, range(40))
    ended = len(done)
    time.sleep(0.1)
    assert len(done) == ended < 20
    assert torch.get_num_threads() == 2
    assert parallel_map(work, []) == []


def test_threads_have_the_modes_of_their_caller(two_threads: None) -> None:
    def modes(_: int) -> tuple[bool, bool]:
        return torch.is_autocast_enabled("cpu"), torch.ones(2).is_inference()

    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        assert parallel_map(modes, range(4)) == [(True, True)] * 4
    assert parallel_map(modes, range(4)) == [(False, False)] * 4


def test_later_threads_have_the_same_number_of_torch_threads(two_threads: None) -> None:
    with reserve_threads():
        parallel_map(lambda number: number, range(4))
    parallel_map(lambda number: number, range(4))
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert found == [2]


def test_custom_models_use_every_thread(two_threads: None) -> None:
    class Own:
        latent_dim, action_dim = 2, 2
        threads: ClassVar[list[int]] = []

        def encode(self, observations: Observations) -> torch.Tensor:
            return torch.as_tensor(observations["state"])

        def rollout(self, context: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
            self.threads.append(torch.get_num_threads())
            return context[:, -1, None] + actions.sum(2)

    here, goal = torch.zeros(2, 1, 2)
    streams = EpisodeStreams(0, "plan", [0], 0)
    rc.CEM(iterations=2).plan(rc.PlanContext(Own(), rc.LatentMSE(), here[:, None], goal, streams))
    assert Own.threads == [2, 2]
    assert torch.get_num_threads() == 2


def test_reserved_threads_are_restored(two_threads: None) -> None:
    def share() -> int:
        return len(set(parallel_map(lambda _: threading.get_ident(), range(8))))

    with reserve_threads():
        assert torch.get_num_threads() == 1
        assert share() == 2
        with reserve_threads():
            assert share() == 2
        with one_thread():
            assert share() == 1
        assert share() == 2
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("planner", [rc.CEM(iterations=2), rc.CEM(candidates=75, elites=8, iterations=2)])
def test_one_plan_is_the_same_with_one_thread_and_with_two(planner: rc.CEM, two_threads: None) -> None:
    model, head = rc.load_world_model("lewm-tworoom-3072"), rc.heads.EmbeddingHead(192)
    start, goal = torch.randn(2, 3, 192, generator=torch.Generator().manual_seed(0))

    def plan(rows: slice) -> torch.Tensor:
        streams = EpisodeStreams(0, "plan", range(3)[rows], 0)
        return planner.plan(rc.PlanContext(model, rc.HeadCost(head), start[rows, None], goal[rows], streams))

    with torch.no_grad():
        together = plan(slice(3))
        torch.set_num_threads(1)
        assert torch.equal(plan(slice(3)), together)
        assert torch.equal(plan(slice(1, 2)), together[1:2])

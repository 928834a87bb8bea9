"""Goal-conditioned inverse dynamics: a policy from logs without a planner."""

import numpy as np
import pytest
import torch

import reachcost as rc
from reachcost.errors import ReachcostError
from reachcost.labels.pairs import PairSet
from reachcost.peers.budget_and_inverse import actions_between
from reachcost.protocols import Observations

QUICK = rc.peers.InverseRecipe(hidden=32, layers=2, epochs=6, learning_rate=1e-2)


def logs_of(steps: list[tuple[np.ndarray, np.ndarray]]) -> rc.Logs:
    """Logs of the states [E, ...] and actions [E, ...] of every step."""
    columns = [np.stack(part, 1).reshape(-1, part[0].shape[1]) for part in zip(*steps, strict=True)]
    single = [column.astype(np.float32) if column.dtype.kind == "f" else column for column in columns]
    return rc.Logs(dict(zip(("state", "action"), single, strict=True)), np.full(len(steps[0][0]), len(steps)))


class Plain(rc.Task):
    """A point in the plane that moves by at most 1 in each direction."""

    name, action_budget, action_dim = "plain", 20, 2

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return (states + np.clip(actions, -1, 1)).astype(np.float32)

    def observe(self, states: np.ndarray) -> Observations:
        return {"state": states}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.abs(states - goals).max(1) < 1

    def generate_logs(self, episodes: int, seed: int = 0) -> rc.Logs:
        """Noisy walks towards a target; actions are often clipped at the bounds."""
        rng, rows = np.random.default_rng(seed), 16
        here, aim = rng.uniform(-8, 8, (2, episodes, 2))
        taken = []
        for _ in range(rows):
            action = np.clip(np.clip(aim - here, -1, 1) + rng.normal(0, 2, here.shape), -1, 1)
            taken.append((here, action))
            here = here + action
        return logs_of(taken)


class Position:
    """Encodes the position; a policy needs no dynamics."""

    latent_dim, fingerprint = 2, "position"

    def __init__(self, logs: rc.Logs, length: int = 2, history: int = 1) -> None:
        self.actions, self.history = rc.ActionBlocks.of(logs, length), history
        self.action_dim = self.actions.size

    def encode(self, observations: Observations) -> torch.Tensor:
        return torch.as_tensor(observations["state"], dtype=torch.float32) / 8

    def rollout(self, context: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        raise AssertionError("a policy does not plan")


class Line(rc.Task):
    """Eleven places in a row; moves are back and forward."""

    name, action_budget, discrete_actions = "line", 25, 2

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return np.clip(states + 2 * actions - 1, 0, 10)

    def observe(self, states: np.ndarray) -> Observations:
        return {"state": states}

    def success(self, states: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return (states == goals).all(1)

    def generate_logs(self, episodes: int, seed: int = 0) -> rc.Logs:
        """Walks to one of the ends; a tenth of the moves are wrong."""
        rng, rows = np.random.default_rng(seed), 8
        here, aim = rng.integers(11, size=(episodes, 1)), rng.integers(2, size=(episodes, 1))
        taken = []
        for _ in range(rows):
            taken.append((here, np.where(rng.random(aim.shape) < 0.1, 1 - aim, aim)))
            here = self.step(*taken[-1])
        return logs_of(taken)


class Place:
    """Encodes the place on the line."""

    latent_dim, action_dim, fingerprint = 1, 1, "place"

    def encode(self, observations: Observations) -> torch.Tensor:
        return torch.as_tensor(observations["state"], dtype=torch.float32) / 5 - 1

    def rollout(self, context: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        raise AssertionError("a policy does not plan")


@pytest.fixture(scope="module")
def plain() -> Plain:
    return Plain()


@pytest.fixture(scope="module")
def walks(plain: Plain) -> rc.Logs:
    return plain.generate_logs(300)


@pytest.fixture(scope="module")
def far(plain: Plain) -> rc.EvaluationSet:
    starts, goals = np.random.default_rng(1).uniform(-7, 7, (2, 40, 2)).astype(np.float32)
    return rc.EvaluationSet(starts, goals, "far", world=plain.world)


@pytest.fixture(scope="module")
def network(walks: rc.Logs, far: rc.EvaluationSet) -> rc.heads.InverseDynamics:
    return rc.peers.fit_inverse(Position(walks), walks, exclude=far, pairs=8000, recipe=QUICK)


def test_a_policy_reaches_goals_without_model_or_cost(
    plain: Plain, walks: rc.Logs, far: rc.EvaluationSet, network: rc.heads.InverseDynamics
) -> None:
    policy = rc.planning.InversePolicy(network)
    runs = rc.control(plain, Position(walks), {"gc-idm": rc.LatentMSE()}, far, planner=policy)
    floor = rc.control(plain, Position(walks), {"random": rc.LatentMSE()}, far, planner=rc.planning.RandomPolicy())
    assert runs.success.mean() > 0.8
    assert floor.success.mean() < 0.4


def test_clipped_noise_does_not_shrink_actions(network: rc.heads.InverseDynamics) -> None:
    east = network.act(torch.tensor([-0.5, 0.0]), torch.tensor([0.5, 0.0])).view(2, 2)
    mean_of_clipped_actions = 0.38
    assert (east[:, 0] > 1.5 * mean_of_clipped_actions).all()


def test_the_policy_reads_the_newest_frame_and_episodes_do_not_depend_on_their_batch(
    plain: Plain, walks: rc.Logs, far: rc.EvaluationSet, network: rc.heads.InverseDynamics
) -> None:
    policy, costs = rc.planning.InversePolicy(network), {"gc-idm": rc.LatentMSE()}
    every, few = (rc.control(plain, Position(walks), costs, part, planner=policy) for part in (far, far.spread(3)))
    kept = np.isin(every.episodes, few.episodes)
    assert np.array_equal(every.paths[:, kept], few.paths)
    several = rc.control(plain, Position(walks, history=3), costs, far.spread(3), planner=policy)
    assert np.array_equal(few.paths, several.paths)


def test_training_is_deterministic_and_records_the_exclusion(
    walks: rc.Logs, far: rc.EvaluationSet, network: rc.heads.InverseDynamics
) -> None:
    again = rc.peers.fit_inverse(Position(walks), walks, exclude=far, pairs=8000, recipe=QUICK)
    for name, weight in network.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])
    record = network.record
    assert record["pairs"]["exclusion"]["evaluation_sets_sha256"] == [far.fingerprint]
    assert record["pairs"]["held_out_episodes"] == 30
    assert record["validation_loss"] == min(point["validation_loss"] for point in record["curve"])


def test_actions_after_the_goal_do_not_count(walks: rc.Logs) -> None:
    taken, *_ = actions_between(Position(walks, length=3), walks)
    pairs = PairSet(torch.tensor([0, 4]), torch.tensor([2, 9]), torch.tensor([2.0, 5.0]))
    blocks = taken(pairs).view(2, 3, 2)
    assert blocks.isnan().any(2).tolist() == [[False, False, True], [False, False, False]]
    network = rc.heads.InverseDynamics(2, 6, discrete=False, hidden=4)
    loss = network.losses(torch.zeros(2, 2), torch.ones(2, 2), blocks.flatten(1)).sum()
    loss.backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in network.parameters())


def test_discrete_actions_are_chosen_or_sampled() -> None:
    line = Line()
    logs, goals = line.generate_logs(200), rc.EvaluationSet(np.array([[2], [9]]), np.array([[8], [1]]), world="line")
    network = rc.peers.fit_inverse(Place(), logs, exclude=goals, pairs=4000, recipe=QUICK)
    assert network.discrete
    for sampled in (False, True):
        policy = rc.planning.InversePolicy(network, sampled)
        assert rc.control(line, Place(), {"gc-idm": rc.LatentMSE()}, goals, planner=policy).success.all()


def test_actions_are_sampled_by_their_probability() -> None:
    network = rc.heads.InverseDynamics(2, 3, discrete=True, hidden=4).requires_grad_(False)
    z, goal = torch.zeros(4000, 2), torch.ones(2)
    sampled = network.act(z, goal, torch.arange(4000) / 4000)[:, 0].bincount(minlength=3) / 4000
    torch.testing.assert_close(sampled, network(z[0], goal).softmax(-1), atol=1e-3, rtol=0)


def test_mismatched_inputs_are_refused(
    task: rc.tasks.TopoNav, plain: Plain, walks: rc.Logs, far: rc.EvaluationSet, network: rc.heads.InverseDynamics
) -> None:
    policy, costs = rc.planning.InversePolicy(network), {"gc-idm": rc.LatentMSE()}
    with pytest.raises(ReachcostError, match="samples continuous actions"):
        rc.control(task, rc.tasks.ExactTopoNav(task), costs, task.evaluation_set(), planner=policy)
    with pytest.raises(ReachcostError, match="blocks of 4"):
        rc.control(plain, Position(walks, length=3), costs, far, planner=policy)
    with pytest.raises(ReachcostError, match="action"):
        rc.peers.fit_inverse(Position(walks), rc.Logs({"state": walks.columns["state"]}, walks.lengths))
    with pytest.raises(ReachcostError, match="actions"):
        rc.peers.fit_inverse(Position(walks), task.generate_logs(5))
    with pytest.raises(ReachcostError, match="sampled"):
        rc.planning.InversePolicy(network, sampled=True)
    with pytest.raises(ReachcostError, match="hidden"):
        rc.peers.InverseRecipe(hidden=0)

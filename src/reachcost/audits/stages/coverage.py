"""Coverage: do the logs of a head contain the paths that it has to score?"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reachcost.audits.measurements import audited_runs, executed, oracle_runs
from reachcost.audits.stage import Rule, Stage, apply_rule, unknown
from reachcost.audits.subject import Subject, evaluated_episodes
from reachcost.core.seeding import generator
from reachcost.data.models import encode_rows
from reachcost.errors import ReachcostError
from reachcost.planning.control import ControlRuns

RULE = Rule(
    "coverage",
    "% of paths through a gap",
    30.0,
    False,
    "log episodes on the paths to such goals (bottlenecks, passages) and fit the head again, or let the world model "
    "imagine them (reachcost fit --labels imagined)",
    share=True,
)
# Rule without an oracle path: for ends of candidates or, without a simulator, for held-out rows.
PLACES_RULE = Rule(
    "coverage", "% of places not in the logs", 10.0, False, RULE.advice, share=True, name="coverage-places"
)
SAMPLE = 20_000  # maximum number of logged latents that other latents are compared with
QUANTILE = 0.99  # quantile of the distances between logged latents, beyond which a latent is outside the logs
GAP = 3  # consecutive states outside the logs that count as a gap
PLACES = 2_000  # held-out rows that are compared with the logs


def measure(subject: Subject) -> Stage:
    """Share of episodes whose path leads through states outside the logs.

    Only failed episodes count, if any failed. The paths are those of the oracle planner. A state is outside the logs
    if its latent is farther from logged latents than 99 % of these are from each other.
    """
    rule = subject.rule(RULE)
    if not subject.heads:
        return unknown(rule, "no logs were learned from")
    if (oracle := oracle_runs(subject)) is not None:
        episodes, gaps = _gaps(subject, oracle)
        return apply_rule(rule, 100.0 * gaps, episodes)
    rule = subject.rule(PLACES_RULE)
    if (ends := executed(subject)) is not None:
        places, episodes = ends.true.flatten(0, 1), ends.episodes.repeat(ends.true.shape[1])
    elif subject.held_out is not None:
        chosen = generator(0, "coverage").permutation(len(subject.held_out.values))[:PLACES]
        places, episodes = subject.held_out.values[torch.from_numpy(chosen)], subject.held_out.logs.episode_of(chosen)
    else:
        return unknown(rule, "needs --held-out, or --task without --logs-only")
    return apply_rule(rule, 100.0 * uncovered(places, _learned_from(subject)).numpy(), episodes)


def _gaps(subject: Subject, oracle: ControlRuns) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the episodes that count [N], and whether their oracle path leads through a gap: bool [N]."""
    (task, _), audited = subject.require_simulator(), audited_runs(subject)
    failed = np.zeros(len(oracle.episodes), bool) if audited is None else ~audited.success[0]
    counted = np.flatnonzero(failed if failed.any() else np.ones_like(failed))
    paths, steps = oracle.paths[0][counted], oracle.steps[0][counted]
    states = paths.reshape(-1, *paths.shape[2:])
    latents = encode_rows(subject.model, task.observe(states), len(states)).cpu()
    missed = uncovered(latents, _learned_from(subject)).numpy().reshape(paths.shape[:2])
    missed &= np.arange(paths.shape[1]) <= steps[:, None]  # tasks that stop at success repeat the last state
    in_a_row = [missed[:, shift : max(0, missed.shape[1] - GAP + 1) + shift] for shift in range(GAP)]
    return oracle.episodes[counted], np.all(in_a_row, axis=0).any(1)


def _learned_from(subject: Subject) -> Tensor:
    """Latents of the logs without the episodes that hold a start or goal [R, D]."""
    logs = subject.latents.logs
    learned = ~logs.in_episodes(evaluated_episodes(subject))
    return subject.latents.values[torch.from_numpy(learned)]


@torch.no_grad()
def uncovered(queries: Tensor, logged: Tensor, seed: int = 0) -> Tensor:
    """Whether latents [Q, D] are farther from logged ones [R, D] than 99 % of these are from each other: bool [Q]."""
    if len(logged) < 2:
        raise ReachcostError(f"{len(logged)} logged latents cover nothing: give the logs that heads learn from")
    order = torch.randperm(len(logged), generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    sample = logged[order]
    among = sample[: max(2, len(sample) // 10)]
    # The nearest neighbour of a sampled latent is the latent itself.
    nearest = torch.cdist(among, sample).topk(2, largest=False).values[:, 1]
    return torch.cdist(queries, sample).amin(1) > nearest.quantile(QUANTILE)

"""`reachcost audit`: which stage of a planner is at fault?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import reachcost as rc
from reachcost.commands import command_line, console, name_page, options, say
from reachcost.errors import ReachcostError

BLAMED, UNDECIDED = 3, 4
"""Exit codes of the command: a stage is at fault; the audit cannot tell."""


def audit(
    model: options.ModelName,
    logs: Path,
    task: options.OptionalText = None,
    head: options.OptionalText = None,
    held_out: options.OptionalPath = None,
    evaluation: options.OptionalText = None,
    episodes: options.OptionalInt = None,
    candidates: int = 300,
    iterations: int = 10,
    horizon: options.OptionalInt = None,
    threshold: Annotated[tuple[str, ...], options.shown_as("[STR ...]")] = (),
    state_columns: Annotated[tuple[int, ...] | None, options.shown_as("[INT ...]")] = None,
    criteria: options.Flag = True,
    logs_only: options.Flag = False,
    out: options.OptionalPath = None,
    report: options.OptionalPath = None,
    loading: options.LoadOptions = options.LOAD,
) -> int:
    """Find out which stage of a planner is at fault: goals, sampling, representation, coverage, ranking or dynamics.

    Exit codes: 0 if episodes reach their goals, 3 if a stage is at fault, 4 if the audit cannot tell, 1 for errors.

    Args:
        logs: Dataset (HDF5 file or Lance table) that the head was fitted on. It needs frames, or states if --task
            renders them.
        task: Simulated world: a name, or a custom task as module:Class or file.py:Class. By default the audit uses
            logs only.
        head: Directory of the head to audit, or hf://user/name. By default latent distance is audited.
        held_out: Dataset that the head was not fitted on, for an audit without a simulator.
        evaluation: Evaluation set of the task; by default its first.
        episodes: Number of episodes, spread over the evaluation set; by default all.
        candidates: Number of candidate action sequences per iteration of the planner.
        iterations: Number of iterations of the planner.
        horizon: Action blocks (or discrete actions) of a candidate; by default that of the planner.
        threshold: Thresholds of stages, as in: --threshold execution=50 ranking=0.8
        state_columns: Indices of the numbers of a state that one frame shows, as in: --state-columns 0 1; by default
            those that the task names, or all.
        criteria: Skip the paper's falsification criteria, which take some minutes.
        logs_only: Render frames with the task but do not use its simulator, as with a real robot.
        out: JSON file for stages, verdict and criteria. A .parquet file of the same name holds the numbers of each
            episode, and a .scene.json file holds the episodes and maps for `reachcost report`.
        report: HTML file for a report with episodes and maps.
    """
    from reachcost.audits.audit import read_rows, rows_path, write_audit
    from reachcost.audits.stages import CANNOT_TELL, NOTHING
    from reachcost.core.files import lock_directory, make_directory
    from reachcost.core.progress import ConsoleProgress
    from reachcost.costs.checks import require_one_model
    from reachcost.planning.control import require_actions
    from reachcost.report.drawing import draw_audit
    from reachcost.report.material import Material
    from reachcost.report.scene import read_scene, scene_file

    loading.prepare()
    if out is not None:
        if out == rows_path(out):
            raise ReachcostError(f"--out {out} is the file of the rows: name a JSON file, its rows go next to it")
        options.require_new(out)
        _require_left(rows_path(out), read_rows)
        _require_left(scene_file(out), read_scene)
        options.require_writable(out.parent)
    options.require_page(report)
    progress = ConsoleProgress(console)
    cost = rc.LatentMSE() if head is None else rc.HeadCost(rc.load_head(head))
    thresholds = _thresholds(threshold)
    world = None if task is None else options.task_option(task)
    planner = options.planner_option(world, candidates, iterations, horizon)
    opened = options.logs_option(logs, world)
    loaded = loading.load(model, world, opened)
    require_one_model({"head": cost}, loaded)
    if world is not None and not logs_only:
        require_actions(world, loaded)
    progress.step("latents")
    latents = rc.encode_logs(loaded, opened, progress=progress)
    unseen = (
        None if held_out is None else rc.encode_logs(loaded, options.logs_option(held_out, world), progress=progress)
    )
    simulator = None if logs_only else world
    goals = None if simulator is None else options.evaluation_option(simulator, evaluation)
    goals = goals.spread(episodes) if goals is not None and episodes is not None else goals
    found = rc.audit_planner(
        loaded,
        latents,
        cost,
        simulator,
        goals,
        planner,
        unseen,
        criteria=criteria,
        thresholds=thresholds,
        state_columns=state_columns,
        progress=progress,
    )
    found.show(console)
    scene = None
    if out is not None or report is not None:
        progress.step("scene")
        scene = draw_audit(found, loaded, latents, cost, simulator, goals, planner)
    if out is not None and scene is not None:
        make_directory(out.parent, out)
        with lock_directory(out.parent):
            options.require_new(out)  # another audit may have finished first
            scene.write(scene_file(out))
            write_audit(found, out, command=command_line())
        say(f"record: {out}, its rows: {rows_path(out)}, what a report draws: {scene_file(out)}")
    if report is not None and scene is not None:
        commands = Material(commands=(command_line(),))
        name_page(rc.Report(found, scene, commands, title="reachcost audit").save(report))
    return {NOTHING: 0, CANNOT_TELL: UNDECIDED}.get(found.verdict, BLAMED)


def _require_left(file: Path, read: Callable[[Path], object]) -> None:
    """Refuse to overwrite a file, except one left by an audit that ended before it wrote its record."""
    try:
        if file.exists():
            read(file)
    except ReachcostError:
        options.require_new(file)


def _thresholds(given: tuple[str, ...]) -> dict[str, float]:
    """Thresholds by name, from `NAME=VALUE ...`."""
    from reachcost.audits.planner import require_threshold
    from reachcost.audits.stages import RULES

    found: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            known = ", ".join(RULES)
            raise ReachcostError(f"--threshold {text}: give NAME=VALUE, a number for one of {known}") from None
        require_threshold(name, found[name])
    return found

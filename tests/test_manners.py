"""Behaviour of commands around their work: early checks of outputs, progress, signals, short representations."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import reachcost as rc
from reachcost import cli
from reachcost.cli import main
from reachcost.core.files import write_file
from reachcost.core.machine import Terminated
from reachcost.core.progress import ConsoleProgress
from reachcost.experiments.registry import study_of
from reachcost.experiments.tables import make_table
from reachcost.labels.pairs import Pairs
from reachcost.report.material import Material
from reachcost.results.tables import ResultTable, TableRow
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.tasks.toponav.task import TopoNav

FIT = ("fit", "--model", "lewm-tworoom-3072", "--logs", "none.h5")
COMMANDS = {
    "demo": ("demo",),
    "reproduce": ("reproduce", "toponav"),
    "fit": FIT,
    "train-model": ("train-model", "lewm", "--logs", "none.h5"),
    "logs": ("logs", "generate", "tworoom"),
    "evaluate": ("evaluate", "--model", "lewm-tworoom-3072", "--head", "none"),
    "audit": ("audit", *FIT[1:]),
    "compare": ("compare", "none", *FIT[1:]),
}


def error_of(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*arguments]) == 1
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    return error


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unusable_output_directory_is_found_before_the_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    for out in ("file/out", "file/deep/below/out"):
        assert "file is a file" in error_of((*COMMANDS[name], "--out", out), capsys)
    monkeypatch.setattr("tempfile.TemporaryFile", _refuse)
    refused = error_of((*COMMANDS[name], "--out", "new/out"), capsys)
    assert "Read-only file system" in refused
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def _refuse(dir: Path) -> Any:
    raise OSError(30, "Read-only file system")


def test_unwritable_paths_are_explained_in_python(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "file" / "out"
    for write in (
        lambda: rc.save_head(rc.heads.PairHead(2), out),
        lambda: write_file(out, ""),
        lambda: make_table(study_of("toponav"), "toponav", out),
    ):
        with pytest.raises(rc.ReachcostError, match=f"{tmp_path}.*out"):
            write()


def test_existing_logs_are_found_before_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reachcost.tasks.tworoom.TwoRoom.generate_logs", lambda *_: pytest.fail("made logs"))
    (tmp_path / "logs.h5").write_text("mine")
    for out in (tmp_path / "logs.h5", tmp_path):
        error = error_of((*COMMANDS["logs"], "--out", str(out)), capsys)
        assert f"{out} exists already" in error
        assert "--out" in error


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*FIT, "--out", "o", "--pairs", "ten"), "--pairs ten: give a whole number (reachcost fit --help)"),
        ((*FIT, "--out", "o", "--pairs=1.5"), "--pairs 1.5: give a whole number (reachcost fit --help)"),
        (("audit", *FIT[1:], "--state-columns", "x"), "--state-columns x: give one or more numbers, as in: 0 1 (reach"),
        ((*COMMANDS["evaluate"], "--weight", "x"), "--weight x: give a number (reachcost evaluate --help)"),
        (
            (*COMMANDS["logs"], "--out", "o", "--seed", "x"),
            "--seed x: give a whole number (reachcost logs generate --h",
        ),
    ],
)
def test_invalid_numbers_are_explained(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as usage:
        main([*arguments])
    error = capsys.readouterr().err
    assert usage.value.code == 2
    assert error.startswith(f"reachcost: {sentence}")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*COMMANDS["logs"], "--out", "o", "--seed", "-1"), "--seed -1: give 0 or more"),
        ((*FIT, "--out", "o", "--pairs", "0"), "--pairs 0: give 1 or more"),
        (("demo", "--log-episodes", "0"), "--log-episodes 0: give 1 or more"),
    ],
)
def test_numbers_below_their_minimum_are_found_before_the_work(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error_of(arguments, capsys) == f"reachcost: {sentence}"


def test_warnings_of_commands_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def warned(source: str, repo: str) -> None:
        """Warn.

        Args:
            source: Any.
            repo: Any.
        """
        warnings.warn("log more", rc.ReachcostWarning, stacklevel=2)

    before = warnings.formatwarning
    monkeypatch.setitem(cli.COMMANDS, "push", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _shown  # as without pytest
        assert main(["push", "--source", "x", "--repo", "x"]) == 0
    assert capsys.readouterr().err == "warning: log more\n"
    assert warnings.formatwarning is before


def _shown(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


def test_missing_options_and_unknown_commands_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*FIT])
    assert "--out" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["logs", "make"])
    assert "logs generate" in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("arguments", [["logs", "generate", "--help"], ["logs", "--help"], ["logs"]])
def test_help_of_two_word_commands_names_both(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as usage:
        main(arguments)
    assert usage.value.code == 0
    assert capsys.readouterr().out.startswith("usage: reachcost logs generate ")


def test_the_demo_refuses_more_episodes_than_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    assert "100 episodes" in error_of(("demo", "--episodes", "1000", "--out", str(out)), capsys)
    assert not out.exists()


@pytest.mark.parametrize(("trm", "noted"), [(0.0, True), (60.0, False)])
def test_the_demo_reports_a_failed_repair(
    trm: float, noted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [TableRow(name, "lewm", 5, {"success": share}, {}, None) for name, share in (("raw", 0.0), ("trm", trm))]
    table = ResultTable("demo", "", ("success",), rows, {})
    assert str(table) == "ResultTable('demo', 2 rows of raw, trm; success)"
    monkeypatch.setattr("reachcost.experiments.demo.run_demo", lambda *_: [(table, None)])
    monkeypatch.setattr("reachcost.report.collector.Collector.add", lambda *_: None)
    monkeypatch.setattr("reachcost.report.collector.Collector.material", lambda _: Material(tables=(table,)))
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    assert ("trm is not better than raw here" in capsys.readouterr().out) is noted


# Signals


def test_sigterm_cleans_up(tmp_path: Path) -> None:
    arguments = ("logs", "generate", "tworoom", "--episodes", "2000", "--pixels", "64", "--out", "logs.h5")
    process = subprocess.Popen(
        [sys.executable, "-m", "reachcost", *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 120
        while not [*tmp_path.glob(".*.partial")] and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.terminate()
        _, error = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    assert process.returncode == 143
    assert "terminated" in error
    assert "Traceback" not in error
    assert not [*tmp_path.iterdir()]


def test_signal_handlers_are_restored(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def ended(source: str, repo: str) -> None:
        """End.

        Args:
            source: Any.
            repo: Any.
        """
        signal.raise_signal(getattr(signal, source.lstrip("-")))

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setitem(cli.COMMANDS, "push", ended)
    for name, code in (("SIGTERM", 143), ("SIGINT", 130)):
        assert main(["push", "--source", name, "--repo", "x"]) == code
        assert signal.getsignal(signal.SIGTERM) is before
    assert "terminated; " in capsys.readouterr().err


def test_a_signal_lost_in_a_finalizer_is_repeated() -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def work() -> None:
        Finalized()
        time.sleep(30)

    with pytest.raises(Terminated), cli._signals():
        work()


def test_commands_run_in_threads(capsys: pytest.CaptureFixture[str]) -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["reproduce", "mars"])))
    thread.start()
    thread.join()
    assert codes == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_forks_of_a_command_end_on_sigterm() -> None:
    with cli._signals():
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM


# Progress


def shown(terminal: bool, items: int = 3, note: str = "") -> str:
    stream = io.StringIO()
    progress = ConsoleProgress(Console(file=stream, force_terminal=terminal, width=100))
    progress.step("latents")
    for _ in progress.track(range(items), "batches"):
        progress.note(note)
    return stream.getvalue()


def test_progress_without_a_terminal_is_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachcost.core.progress.EVERY", 1e9)
    (line,) = shown(False, note="loss 0.1").splitlines()
    assert line.startswith("latents                3/3 batches 0.0 s loss 0.1")
    monkeypatch.setattr("reachcost.core.progress.EVERY", 0.0)
    assert [line.split()[1] for line in shown(False).splitlines()] == ["1/3", "2/3", "3/3"]
    assert not shown(False, items=0)
    assert "\x1b[" not in shown(False)
    monkeypatch.setenv("TERM", "xterm")
    assert "━" in shown(True)


def test_progress_of_every_long_function(
    task: TopoNav,
    model: ExactTopoNav,
    pairs: Pairs,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    logs, goals = task.generate_logs(20, seed=9), task.evaluation_set().spread(2)
    planner, quick = rc.CategoricalCEM(horizon=2, candidates=4, elites=2, iterations=1), rc.Recipe(epochs=1, hidden=8)
    latents = rc.encode_logs(model, logs, cache=tmp_path, progress=True)
    assert "latents                1/1 batches" in capfd.readouterr().err
    rc.control(task, model, {"raw": rc.LatentMSE()}, goals, planner, budget=2, progress=True)
    assert "2/2 plans" in capfd.readouterr().err
    rc.fit(pairs, quick, progress=True)
    assert "1/1 epoch" in capfd.readouterr().err
    with pytest.warns(rc.ReachcostWarning):
        rc.repair(model, logs, pairs=100, recipe=quick, progress=True)
    assert "head                   1/1 epoch" in capfd.readouterr().err
    rc.write_logs(logs, tmp_path / "logs.h5", progress=True)
    rc.audit_planner(model, latents, task=task, evaluation=goals, planner=planner, progress=True)
    assert "plans" in capfd.readouterr().err
    with pytest.warns(rc.ReachcostWarning):
        rc.audits.choose_recipe(model, task.generate_logs(100), {"default": quick}, pairs=200, progress=True)
    assert "default 2/2            1/1 epoch" in capfd.readouterr().err


# Prints


def test_representations_are_short(task: TopoNav, model: ExactTopoNav, latents: rc.Latents) -> None:
    goals = task.evaluation_set().spread(3)
    planner = rc.CategoricalCEM(horizon=2, candidates=4, elites=2, iterations=1)
    costs: dict[str, Any] = {"raw": rc.LatentMSE(), "other": rc.LatentMSE()}
    runs, audit = rc.control(task, model, costs, goals, planner, budget=1), rc.sasc(task, model, costs, goals)
    assert str(runs) == "ControlRuns(3 episodes; success: raw 0/3, other 0/3)"
    rho = audit.rankings["raw"].spearman.mean()
    assert str(audit) == f"SascAudit(3 episodes, 300 candidates; mean rho: raw {rho:.3f}, other {rho:.3f})"
    assert str(audit.rankings["raw"]).startswith(f"Ranking(3 pools; mean rho {rho:.3f}, best candidate at ")
    rows = latents.logs.rows
    assert str(latents).startswith(f"Latents({rows} rows of 10 numbers, of ExactTopoNav(")
    assert str(latents.logs) == f"Logs(300 episodes, {rows} rows, columns action, state)"

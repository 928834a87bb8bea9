"""`reachcost explore`: answers agree with `rc.control`, and invalid requests are refused."""

import base64
import builtins
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reachcost as rc
from reachcost.cli import main
from reachcost.commands.explore import default_models, knows_layouts, repaired_head
from reachcost.core.progress import Progress
from reachcost.costs.maps import CostMap
from reachcost.errors import ReachcostError
from reachcost.explorer.engine import SHOWN, Cancelled, Engine, ModelWithCosts, PlanRequest
from reachcost.explorer.server import explorer_page, first_places, listening_socket
from reachcost.heads.kinds import PairHead
from reachcost.planning.control import sized_planner
from reachcost.tasks.toponav.features import ExactTopoNav
from reachcost.worldmodels.jepa import JepaWorldModel
from tests.serving import request, served
from tests.small import BriefTopoNav

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m"
ROOMS = PlanRequest("lewm", "raw", {}, (40.0, 150.0), (180.0, 150.0), candidates=20, iterations=3, seed=5)
CELLS = PlanRequest("exact", "raw", {}, (3.0, 20.0), (6.0, 25.0), candidates=20, iterations=2, seed=5)


@pytest.fixture(scope="module")
def rooms(world: rc.tasks.TwoRoom, lewm: JepaWorldModel) -> Engine:
    costs = {"raw": rc.LatentMSE(), "repaired": rc.HeadCost(rc.heads.PairHead(lewm.latent_dim))}
    return Engine(
        world, {"lewm": ModelWithCosts(lewm, costs), "lewm-layouts-3072": ModelWithCosts(lewm, costs, all_layouts=True)}
    )


@pytest.fixture(scope="module")
def cells(model: ExactTopoNav, head: PairHead) -> Engine:
    return Engine(
        BriefTopoNav(), {"exact": ModelWithCosts(model, {"raw": rc.LatentMSE(), "repaired": rc.HeadCost(head)})}
    )


def test_the_default_planner_stays_below_the_limit_of_candidates(task: rc.tasks.TopoNav, model: ExactTopoNav) -> None:
    engine = Engine(task, {"exact": ModelWithCosts(model, {"raw": rc.LatentMSE()})})
    assert task.action_budget * engine.candidates * engine.iterations <= SHOWN  # it plans before every action


@pytest.fixture(scope="module")
def address(cells: Engine) -> Iterator[str]:
    with served(cells) as found:
        yield found


def array(packed: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), packed["kind"]).reshape(packed["shape"])


def places(engine: Engine, packed: dict[str, Any]) -> np.ndarray:
    low, high = (np.array(corner, float) for corner in (engine.task.plane().low, engine.task.plane().high))
    return low + array(packed) / 65_535 * (high - low)


def body(asked: PlanRequest, **changes: Any) -> dict[str, Any]:
    return {**asdict(asked), **changes}


# Answers


@pytest.mark.parametrize(("name", "cost"), [("rooms", "raw"), ("rooms", "oracle"), ("cells", "repaired")])
def test_episodes_are_those_of_control(name: str, cost: str, request: pytest.FixtureRequest) -> None:
    engine: Engine = request.getfixturevalue(name)
    asked = replace(ROOMS if name == "rooms" else CELLS, cost=cost)
    (planned,) = [planned for known, planned in engine.models.items() if known == asked.model]
    answer = engine.plan(asked)
    world, plane = engine.task, engine.task.plane()
    start, goal = (plane.states(np.array([place])) for place in (asked.start, asked.goal))
    ends = rc.EvaluationSet(start, goal)
    model: Any = planned.model
    if cost == "oracle":
        model = rc.tasks.ExactDynamics(world, model.actions)
    scored = rc.costs.OracleGeodesic(model) if cost == "oracle" else planned.costs[cost]
    planner = sized_planner(world.discrete_actions, asked.candidates, asked.iterations)
    runs = rc.control(world, model, {cost: scored}, ends, planner, seed=asked.seed)
    assert (answer["reached"], answer["steps"]) == (runs.success[0, 0], runs.steps[0, 0])
    expected = plane.places(runs.paths[0, 0, : answer["steps"] + 1])
    np.testing.assert_allclose(places(engine, answer["path"]), expected, atol=plane.cell / 100)


def test_candidates_are_shown_at_their_true_ends(rooms: Engine, world: rc.tasks.TwoRoom) -> None:
    answer = rooms.plan(replace(ROOMS, cost="oracle"))
    ends, costs = places(rooms, answer["ends"]), array(answer["costs"])
    assert ends.shape == (answer["plans"], 3, 20, 2)
    for place, cost in zip(ends[:, 1, :4].reshape(-1, 2), costs[:, 1, :4].ravel(), strict=True):
        assert cost == pytest.approx(world.distance(place[None], np.array([ROOMS.goal]))[0], abs=0.05)
    elites, routes = array(answer["elites"]), places(rooms, answer["routes"])
    np.testing.assert_array_equal(routes[0, 0, :, -1], ends[0, 0, elites[0, 0]])
    np.testing.assert_allclose(routes[0, 0, :, 0], [ROOMS.start] * 2, atol=0.01)
    chosen, path = places(rooms, answer["chosen"]), places(rooms, answer["path"])
    np.testing.assert_array_equal(chosen[0, -1, : answer["executed"] + 1], path[: answer["executed"] + 1])


def test_a_start_at_the_goal_needs_no_plan(rooms: Engine, cells: Engine) -> None:
    for engine, asked in ((rooms, ROOMS), (cells, CELLS)):
        answer = engine.plan(replace(asked, start=asked.goal))
        assert (answer["reached"], answer["steps"], answer["plans"]) == (True, 0, 0)


def test_maps_depend_on_cost_and_layout(rooms: Engine, world: rc.tasks.TwoRoom, lewm: JepaWorldModel) -> None:
    moved = world.moved("door", 0.9)
    goal = np.array([ROOMS.goal], np.float32)
    for asked, there in ((ROOMS, world), (replace(ROOMS, layout={"door": 0.9}), moved)):
        answer = rooms.field(asked)
        expected = CostMap(there, lewm).field(rc.LatentMSE(), goal)[0]
        np.testing.assert_allclose(array(answer["field"]), expected, rtol=1e-6)
        assert answer["handles"][0]["value"] == there.handles()[0].value
    truth = array(rooms.field(replace(ROOMS, cost="oracle"))["field"])
    assert np.nanmin(truth) < world.plane().cell


def test_unknown_layouts_have_a_note_and_another_model(rooms: Engine, world: rc.tasks.TwoRoom) -> None:
    moved, planned = world.moved("wall", 1.0), rooms.models["lewm"]
    assert rooms.note(world, "lewm") == rooms.note(moved, "lewm-layouts-3072") == {}
    found = rooms.note(moved, "lewm")
    assert "unknown" in found["text"]
    assert found["instead"] == "lewm-layouts-3072"
    found = Engine(world, {"lewm-tworoom-3072": planned}).note(moved, "lewm-tworoom-3072")
    assert "was not trained" in found["text"]
    assert found["instead"] is None
    found = Engine(world, {"lewm-layouts-3072": planned}).note(moved, "lewm-layouts-3072")
    assert "repaired cost" in found["text"]


@pytest.mark.parametrize("door", [0.125, 0.7], ids=["with evaluation sets", "without"])
def test_first_places_are_free(world: rc.tasks.TwoRoom, door: float) -> None:
    there = world.moved("door", door)
    assert bool(there.sets) == (door == 0.125)
    start, goal = first_places(there)
    assert there.plane().free(np.array([start, goal])).all()
    assert start != goal


# Refusals

WRONG: list[tuple[Any, str]] = [
    (b"{", "not valid JSON"),
    (b"[" * 8000, "not valid JSON"),
    ([1], "request"),
    ({}, "`model` is missing"),
    (body(ROOMS, more=1), "more is 1"),
    (body(ROOMS, model=3), "model is 3"),
    (body(ROOMS, layout={"door": "left"}), "layout.door is 'left'"),
    (body(ROOMS, start=[1]), "start"),
    (body(ROOMS, goal=[1, float("nan")]), "NaN"),
    (body(ROOMS, goal=[1, True]), "goal"),
    (json.dumps(body(ROOMS)).replace("40.0", "1e400").encode(), "JSON"),
    (body(ROOMS, candidates=3), "candidates is 3"),
    (body(ROOMS, candidates=20.0), "candidates is 20.0"),
    (body(ROOMS, iterations=10**15), "iterations is 1000000000000000"),
    (body(ROOMS, candidates=1000, iterations=40), "40,000 rollouts"),
]


@pytest.mark.parametrize(("sent", "message"), WRONG, ids=[message for _, message in WRONG])
def test_invalid_requests_are_refused(sent: Any, message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        PlanRequest.parse(sent if isinstance(sent, bytes) else json.dumps(sent).encode())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": (112.0, 150.0)}, "start .* wall"),
        ({"goal": (5.0, 1e9)}, "goal .* off the map"),
        ({"model": "mars"}, "'mars': choose lewm or lewm-layouts-3072"),
        ({"cost": "mars"}, "'mars': choose raw or repaired"),
        ({"layout": {"roof": 0.5}}, "'roof' .* move door, wall"),
        ({"layout": {"door": 1.5}}, "'door' cannot be at 1.5"),
        ({"layout": {"door": 0.73}, "start": (112.0, 49.0)}, "wall"),
    ],
)
def test_requests_that_do_not_fit_the_world_are_refused(rooms: Engine, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ReachcostError, match=message):
        rooms.plan(replace(ROOMS, **changes))


def test_a_world_without_handles_cannot_be_changed(cells: Engine) -> None:
    with pytest.raises(ReachcostError, match="door"):
        cells.field(replace(CELLS, layout={"door": 0.0}))


# Over HTTP


def test_the_page_has_security_headers(address: str) -> None:
    status, content, headers = request(address)
    assert (status, b"Explore toponav" in content) == (200, True)
    expected = ("no-store", "no-referrer", "frame-ancestors 'none'")
    assert tuple(headers[name] for name in ("Cache-Control", "Referrer-Policy", "Content-Security-Policy")) == expected
    assert not [name for name in headers if name.lower().startswith("access-control")]


def test_answers_over_http_are_those_of_the_engine(address: str, cells: Engine) -> None:
    for what, answer in (("plan", cells.plan), ("field", cells.field)):
        status, told, _ = request(address, what, body(CELLS))
        assert status == 200
        expected = answer(CELLS)
        assert {**told, "seconds": 0} == {**json.loads(json.dumps(expected)), "seconds": 0}


@pytest.mark.parametrize(
    ("what", "sent", "headers", "status", "message"),
    [
        ("", None, {"Host": "evil.example"}, 403, "127.0.0.1:"),
        ("", None, {"Host": "127.0.0.1"}, 403, "127.0.0.1:"),
        ("plan", {}, {"Origin": "http://evil.example"}, 403, "another page"),
        ("plan", {}, {"Origin": "null"}, 403, "another page"),
        ("../guess/", None, {}, 403, "secret"),
        ("../gu%C3%A9ss/", None, {}, 403, "secret"),
        ("nothing", None, {}, 404, "Not Found"),
        ("plan", None, {}, 405, "Method Not Allowed"),
        ("plan", {}, {"Content-Type": "text/plain"}, 415, "JSON"),
        ("plan", b"x" * 100_000, {}, 413, "8192 bytes"),
        ("plan", {}, {}, 422, "`model` is missing"),
        ("plan", body(CELLS, start=[9, 10]), {}, 422, "(9, 10)"),
        ("field", body(CELLS, model=HOSTILE), {}, 422, "'<img src"),
    ],
)
def test_invalid_http_requests_are_refused(
    address: str, what: str, sent: Any, headers: dict[str, str], status: int, message: str
) -> None:
    if what.startswith("../"):
        address, what = address.replace("secret/", what[3:]), ""
    found = request(address, what, sent, **headers)
    assert found[0] == status
    assert message in found[1]["error"]


def test_unexpected_errors_are_answered(task: rc.tasks.TopoNav, cells: Engine) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("no disk")

    engine = Engine(task, cells.models)
    engine.field = broken  # pyright: ignore[reportAttributeAccessIssue] (a test's own)
    with served(engine) as there:
        status, answer, _ = request(there, "field", body(CELLS))
    assert (status, answer["error"]) == (500, "OSError: no disk; the terminal shows the traceback")


def test_concurrent_requests_are_independent(address: str, cells: Engine) -> None:
    asked = [replace(CELLS, seed=seed, goal=(6.0 - seed, 25.0)) for seed in range(4)]
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = [*pool.map(lambda one: request(address, "plan", body(one))[1], asked)]
    assert [answer["path"] for answer in answers] == [cells.plan(one)["path"] for one in asked]


class Slow(Engine):
    """Plans until nobody wants it any more, and remembers who asked."""

    def __init__(self, task: rc.Task, models: Any) -> None:
        super().__init__(task, models)
        self.begun: list[int] = []
        self.ended: list[int] = []

    def plan(self, request: PlanRequest, wanted: Callable[[], bool] = lambda: True) -> dict[str, Any]:
        self.begun.append(request.seed)
        while request.seed < 2 and wanted():
            time.sleep(0.01)
        self.ended.append(request.seed)
        if not wanted():
            raise Cancelled
        return {}


def test_abandoned_requests_are_cancelled(task: rc.tasks.TopoNav, cells: Engine) -> None:
    engine = Slow(task, cells.models)
    with served(engine) as there:
        first = knock(there, body(CELLS, seed=0))
        until(lambda: engine.begun == [0])
        knock(there, body(CELLS, seed=1)).close()  # waits for its turn, and leaves
        first.close()  # leaves while it is planned
        until(lambda: engine.ended == [0])
        assert request(there, "plan", body(CELLS, seed=2))[0] == 200
    assert engine.begun == engine.ended == [0, 2]


def test_a_cancelled_plan_stops(rooms: Engine) -> None:
    calls: list[bool] = []
    with pytest.raises(Cancelled):
        rooms.plan(ROOMS, lambda: bool(calls.append(True)) or len(calls) < 2)
    assert len(calls) == 2


def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    patience = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < patience
        time.sleep(0.01)


# Names


class Hostile(BriefTopoNav):
    name = HOSTILE


def test_hostile_names_are_text(model: ExactTopoNav) -> None:
    engine = Engine(Hostile(), {HOSTILE: ModelWithCosts(model, {"raw": rc.LatentMSE()})})
    page = explorer_page(engine)
    assert "<img" not in page
    assert "\x1b" not in page
    (name,) = engine.models
    assert name == HOSTILE.replace("\x1b", "⟨1B⟩")
    assert engine.plan(replace(CELLS, model=name))["steps"] > 0


# Heads


QUICK = rc.fitting.LabelledRecipe(rc.Recipe(epochs=1))


def test_the_default_head_is_cached(
    task: rc.tasks.TopoNav, model: ExactTopoNav, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = repaired_head(task, model, False, Progress(), episodes=60, pairs=500, recipe=QUICK)
    assert first.record["pairs"]["exclusion"]["overlapping_pairs"] == 0
    monkeypatch.setattr(rc, "repair", lambda *_, **__: pytest.fail("fitted again"))
    again = repaired_head(task, model, False, Progress(), episodes=60, pairs=500, recipe=QUICK)
    assert again.state_dict().keys() == first.state_dict().keys()
    with pytest.raises(pytest.fail.Exception):
        repaired_head(task, model, False, Progress(), episodes=61, pairs=500, recipe=QUICK)


def test_a_model_of_many_layouts_gets_a_head_of_many(world: rc.tasks.TwoRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reachcost.commands.explore.LAYOUT_EPISODES", 2)
    known = [name for name in world.models if knows_layouts(world, name)]
    assert known == ["lewm-layouts-3072"]
    assert default_models(world) == ("lewm-tworoom-3072", "lewm-layouts-3072")
    seen: list[str] = []
    generate = rc.tasks.TwoRoom.generate_logs

    def watched(task: rc.tasks.TwoRoom, *given: Any, **named: Any) -> rc.Logs:
        seen.append(task.world)
        return generate(task, *given, **named)

    monkeypatch.setattr(rc.tasks.TwoRoom, "generate_logs", watched)
    model = rc.load_world_model(known[0])
    head = repaired_head(world, model, True, Progress(), episodes=6, pairs=100, recipe=QUICK)
    assert head.latent_dim == model.latent_dim
    assert len({*seen}) == 4  # three layouts, and the world itself for the name of the head


# The command


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["explore", *arguments]) == 1
    return capsys.readouterr().err


def test_the_command_refuses_invalid_options(
    head: PairHead, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "`plane`" in refused(["--task", "pusht"], capsys)
    rc.save_head(head, tmp_path / "head")
    given = ["--task", "toponav", "--head", str(tmp_path / "head"), "--no-open"]
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert f"--port {port}" in refused([*given, f"--port={port}"], capsys)
    assert "--port 99999" in refused([*given, "--port=99999"], capsys)
    assert "[red]⟨1B⟩]0;evil⟨07⟩" in refused([*given, "--head", "[red]\x1b]0;evil\x07"], capsys)
    assert "dimension 10" in refused(["--model", "lewm-tworoom-3072", *given[2:]], capsys)
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "reachcost.explorer.server":
            raise ModuleNotFoundError("No module named 'uvicorn'")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'reachcost[ui]'" in refused(given, capsys)


SLOW = """
import time
from pathlib import Path

import reachcost as rc


class Slow(rc.tasks.TopoNav):
    def step(self, states, actions):
        if len(states) == 1:  # in an episode of the page
            Path("planned").touch()
            time.sleep(0.2)
        return super().step(states, actions)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_stops_cleanly_in_the_middle_of_a_plan(head: PairHead, tmp_path: Path, number: int, code: int) -> None:
    rc.save_head(head, tmp_path / "head")
    (tmp_path / "slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "reachcost", "explore", "--task", "slow.py:Slow", "--head", "head", "--no-open"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert request(address)[0] == 200
        knock(address, body(CELLS), complete=False).close()  # hangs up inside its body
        waiting = [knock(address, body(CELLS, model="reachcost.tasks:ExactTopoNav")) for _ in range(2)]
        until((tmp_path / "planned").exists)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    for link in waiting:
        link.close()
    assert process.returncode == code
    assert error.count("\n") == (code != 0)  # the sentence that ends every command
    listening_socket(int(address.split(":")[2].split("/")[0])).close()  # the port is free again


def knock(address: str, sent: dict[str, Any], complete: bool = True) -> socket.socket:
    """Ask for a plan, or begin to ask, and do not wait for the answer."""
    netloc, path = address.removeprefix("http://").split("/", 1)
    host, port = netloc.split(":")
    content = json.dumps(sent).encode()
    head = f"POST /{path}plan HTTP/1.1\r\nHost: {netloc}\r\nContent-Type: application/json\r\n"
    link = socket.create_connection((host, int(port)))
    link.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content[: None if complete else 9])
    return link

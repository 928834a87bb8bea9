"""The page of the explorer and its server.

The server listens on this machine only, requires a secret in every address, and plans in turn.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from reachcost.costs.latent import unit_of
from reachcost.errors import ReachcostError
from reachcost.explorer.engine import CANDIDATES, ITERATIONS, SEEDS, Cancelled, Engine, PlanRequest, handles_of
from reachcost.report.page import render
from reachcost.tasks.contract import Task

HOST = "127.0.0.1"
EPISODES = 200  # maximum number of episodes that the first one is chosen from
DETOUR = 0.8  # quantile of the detour of the first episode
LARGEST = 8192  # maximum number of bytes of a request; the page sends a few hundred
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself has the rest of the policy
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def serve(engine: Engine, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until a signal ends the process.

    Args:
        engine: Answers the requests.
        port: Port, or 0 for any that is free.
        ready: Called with the address of the page, including its secret, when it can be opened.
    """
    token = secrets.token_urlsafe(24)
    with listening_socket(port) as listener:
        port = listener.getsockname()[1]
        app = application(engine, token, port)
        options = {"lifespan": "off", "ws": "none", "log_level": "warning", "access_log": False}
        server = Server(uvicorn.Config(app, **options))
        with server.capture_signals():  # a signal must not hit an event loop that is starting or closing
            ready(f"http://{HOST}:{port}/{token}/")
            server.run(sockets=[listener])


class Server(uvicorn.Server):
    """A server that closes all connections when it ends, which cancels every plan in progress."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections, then wait for their requests to end."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await super().shutdown(sockets)


def listening_socket(port: int) -> socket.socket:
    """A listening socket bound to the loopback interface."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise ReachcostError(f"--port {port} cannot be used ({reason}): give another, or 0 for any") from error
    listener.listen()
    return listener


def application(engine: Engine, token: str, port: int) -> Starlette:
    """The page at /TOKEN/, and its requests at /TOKEN/field and /TOKEN/plan."""
    page, turn = explorer_page(engine), asyncio.Lock()  # the lock is fair: requests are answered in order
    hosts = [f"{name}:{port}" for name in (HOST, "localhost")]

    def require_own(request: Request) -> None:
        """Refuse requests that do not come from the page itself.

        A foreign page may give its own name this address (DNS rebinding), or send requests without reading answers.
        """
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in hosts:
            raise HTTPException(403, f"this page is at {hosts[0]} alone: open it there")
        if origin not in (None, f"http://{host}"):
            raise HTTPException(403, "the request comes from another page: open this one")
        if not secrets.compare_digest(request.path_params["token"].encode("utf-8", "replace"), token.encode()):
            raise HTTPException(403, "the address lacks its secret: open the one that reachcost explore printed")

    async def show_page(request: Request) -> Response:
        require_own(request)
        return HTMLResponse(page, headers=HEADERS)

    async def respond(request: Request, answer: Callable[[PlanRequest, Callable[[], bool]], Any]) -> Response:
        require_own(request)
        try:
            parsed = PlanRequest.parse(await read_body(request))
            async with turn:
                found = await run_while_wanted(request, partial(answer, parsed))
        except (ClientDisconnect, asyncio.CancelledError) as left:  # the client left, or the server ends
            raise Cancelled from left
        return JSONResponse(found, headers=HEADERS)

    async def field(request: Request) -> Response:
        return await respond(request, lambda parsed, _: engine.field(parsed))

    async def plan(request: Request) -> Response:
        return await respond(request, engine.plan)

    routes = [Route("/{token}/", show_page)]
    routes += [Route(f"/{{token}}/{answer.__name__}", answer, methods=["POST"]) for answer in (field, plan)]
    return Starlette(routes=routes, exception_handlers=HANDLERS)


async def read_body(request: Request) -> bytes:
    """The JSON body of a request; a body larger than `LARGEST` is refused before it is read."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "the content type of the request is not application/json: send JSON")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise HTTPException(413, f"the request is larger than {LARGEST} bytes: send less")
    return bytes(body)


async def run_while_wanted(request: Request, work: Callable[[Callable[[], bool]], dict[str, Any]]) -> dict[str, Any]:
    """Run a function in a thread; the function it is given returns False once the client has left."""
    if await request.is_disconnected():
        raise Cancelled
    gone = Event()

    async def listen() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    listening = asyncio.create_task(listen())
    try:
        return await asyncio.to_thread(work, lambda: not gone.is_set())
    finally:
        gone.set()
        listening.cancel()


def _error(status: int, text: Callable[[Any], str]) -> Any:
    async def handle(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": text(error)}, getattr(error, "status_code", status), HEADERS)

    return handle


HANDLERS: dict[Any, Any] = {
    HTTPException: _error(400, lambda error: str(error.detail)),
    ReachcostError: _error(422, str),
    Cancelled: _error(409, lambda _: "a newer request replaced this one"),
    Exception: _error(500, lambda error: f"{type(error).__name__}: {error}; the terminal shows the traceback"),
}


def explorer_page(engine: Engine) -> str:
    """The page of an engine."""
    task = engine.task
    start, goal = first_places(task)
    plane = task.plane()
    data = {
        "plane": {"low": plane.low, "high": plane.high, "cell": plane.cell},
        "handles": handles_of(task),
        "units": {name: unit_of(name, engine.cost(name), task) for name in engine.costs},
        "distance_unit": task.distance_unit,
        "start": start,
        "goal": goal,
    }
    return render(
        "explorer/explore.html.j2",
        f"{task.name} - reachcost explore",
        data=data,
        scripts=["explorer/explore.js"],
        styles=["explorer/explore.css"],
        requests=True,
        engine=engine,
        handles=task.handles() if task.offers("handles") else (),
        numbers={
            "candidates": (engine.candidates, *CANDIDATES),
            "iterations": (engine.iterations, *ITERATIONS),
            "seed": (0, *SEEDS),
        },
        maps={"left": engine.costs[0], "right": engine.costs[min(1, len(engine.costs) - 1)]},
    )


def first_places(task: Task) -> tuple[list[float], list[float]]:
    """Start and goal that the page opens with, (x, y) each: a longer detour than in most episodes."""
    plane = task.plane()
    if task.sets:
        found = task.evaluation_set(task.sets[0])
        starts, goals = found.starts[:EPISODES], found.goals[:EPISODES]
    else:
        cells = plane.grid().reshape(-1, 2)
        starts, goals = np.split(plane.states(cells[plane.free(cells)][[0, -1]]), 2)
    here, there = (np.asarray(plane.places(states), float) for states in (starts, goals))
    straight = np.maximum(np.linalg.norm(there - here, axis=1), plane.cell)
    distance = task.distance(starts, goals) if task.offers("distance") else straight
    detours = np.argsort(np.where(np.isfinite(distance), distance, 0) / straight, kind="stable")
    chosen = detours[int(DETOUR * len(detours))]
    return here[chosen].tolist(), there[chosen].tolist()

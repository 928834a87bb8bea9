"""The server behind the page: this machine alone, a secret in every address, one plan at a time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from reachcost.errors import ReachcostError
from reachcost.explorer.engine import Engine, Unwanted
from reachcost.explorer.page import explorer_page
from reachcost.explorer.requests import Asked

LARGEST = 8192
"""Bytes of a request; a page needs a few hundred."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself has the rest, with the hashes of its parts
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
Answer = Callable[[Asked, Callable[[], bool]], dict[str, Any]]


def application(engine: Engine, token: str, port: int) -> ASGIApp:
    """The page at /TOKEN/, and what it asks: /TOKEN/field and /TOKEN/plan.

    Args:
        engine: Answers.
        token: What every address must begin with.
        port: Where it is served.
    """
    page, turn = explorer_page(engine), asyncio.Lock()  # the lock is fair: who asked first is answered first

    async def opened(request: Request) -> Response:
        return HTMLResponse(page)

    async def answered(request: Request, answer: Answer) -> Response:
        try:
            asked = Asked.of(await body_of(request))
            async with turn:
                return JSONResponse(await while_wanted(request, partial(answer, asked)))
        except (ClientDisconnect, asyncio.CancelledError) as left:  # the client hung up, or the server ends
            raise Unwanted from left

    async def field(request: Request) -> Response:
        return await answered(request, lambda asked, _: engine.field(asked))

    async def plan(request: Request) -> Response:
        return await answered(request, engine.plan)

    routes = [
        Route(f"/{token}/", opened),
        Route(f"/{token}/field", field, methods=["POST"]),
        Route(f"/{token}/plan", plan, methods=["POST"]),
    ]
    handlers: dict[Any, Any] = {HTTPException: _refused, ReachcostError: _sentence, Unwanted: _gone, Exception: _failed}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token, port)


class Guard:
    """Lets through what comes from this machine's own page, and nothing else.

    The name of the host is checked, as a foreign page may have its own name lead here (DNS rebinding), and where a
    request comes from, as a foreign page may send one in vain.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = tuple(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def framed(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        wrong = self._wrong(scope)
        await (JSONResponse({"error": wrong}, 403) if wrong else self._app)(scope, receive, framed)

    def _wrong(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        given = scope["path"].partition("/")[2].partition("/")[0].encode("utf-8", "replace")
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return f"this page is at {self._hosts[0]} alone: open it there"
        if origin not in (None, f"http://{host}"):
            return "another page asks: open this one"
        if not secrets.compare_digest(given, self._token.encode()):
            return "the address lacks its secret: open the one that reachcost explore printed"
        return None


async def body_of(request: Request) -> bytes:
    """What was sent, JSON; more than a page would send is refused before it is read."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "the request is no application/json: send JSON")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise HTTPException(413, f"the request is larger than {LARGEST} bytes: send less")
    return bytes(body)


async def while_wanted(request: Request, work: Callable[[Callable[[], bool]], dict[str, Any]]) -> dict[str, Any]:
    """Do some work in a thread, and let it know when nobody waits any more: a newer request has taken its place."""
    if await request.is_disconnected():
        raise Unwanted
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


async def _refused(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": str(error.detail)}, error.status_code)


async def _sentence(request: Request, error: ReachcostError) -> Response:
    return JSONResponse({"error": str(error)}, 422)


async def _gone(request: Request, error: Unwanted) -> Response:
    return JSONResponse({"error": "a newer request took the place of this one"}, 409)


async def _failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"{type(error).__name__}: {error}; the terminal has the whole story"}, 500)

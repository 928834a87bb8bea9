"""Serve the page until someone ends it."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable

import uvicorn

from reachcost.errors import ReachcostError
from reachcost.explorer.engine import Engine
from reachcost.explorer.server import application

HOME = "127.0.0.1"


def serve(engine: Engine, port: int, ready: Callable[[str], None]) -> None:
    """Serve on this machine alone, at a port that is free or at the given one, until a signal comes.

    Args:
        engine: Answers.
        port: Where; 0 takes any that is free.
        ready: Called with the address, secret and all, when the page can be opened.
    """
    token = secrets.token_urlsafe(24)
    with listening(port) as door:
        port = door.getsockname()[1]
        app = application(engine, token, port)
        quiet = {"lifespan": "off", "ws": "none", "log_level": "warning", "access_log": False}
        server = Server(uvicorn.Config(app, **quiet))
        with server.capture_signals():  # an event loop that is half made or half closed cannot be interrupted
            ready(f"http://{HOME}:{port}/{token}/")
            server.run(sockets=[door])


class Server(uvicorn.Server):
    """A server that hangs up when it ends, so that every plan in progress is given up."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections, then wait for the requests on them to end."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await super().shutdown(sockets)


def listening(port: int) -> socket.socket:
    """A door on this machine alone, where others can knock from now on."""
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind((HOME, port))
    except (OSError, OverflowError) as error:
        door.close()
        reason = getattr(error, "strerror", None) or error
        raise ReachcostError(f"--port {port} cannot be used ({reason}): give another, or 0 for any") from error
    door.listen()
    return door

"""A page of `reachcost explore` that is served while a test runs."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from reachcost.explorer.engine import Engine
from reachcost.explorer.server import application, listening_socket

TOKEN = "secret"


@contextmanager
def served(engine: Engine) -> Iterator[str]:
    """The address of a page."""
    with listening_socket(0) as door:
        port = door.getsockname()[1]
        config = uvicorn.Config(application(engine, TOKEN, port), lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/{TOKEN}/"
        finally:
            server.should_exit = True
            thread.join(timeout=30)
            assert not thread.is_alive()


def request(address: str, what: str = "", body: Any = None, **headers: str) -> tuple[int, Any, http.client.HTTPMessage]:
    """Status, content and headers of an answer; with a body it is a POST request, as the page sends it."""
    where = urlsplit(address)
    link = http.client.HTTPConnection(where.netloc, timeout=60)
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json"} if body is not None else {}
    try:
        link.request("GET" if body is None else "POST", where.path + what, sent, given | headers)
        answer = link.getresponse()
        content = answer.read()
        return (
            answer.status,
            json.loads(content) if "json" in answer.headers["Content-Type"] else content,
            answer.headers,
        )
    finally:
        link.close()

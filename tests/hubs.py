"""Hubs without a network: a folder, and a server that speaks to the real client of the Hugging Face Hub."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Folder:
    """Repositories below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def upload(self, folder: Path, repo: str, private: bool) -> None:
        shutil.copytree(folder, self.root / repo, dirs_exist_ok=True)

    def download(self, repo: str, names: tuple[str, ...], revision: str | None) -> Path:
        if not (self.root / repo).exists():
            raise FileNotFoundError(f"no {repo}\nand more")
        return self.root / repo


@contextmanager
def serve(root: Path) -> Iterator[str]:
    """Serve the part of the hub's protocol that creating, committing to and reading a repository need."""

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            parts = self.path.split("?")[0].strip("/").split("/")
            if parts == ["api", "repos", "create"]:
                asked = json.loads(body)
                name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
                if not (root / name).exists():
                    (root / name).mkdir(parents=True)
                    private = asked.get("private") or asked.get("visibility") == "private"
                    (root / f"{name}.private").write_text(json.dumps(private))
                self._answer({"url": f"{address}/{name}", "name": name})
            elif parts == ["api", "validate-yaml"]:
                self._answer({"errors": [], "warnings": []})
            elif parts[4] == "preupload":
                files = json.loads(body)["files"]
                self._answer(
                    {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]}
                )
            elif parts[4] == "commit":
                for line in map(json.loads, body.decode().splitlines()):
                    if line["key"] == "file":
                        content = base64.b64decode(line["value"]["content"])
                        (root / parts[2] / parts[3] / line["value"]["path"]).write_bytes(content)
                self._answer(
                    {"commitOid": "0" * 40, "commitUrl": f"{address}/{parts[2]}/{parts[3]}/commit/0", "hookOutput": ""}
                )

        def do_HEAD(self) -> None:
            self._file(send=False)

        def do_GET(self) -> None:
            if self.path.startswith("/api/models/"):
                repo = "/".join(self.path.split("?")[0].split("/")[3:5])
                if not (root / repo).exists():
                    self._missing("RepoNotFound")
                elif "/tree/" in self.path:
                    files = sorted((root / repo).iterdir())
                    self._answer([{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": ""} for f in files])
                else:
                    private = json.loads((root / f"{repo}.private").read_text())
                    self._answer({"id": repo, "sha": "0" * 40, "siblings": [], "private": private})
            elif self.path.startswith("/api/"):
                self._answer({})
            else:
                self._file(send=True)

        def _file(self, send: bool) -> None:
            user, name, _, _, path = self.path.split("?")[0].strip("/").split("/")
            file = root / user / name / path
            if not file.exists():
                self._missing("EntryNotFound")
                return
            content = file.read_bytes()
            self.send_response(200)
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if send:
                self.wfile.write(content)

        def _missing(self, code: str) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _answer(self, document: Any) -> None:
            content = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

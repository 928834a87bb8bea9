"""Hubs without a network: a folder, and a server that speaks to the real client of the Hugging Face Hub."""

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
                names = [file["path"] for file in json.loads(body)["files"]]
                files = [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]
                self._answer({"files": files})
            elif parts[4] == "commit":
                for line in map(json.loads, body.decode().splitlines()):
                    if line["key"] == "file":
                        content = base64.b64decode(line["value"]["content"])
                        (root / parts[2] / parts[3] / line["value"]["path"]).write_bytes(content)
                commit = f"{address}/{parts[2]}/{parts[3]}/commit/0"
                self._answer({"commitOid": "0" * 40, "commitUrl": commit, "hookOutput": ""})

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            parts = self.path.split("?")[0].strip("/").split("/")
            if parts[:2] == ["api", "models"]:
                repo = root / parts[2] / parts[3]
                if not repo.exists():
                    self._send(b"", 404, {"X-Error-Code": "RepoNotFound"})
                elif "/tree/" in self.path:
                    self._answer(
                        [{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": ""} for f in repo.iterdir()]
                    )
                else:
                    private = json.loads(repo.with_name(f"{repo.name}.private").read_text())
                    self._answer({"id": "/".join(parts[2:4]), "sha": "0" * 40, "siblings": [], "private": private})
            elif parts[0] == "api":
                self._answer({})
            elif (file := root / parts[0] / parts[1] / parts[4]).exists():
                content = file.read_bytes()
                found = {"X-Repo-Commit": "0" * 40, "ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
                self._send(content, 200, found)
            else:
                self._send(b"", 404, {"X-Error-Code": "EntryNotFound"})

        def _answer(self, document: Any) -> None:
            self._send(json.dumps(document).encode(), 200, {"Content-Type": "application/json"})

        def _send(self, content: bytes, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
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

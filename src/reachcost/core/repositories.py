"""Repositories on the Hugging Face Hub, or on another hub with the same two methods. Needs the extra `hub`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from reachcost.errors import ReachcostError

SCHEME = "hf://"
UNREACHABLE = ("ConnectError", "ConnectTimeout", "LocalEntryNotFoundError", "OfflineModeIsEnabled")
"""Errors of a client without a connection."""


class Hub(Protocol):
    """Storage of repositories."""

    def upload(self, folder: Path, repo: str, private: bool) -> None:
        """Upload the files of a folder to a repository, created if needed."""
        ...

    def download(self, repo: str, names: tuple[str, ...], revision: str | None) -> Path:
        """A directory with the named files that exist in the repository, all of one revision."""
        ...


class HuggingFace:
    """The Hugging Face Hub; writing and private repositories need the token of `hf auth login`."""

    def __init__(self) -> None:
        try:
            import huggingface_hub
        except ImportError as error:
            raise ReachcostError("the Hugging Face Hub needs its client: pip install 'reachcost[hub]'") from error
        self._client: Any = huggingface_hub

    def upload(self, folder: Path, repo: str, private: bool) -> None:
        """Upload the files of a folder to a repository, created if needed."""
        api = self._client.HfApi()
        api.create_repo(repo, private=private or None, exist_ok=True)  # None: the default of the owner
        if private and not api.repo_info(repo).private:
            raise ReachcostError(f"{repo} exists already and is public: choose another name, or leave out --private")
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message="Upload by reachcost")

    def download(self, repo: str, names: tuple[str, ...], revision: str | None) -> Path:
        """A directory of the hub's cache."""
        return Path(self._client.snapshot_download(repo, allow_patterns=list(names), revision=revision))


class Repository(NamedTuple):
    """A repository on the hub, with an optional revision."""

    name: str
    revision: str | None

    @classmethod
    def of(cls, source: object) -> Repository | None:
        """The repository of `hf://user/name` or `hf://user/name@revision`; None for anything else.

        >>> Repository.of("hf://me/my-head@v1"), Repository.of("my-head")
        (Repository(name='me/my-head', revision='v1'), None)
        """
        text = str(source)
        if not text.startswith("hf:/"):  # a Path drops the second slash
            return None
        name, _, revision = text.removeprefix("hf:").lstrip("/").partition("@")
        return cls(require_name(name), revision or None)

    def __str__(self) -> str:
        return f"{SCHEME}{self.name}{f'@{self.revision}' if self.revision else ''}"

    def download(self, names: tuple[str, ...], hub: Hub | None = None) -> Path:
        """Download the named files that exist, and return their directory."""
        with self._explained_errors("read", "check its name and your access"):
            return (hub or HuggingFace()).download(self.name, names, self.revision)

    def upload(self, folder: Path, private: bool = False, hub: Hub | None = None) -> None:
        """Upload the files of a folder."""
        with self._explained_errors("written", "check its name, and log in with `hf auth login`"):
            (hub or HuggingFace()).upload(folder, self.name, private)

    @contextmanager
    def _explained_errors(self, done: str, remedy: str) -> Iterator[None]:
        try:
            yield
        except ReachcostError:
            raise
        except Exception as error:  # the hub's client raises its own, HTTP's and the system's exceptions
            if type(error).__name__ in UNREACHABLE:
                remedy = "the hub cannot be reached, try again later"
            reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            raise ReachcostError(f"{self} cannot be {done} ({reason}): {remedy}") from error


def is_name(text: str) -> bool:
    """Whether a text is a valid repository name: user/name."""
    return re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", text, re.ASCII) is not None and ".." not in text


def require_name(text: str) -> str:
    """Return a repository name, or refuse it."""
    if not is_name(text):
        raise ReachcostError(f"{text!r} is not a name on the hub: give user/name")
    return text

"""The Hugging Face Hub, behind two methods that a folder on disk can offer as well. Needs the extra `hub`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol

from reachcost.errors import ReachcostError

SCHEME = "hf://"


class Hub(Protocol):
    """Where repositories are."""

    def upload(self, folder: Path, repo: str, private: bool) -> None:
        """Put the files of a folder into a repository, which is made if it is new."""
        ...

    def download(self, repo: str, name: str) -> Path:
        """One file of a repository on disk; files of one repository are beside each other."""
        ...


class HuggingFace:
    """The hub itself; writing and private repositories need a token, as `hf auth login` keeps it."""

    def upload(self, folder: Path, repo: str, private: bool) -> None:
        """Put the files of a folder into a repository, which is made if it is new."""
        api = _client().HfApi()
        api.create_repo(repo, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message="Upload by reachcost")

    def download(self, repo: str, name: str) -> Path:
        """One file of a repository, kept by the hub's own cache."""
        return Path(_client().hf_hub_download(repo, name))


def repository(source: object) -> str | None:
    """The repository that `hf://user/name` names; None for anything else.

    >>> repository("hf://me/my-head"), repository("my-head")
    ('me/my-head', None)
    """
    name = str(source)
    return require_repository(name.removeprefix(SCHEME)) if name.startswith(SCHEME) else None


def require_repository(repo: str) -> str:
    """Refuse what is no name of a repository."""
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", repo, re.ASCII) or ".." in repo:
        raise ReachcostError(f"{repo!r} is no name on the hub: give user/name")
    return repo


def download(repo: str, names: tuple[str, ...], hub: Hub | None = None) -> Path:
    """The directory with these files of a repository."""
    try:
        return [(hub or HuggingFace()).download(repo, name) for name in names][-1].parent
    except ReachcostError:
        raise
    except Exception as error:  # the hub's client raises its own, HTTP's and the system's exceptions
        raise ReachcostError(
            f"{SCHEME}{repo} cannot be read ({_reason(error)}): check its name and your access"
        ) from error


def upload(folder: Path, repo: str, private: bool = False, hub: Hub | None = None) -> None:
    """Put the files of a folder into a repository."""
    try:
        (hub or HuggingFace()).upload(folder, require_repository(repo), private)
    except ReachcostError:
        raise
    except Exception as error:  # as above
        raise ReachcostError(
            f"{SCHEME}{repo} cannot be written ({_reason(error)}): check its name, and log in with `hf auth login`"
        ) from error


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def _client() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ReachcostError("the Hugging Face Hub needs its client: pip install 'reachcost[hub]'") from error
    return huggingface_hub

"""`reachcost push`: publish on the Hugging Face Hub."""

from __future__ import annotations

from typing import Annotated

import tyro

from reachcost.commands import say


def push(
    source: Annotated[str, tyro.conf.Positional],
    repo: Annotated[str, tyro.conf.Positional],
    private: bool = False,
    license: str | None = None,
) -> None:
    """Publish a head or a world model with a card on the Hugging Face Hub (pip install 'reachcost[hub]').

    Args:
        source: Directory of `reachcost fit` or `reachcost train-model`, or a name that `rc.zoo()` lists.
        repo: Repository, user/name. An existing one is updated.
        private: Make a new repository visible to its owner only.
        license: License on the card, as in: mit. By default the card names none.
    """
    from reachcost.hub import push as push_to_hub

    loading = push_to_hub(source, repo, private=private, license=license)
    say(f"published as {repo}; load it with {loading}")

"""`reachcost push`: publish on the Hugging Face Hub."""

from __future__ import annotations

from typing import Annotated

import tyro

from reachcost.commands import console


def push(
    source: Annotated[str, tyro.conf.Positional],
    repo: Annotated[str, tyro.conf.Positional],
    private: bool = False,
    license: str | None = None,
) -> None:
    """Publish a head or a world model on the Hugging Face Hub, with a card (pip install 'reachcost[hub]').

    Args:
        source: What `reachcost fit` or `reachcost train-model` wrote, or a name that `rc.zoo()` lists.
        repo: user/name; a second time updates it.
        private: Make a new repository visible to its owner only.
        license: What the card says of it, such as mit; by default nothing.
    """
    from reachcost.hub import push as push_to_hub

    loading = push_to_hub(source, repo, private=private, license=license)
    console.print(f"published as {repo}; load it with {loading}", highlight=False, soft_wrap=True)

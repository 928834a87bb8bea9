"""The `reachcost` command."""

from __future__ import annotations

import sys
from importlib.metadata import version

import tyro
from rich.console import Console

from reachcost.commands import console
from reachcost.commands.audit import audit
from reachcost.commands.check import check
from reachcost.commands.demo import demo
from reachcost.commands.evaluate import evaluate
from reachcost.commands.fit import fit
from reachcost.commands.logs import logs
from reachcost.commands.push import push
from reachcost.commands.reproduce import reproduce
from reachcost.commands.train_model import train_model
from reachcost.errors import ReachcostError

COMMANDS = {
    "demo": demo,
    "audit": audit,
    "fit": fit,
    "evaluate": evaluate,
    "reproduce": reproduce,
    "logs": logs,
    "train-model": train_model,
    "check": check,
    "push": push,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 on success, 1 on a mistake that the message explains."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        console.print(f"reachcost {version('reachcost')}", highlight=False)
        return 0
    try:
        tyro.extras.subcommand_cli_from_dict(COMMANDS, args=arguments, prog="reachcost")
    except ReachcostError as error:
        Console(stderr=True).print(f"reachcost: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        message = f"reachcost: the system refused{where} ({error.strerror or error}): choose another --out"
        Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        Console(stderr=True).print(
            "reachcost: interrupted; what is saved is whole, and the same command uses it", style="yellow"
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

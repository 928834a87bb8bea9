"""The `reachcost` command."""

from __future__ import annotations

import sys

import tyro
from rich.console import Console

from reachcost.commands.repair import audit, demo, evaluate, fit, reproduce
from reachcost.commands.worlds import check, logs, push, train_model
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

"""What the `reachcost` command does: every subcommand is a typed function, and its docstring is its help.

Modules are imported where they are used, so that a mistake is answered at once.
"""

from rich.console import Console

console = Console()

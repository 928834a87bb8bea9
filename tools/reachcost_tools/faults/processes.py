"""Commands in processes that can be killed and limited.

Most are forks of a process that has imported everything, so that faults happen during the work and not during imports.
"""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import util
from pathlib import Path
from typing import Any

from reachcost_command import end

COMMAND = "import sys, reachcost_command; sys.exit(reachcost_command.main())"
TIMEOUT = 300.0
"""Seconds after which a command counts as hanging."""
IMPORTED = (
    "reachcost.audits.criteria",
    "reachcost.audits.planner",
    "reachcost.cli",
    "reachcost.report.drawing",
    "reachcost.report.report",
    "reachcost.report.collector",
    "reachcost.experiments.cells.executors",
    "reachcost.experiments.registry",
    "reachcost.experiments.sweep",
    "reachcost.worldmodels.training",
    "torch._dynamo",  # what optimisers import at their first step
)
"""Modules that commands import."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None
    """Exit code; minus the signal that ended it, or None if it hung."""
    error: str
    """Its standard error."""

    @property
    def sentence(self) -> bool:
        """Whether it failed with one sentence, warnings before it aside."""
        lines = [line for line in self.error.splitlines() if line and not line.startswith("warning: ")]
        return self.code == 1 and len(lines) == 1 and lines[0].startswith("reachcost: ")

    def __str__(self) -> str:
        last = " / ".join(self.error.strip().splitlines()[-3:])
        return f"{'it hung' if self.code is None else f'exit code {self.code}'}, {last or 'no message'}"


class Process:
    """A running command that leads its own session; its process group can be signalled from the start.

    Args:
        arguments: Arguments of `reachcost`.
        directory: Working directory; standard error is written next to it.
        environment: Variables in addition to those of this process.
        prepare: Called in the process before the command.
        fresh: Start a new interpreter, as a shell does; otherwise fork this one.
        options: Options of a new interpreter.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str] | None = None,
        prepare: Callable[[], object] | None = None,
        fresh: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self._errors = directory.with_name(f"{directory.name}.{time.monotonic_ns()}.err")
        self._code: int | None = None
        self._started: subprocess.Popen[bytes] | None = None
        more = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
        if fresh:
            command, quiet = [sys.executable, *options, "-c", COMMAND, *arguments], subprocess.DEVNULL
            settings: Any = {"cwd": directory, "env": {**os.environ, **more}, "preexec_fn": prepare}
            with self._errors.open("wb") as errors:
                started: Any = subprocess.Popen(
                    command, stdin=quiet, stdout=quiet, stderr=errors, start_new_session=True, **settings
                )
            self._started, self.pid = started, started.pid
            return
        for name in IMPORTED:
            import_module(name)
        reader, writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            _become(arguments, directory, more, prepare, self._errors, writer)
        os.close(writer)
        os.read(reader, 1)  # returns when the fork has closed its end, or has ended
        os.close(reader)

    def ended(self) -> bool:
        """Whether it has ended."""
        if self._started is not None:
            self._code = self._started.poll()
        elif self._code is None:
            with suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code is not None

    def kill(self) -> None:
        """End this process alone at once."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float = TIMEOUT) -> Ended:
        """Wait for its end; kill it if it hangs."""
        hung = not until(self.ended, timeout)
        if hung:
            self.kill()
            until(self.ended, timeout)
        error = self.errors()
        self._errors.unlink(missing_ok=True)
        return Ended(None if hung else self._code, error)

    def errors(self) -> str:
        """Its standard error so far."""
        return self._errors.read_text(errors="replace") if self._errors.exists() else ""

    def others(self) -> dict[int, int]:
        """Other living processes of its session, each with its parent."""
        found = {}
        for place in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                state, parent, _, session = (place / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.pid != int(place.name) and state != "Z":
                    found[int(place.name)] = int(parent)
        return found

    def orphans(self) -> str:
        """What is wrong about processes that outlive it; they are killed."""
        if until(lambda: not self.others(), 30):
            return ""
        left = [*self.others()]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return f"{len(left)} of its processes are still alive"


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; returns whether it became true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _become(
    arguments: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    prepare: Callable[[], object] | None,
    errors: Path,
    ready: int,
) -> None:
    """Turn a fork into a command, and close `ready` once it leads its group and handles signals."""
    code = 1
    try:
        os.setsid()
        os.chdir(directory)
        os.environ |= environment
        sys.dont_write_bytecode = True  # a limit on the size of files would truncate it
        time.tzset()
        for number, place in enumerate((os.devnull, os.devnull, errors)):
            os.dup2(os.open(place, os.O_RDWR | os.O_CREAT), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        signal.signal(signal.SIGINT, end)
        os.close(ready)
        from reachcost.cli import main

        if prepare is not None:
            prepare()
        code = main([*arguments])
        util._exit_function()  # pyright: ignore[reportAttributeAccessIssue] (the interpreter calls it at its end)
    except SystemExit as exited:
        code = exited.code if isinstance(exited.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)

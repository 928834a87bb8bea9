"""Files, and not what only looks like one: a pipe that nobody writes to, a device without end."""

from __future__ import annotations

import errno
import stat
from pathlib import Path


def require_regular(path: Path) -> None:
    """OSError unless there is a file, before anybody opens it and waits.

    >>> require_regular(Path("/dev/zero"))
    Traceback (most recent call last):
    OSError: [Errno 22] it is no file: '/dev/zero'
    """
    kind = path.stat().st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "it is no file", str(path))

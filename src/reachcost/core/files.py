"""Files, and not what only looks like one: a pipe that nobody writes to, a device without end."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

LONGEST_NAME = 200
"""Bytes of a file name: file systems allow 255, and a file has a longer name while it is written."""


def is_file_name(name: str) -> bool:
    r"""Whether a text can name a file or a directory: a single part of a path, not hidden, all of it printable.

    >>> [is_file_name(name) for name in ("trm-0.5", "..", "a/b", "a\0b", "")]
    [True, False, False, False, False]
    """
    return (
        name.isprintable()
        and name.strip(". ") == name
        and not {"/", "\\"} & {*name}
        and 0 < len(name.encode()) <= LONGEST_NAME
    )


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

"""Files that vouch for themselves: their first line is the sha256 of all that follows."""

from __future__ import annotations

import hashlib
from pathlib import Path

from reachcost.core.atomic import write_file
from reachcost.core.files import require_regular

MARK = b"reachcost-sealed "


def write_sealed(path: Path, content: bytes) -> None:
    """Replace the file at `path` in one step."""
    write_file(path, b"%b%b\n%b" % (MARK, hashlib.sha256(content).hexdigest().encode(), content))


def read_sealed(path: Path) -> bytes:
    """What was written, bit for bit; ValueError for anything else."""
    require_regular(path)
    seal, _, content = path.read_bytes().partition(b"\n")
    if seal != MARK + hashlib.sha256(content).hexdigest().encode():
        raise ValueError("its checksum does not fit")
    return content

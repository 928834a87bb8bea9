"""The one exception for mistakes a person can mend."""

from traceback import extract_tb


class ReachcostError(ValueError):
    """Something outside the program is wrong: the message says what, where, and what to do next."""


class ReachcostWarning(UserWarning):
    """Something that works as asked but will hardly do what was wanted; the message says what to do."""


def reason_of(error: Exception) -> str:
    """One sentence about an error: the message of ours; of others also their kind and where they were raised."""
    if isinstance(error, ReachcostError):
        return str(error)
    where = "".join(f" in {frame.filename}:{frame.lineno}" for frame in extract_tb(error.__traceback__)[-1:])
    return f"{type(error).__name__}: {error}{where}"

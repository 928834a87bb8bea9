"""The one exception for mistakes a person can mend."""


class ReachcostError(ValueError):
    """Something outside the program is wrong: the message says what, where, and what to do next."""


class ReachcostWarning(UserWarning):
    """Something that works as asked but will hardly do what was wanted; the message says what to do."""

"""What `rc.data` offers; each name is imported on first use."""

from .evaluation import logged_goals as logged_goals
from .models import fingerprint_of as fingerprint_of
from .probe import LinearProbe as LinearProbe
from .probe import fit_probe as fit_probe
from .probe import score_probe as score_probe

"""What `rc.data` offers; each name is imported on first use."""

from .actions import ActionBlocks as ActionBlocks
from .evaluation import EvaluationSet as EvaluationSet
from .evaluation import logged_goals as logged_goals
from .latents import Latents as Latents
from .latents import encode_logs as encode_logs
from .logs import Logs as Logs
from .logs_files import open_logs as open_logs
from .logs_files import write_logs as write_logs
from .models import fingerprint_of as fingerprint_of
from .probe import LinearProbe as LinearProbe
from .probe import fit_probe as fit_probe
from .probe import score_probe as score_probe

"""What `rc.labels` offers; each name is imported on first use."""

from .imagined import Imagination as Imagination
from .imagined import ImaginedPairs as ImaginedPairs
from .oracle import OraclePairs as OraclePairs
from .pairs import Pairs as Pairs
from .stitched import StitchedPairs as StitchedPairs
from .temporal import TemporalPairs as TemporalPairs

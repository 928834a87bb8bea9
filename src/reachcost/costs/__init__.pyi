"""What `rc.costs` offers; each name is imported on first use."""

from .oracle import OracleGeodesic as OracleGeodesic
from .probe import DecodedDistance as DecodedDistance
from .probe import StandardisedL2 as StandardisedL2
from .probe import SubspaceCost as SubspaceCost

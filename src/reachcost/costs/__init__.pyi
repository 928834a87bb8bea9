"""What `rc.costs` offers; each name is imported on first use."""

from .latent import DecodedDistance as DecodedDistance
from .latent import HeadCost as HeadCost
from .latent import HybridCost as HybridCost
from .latent import LatentMSE as LatentMSE
from .latent import StandardisedL2 as StandardisedL2
from .latent import SubspaceCost as SubspaceCost
from .oracle import OracleGeodesic as OracleGeodesic

"""Every format that reachcost reads: how a small one is written, and what reading all of it gives."""

from faults.formats.format import Format
from faults.formats.logs import LOGS
from faults.formats.models import MODELS
from faults.formats.records import RECORDS

FORMATS: dict[str, Format] = {each.name: each for each in (*LOGS, *MODELS, *RECORDS)}

__all__ = ["FORMATS", "Format"]

"""Every format that reachcost reads: how a small one is written, and what reading all of it gives."""

from reachcost_tools.faults.formats.format import Format
from reachcost_tools.faults.formats.logs import LOGS
from reachcost_tools.faults.formats.models import MODELS
from reachcost_tools.faults.formats.records import RECORDS

FORMATS: dict[str, Format] = {each.name: each for each in (*LOGS, *MODELS, *RECORDS)}

__all__ = ["FORMATS", "Format"]

"""Libraries use the instruction sets that `make test-processors` sets."""

import os
import subprocess
import sys

from reachcost_tools.processors import INSTRUCTION_SETS

SHOWN = """
import torch
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

print(torch.backends.cpu.get_cpu_capability(), any(__cpu_features__[name] for name in __cpu_dispatch__))
"""


def test_libraries_use_the_oldest_instruction_set() -> None:
    environment = {**os.environ, **INSTRUCTION_SETS["SSE4"]}
    shown = subprocess.run([sys.executable, "-c", SHOWN], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["DEFAULT", "False"]

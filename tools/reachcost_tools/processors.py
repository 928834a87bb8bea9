"""`make test-processors`: run the tests that depend on floating-point results under four instruction sets.

Sums differ in their last bits between processors. Environment variables make PyTorch, oneDNN, MKL, OpenBLAS and NumPy
use older instructions, so that one machine shows what others would compute.
"""

import os
import subprocess
import sys
from importlib import import_module

NUMPY = import_module("numpy._core._multiarray_umath")


def disabled(*beginnings: str) -> dict[str, str]:
    """The variable that keeps NumPy from using those features of this processor whose names begin so."""
    names = [name for name in NUMPY.__cpu_dispatch__ if name.startswith(beginnings) and NUMPY.__cpu_features__[name]]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(names)} if names else {}


INSTRUCTION_SETS = {
    "this processor": {},
    "ATen without vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        **disabled("AVX512", "X86_V4"),
    },
    "SSE4": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem",
        **disabled(""),
    },
}
"""Environment variables by the name of an instruction set."""


def main(arguments: list[str]) -> int:
    """Run pytest once for each instruction set; further arguments choose other tests."""
    chosen = arguments or ["-m", "processor and not slow", "-n", "2", "--dist", "worksteal"]
    failed = []
    for name, variables in INSTRUCTION_SETS.items():
        print(f"{name}: {' '.join(f'{key}={value!r}' for key, value in variables.items())}", flush=True)
        command = [sys.executable, "-m", "pytest", "--ignore", "tests/swm", "--ignore", "tests/ray", *chosen]
        ended = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1", **variables}, check=False)
        failed += [name] if ended.returncode else []
    if failed:
        print(f"failed under {', '.join(failed)}: a test compares more digits than processors agree on")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

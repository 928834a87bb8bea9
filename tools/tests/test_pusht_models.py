"""The published PushT models have the documented quality, on logs that were not used for training or any choice."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reachcost.worldmodels.custom import check_world_model
from reachcost.worldmodels.loading import CHECKOUT, load_world_model, zoo

pytest.importorskip("pymunk")

from reachcost.tasks.pusht import PushT
from reachcost_tools.bench.pusht_models import measure

ROOT = Path(__file__).parents[2]
NAMES = [name for name in zoo() if "-pusht-" in name]
RECORD: dict[str, Any] = json.loads((ROOT / "results" / "benchmarks" / "pusht_models.json").read_text())["rates"]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_keeps_the_contract_and_its_card_has_the_published_command(name: str) -> None:
    logs, model = PushT().generate_logs(episodes=4, seed=77), load_world_model(name)
    check_world_model(model, logs.observations(np.array([0, 40, 300])), torch.randn(3, 6, 5, 10))
    assert sum(path.stat().st_size for path in (CHECKOUT / name).iterdir()) <= 6_000_000
    plan, card = model.card["training"]["plan"], (CHECKOUT / name / "README.md").read_text()
    assert plan | {"seed": 0} == plan | {"seed": 0, "size": "objects", "kind": name[:4]}
    assert f"train-model {name[:4]} --task TASK --logs FILE --out DIR --size objects" in card


@pytest.mark.slow
def test_a_model_has_the_recorded_quality() -> None:
    task, name = PushT(), NAMES[0]
    found = measure(load_world_model(name), task, task.generate_logs(episodes=60, seed=77))
    *positions, sine, cosine = found["r2"].values()
    assert min(positions) >= 0.98
    assert min(sine, cosine) >= 0.9
    assert found["rollouts"][-1]["block px"] <= 1.3 * RECORD[name]["rollouts"][-1]["block px"]


def test_the_documentation_has_the_recorded_quality() -> None:
    text = (ROOT / "docs" / "world-models.md").read_text()
    for name in NAMES:
        assert f"| `{name}` | " + " | ".join(f"{value:.3f}" for value in RECORD[name]["r2"].values()) + " |" in text
    for kind in ("lewm", "pldm"):
        rollouts = [RECORD[name]["rollouts"] for name in NAMES if name.startswith(kind)]
        assert len(rollouts) == 3
        for row, number in zip(zip(*rollouts, strict=True), range(1, 6), strict=True):
            means = [np.mean([found[key] for found in row]) for key in row[0] if key != "blocks"]
            assert f"| {number} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |" in text

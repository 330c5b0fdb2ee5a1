from __future__ import annotations

import pytest

from lab.errors import UsageError
from lab.experiment import load


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["batch.tokens=100_000_000_000"], "batch.tokens 100_000_000_000 with batch.micro_batches 2 make"),
        (["batch.packs=1_000_000"], "batch.packs 1_000_000 of data.context 4_096 with batch.micro_batches 2 make"),
        (["batch.micro_batches=1_000_000_000"], "batch.tokens 4_096 with batch.micro_batches 1_000_000_000 make"),
        (["batch.tokens=400_000_000", "model.width=16384"], "batch.tokens 400_000_000 would keep at least"),
        (["model.layers=1_000_000", "model.width=1_000_000"], "model.layers 1_000_000, model.width 1_000_000 and"),
        (
            ["data.context=9_000_000_000", "batch.packs=1", "evaluate.tokens=9_000_000_000"],
            "model.layers 4, model.width 256 and data.context",
        ),
        (["evaluate.batches=1_000_000_000"], "evaluate.batches 1_000_000_000 of evaluate.tokens"),
    ],
)
def test_what_no_machine_can_hold_is_refused_with_its_keys_and_the_limit(project, overrides, message):
    with pytest.raises(UsageError) as refused:
        load("smoke", project / "experiments", overrides)

    assert refused.value.what.startswith(f"--set: {message}")
    assert "; at most 1" in refused.value.what


@pytest.mark.parametrize(
    "overrides",
    [
        ["model.layers=80", "model.width=8192", "model.heads=64"],  # 64 billion parameters
        ["batch.tokens=4_000_000"],
        ["batch.packs=256", "batch.micro_batches=16"],  # 16 million tokens a step
        ["data.context=1_000_000", "batch.packs=1", "evaluate.tokens=1_000_000"],
        ["evaluate.batches=1_000"],
    ],
)
def test_what_a_large_machine_could_train_passes(project, overrides):
    assert load("smoke", project / "experiments", overrides).experiment.name == "smoke"

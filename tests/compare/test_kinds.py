from __future__ import annotations

import pytest

from lab.compare.kinds import KINDS, kind_of
from lab.experiment import COMPUTING_KEYS, sections

TABLES = {
    "data": sections.Data,
    "model": sections.Model,
    "batch": sections.Batch,
    "optimizer": sections.Optimizer,
    "train": sections.Train,
    "evaluate": sections.Evaluate,
    "environment": sections.Environment,
}
KIND = {
    "seed": "weights",
    "loop": "code",
    "attention": "code",
    "loss": "code",
    "data": "data",
    "model": "weights",
    "batch": "data",
    "optimizer": "settings",
    "train.steps": "settings",
    "train.warmup_steps": "settings",
    "train.precision": "precision",
    "train.residual": "precision",
    "train.compile": "code",
    "train.prefetch": "settings",
    "evaluate": "data",
    "environment.gpu": "hardware",
    "environment.gpus": "hardware",
    "environment.image": "libraries",
    "environment.packages": "libraries",
    "environment.torch_index": "libraries",
    "environment.disk_gb": "hardware",
    "environment.volume_gb": "hardware",
    "environment.network_volume": "hardware",
    "stages": "code",
}


@pytest.mark.parametrize(("key", "kind"), KIND.items())
def test_every_key_of_an_experiment_has_the_word_for_what_it_decides(key: str, kind: str) -> None:
    assert kind_of(key) == kind
    assert kind_of(f"{key}.name") == kind


def test_no_key_that_decides_the_computation_is_left_to_chance() -> None:
    whole = [name for name in COMPUTING_KEYS if name not in TABLES]
    fields = [f"{name}.{field}" for name, table in TABLES.items() for field in table.model_fields]

    assert [key for key in (*whole, *fields) if key not in KIND and key.partition(".")[0] not in KIND] == []


def test_a_key_of_a_newer_lab_is_a_setting_and_no_code() -> None:
    assert kind_of("schedule.warmup") == kind_of("train.dropout") == "settings"
    assert kind_of("lossy") == "settings"


def test_the_fixed_order_has_a_place_for_every_kind() -> None:
    fixed = [kind for kind in KINDS if kind != "settings"]

    assert fixed == ["weights", "data", "code", "precision", "libraries", "hardware", "clocks"]
    assert {*KIND.values()} <= {*KINDS}

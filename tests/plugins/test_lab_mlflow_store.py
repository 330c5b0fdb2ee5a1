"""What stands where MLflow's store belongs is named, before MLflow is even imported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab_mlflow import settings, store


def opened(file):
    return store.opened(settings.Place(f"{settings.SQLITE}{file}", file.parent))


@pytest.mark.parametrize(("make", "what"), [(os.mkdir, "a folder"), (os.mkfifo, "a pipe or device")])
def test_what_is_no_database_is_named_and_not_blamed_on_the_disk(tmp_path, make, what):
    make(tmp_path / "mlflow.db")

    with pytest.raises(store.StoreUnusable, match=f"mlflow.db: is {what}, where MLflow's database belongs"):
        opened(tmp_path / "mlflow.db")


def test_a_file_in_place_of_the_stores_folder_is_named(tmp_path):
    (tmp_path / "mlflow").write_text("")

    with pytest.raises(store.StoreUnusable, match=f"cannot be opened: {tmp_path}/mlflow is not a folder"):
        opened(tmp_path / "mlflow" / "mlflow.db")


def test_a_folder_in_place_of_the_lock_is_named(tmp_path):
    (tmp_path / ".opening.lock").mkdir()

    with pytest.raises(store.StoreUnusable, match=r"\.opening\.lock: Is a directory"):
        opened(tmp_path / "mlflow.db")


def test_a_folder_whose_name_is_no_text_is_named_with_what_to_do(tmp_path):
    with pytest.raises(store.StoreUnusable, match="MLflow takes no folder whose name is not UTF-8") as caught:
        opened(tmp_path / "caf\udce9" / "mlflow.db")

    assert "LAB_STORE" in caught.value.do


def test_a_database_that_could_not_be_made_leaves_nothing(tmp_path, monkeypatch):
    def full(uri):
        Path(uri.removeprefix(store.SQLITE)).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "_client", full)

    with pytest.raises(OSError, match="No space left"):
        store._make(tmp_path / "mlflow.db")

    assert list(tmp_path.iterdir()) == []

from __future__ import annotations

from importlib.metadata import version

import packaging
import rich

from lab.experiment.sections import Environment
from lab.runs import environment
from lab.runs.environment import Difference, differences, gpu_name, imported_packages, machine

PLANTED = {
    "HF_TOKEN": "planted-1",
    "RUNPOD_API_KEY": "planted-2",
    "MY_DB_URL": "postgres://me:planted-3@db/x",
    "NCCL_PROXY": "http://me:planted-4@proxy",
    "CUDA_API_KEY": "planted-5",
    "CUDA_VISIBLE_DEVICES": "0",
    "NCCL_DEBUG": "INFO",
    "OMP_NUM_THREADS": "2",
    "LAB_IMAGE": "image@sha256:1",
}


def test_only_variables_that_matter_are_recorded_and_no_secret_among_them():
    found = machine(PLANTED)

    assert found["variables"] == {"CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "2"}
    assert "planted" not in str(found)
    assert found["image"] == "image@sha256:1"


def test_the_machine_is_named():
    found = machine({})

    assert found["python"].startswith("3.")
    assert found["cpu"]
    assert found["cores"] >= 1
    assert found["image"] is None


def test_packages_are_those_that_were_imported_at_the_version_that_was():
    found = imported_packages()

    assert found["rich"]
    assert "pip" not in found
    assert rich.__name__ in found


def test_packages_of_some_modules_are_those_of_them_that_were_imported():
    assert imported_packages({"rich", "never_imported"}).keys() == {"rich"}
    assert imported_packages(()) == {}


def test_a_version_that_is_computed_to_warn_of_its_end_is_left_alone(monkeypatch):
    def deprecated(name):
        raise DeprecationWarning(name)

    monkeypatch.delattr(packaging, "__version__")
    monkeypatch.setattr(packaging, "__getattr__", deprecated, raising=False)

    assert imported_packages()["packaging"] == version("packaging")


def test_a_version_that_says_so_itself_is_believed(monkeypatch):
    monkeypatch.setattr(packaging, "__version__", "99.0+patched")

    assert imported_packages()["packaging"] == "99.0+patched"


def test_what_is_declared_and_here_is_no_difference():
    declared = Environment(packages=("torch==2.14.1", "Liger_Kernel>=0.8"), gpu="H100", image="a:b")

    assert differences(declared, {"torch": "2.14.1+cu126", "liger-kernel": "0.8.4"}, "H100", "a:b") == []


def test_what_differs_is_named_with_both_values():
    declared = Environment(packages=("torch==2.14.1", "nope"), gpu="H100", image="a:b")

    found = differences(declared, {"torch": "2.13.0"}, None, None)

    assert found == [
        Difference("package", "torch==2.14.1", "torch==2.13.0"),
        Difference("package", "nope", None),
        Difference("gpu", "H100", None),
        Difference("image", "a:b", None),
    ]


def test_installed_packages_are_compared_when_none_are_given():
    assert differences(Environment(packages=("rich>=1",)), None, None, None) == []


def test_nothing_declared_differs_from_nothing():
    assert differences(Environment(), {}, "H100", "x") == []


def driver(folder, monkeypatch, script):
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_the_gpu_is_named_by_its_driver(tmp_path, monkeypatch):
    driver(tmp_path, monkeypatch, "echo 'NVIDIA H100 80GB HBM3'; echo second")

    assert gpu_name() == "NVIDIA H100 80GB HBM3"


def test_a_driver_that_fails_names_none(tmp_path, monkeypatch):
    driver(tmp_path, monkeypatch, "echo 'NVIDIA-SMI has failed'; exit 9")

    assert gpu_name() is None


def test_without_a_driver_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)

    assert gpu_name() is None

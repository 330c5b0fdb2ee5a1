"""Three packages of strangers, built and installed by pip, then used through the command line as their users would.

The runs go on side by side, because most of a rented one is waiting.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from simulated_rental import A4000, ready_environment
from simulator import Scenario, Simulator
from strangers import HERE, NAMES, copied, fake_fenland, imports_of_lab, installed, own_tests, project, public_places

from lab.report import embedding
from lab.runs.directory import RunDirectory, every
from lab.runs.records import read_json, read_lines

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from installed import Environment

Z_LOSS = ("--set", "loss.name=z-loss", "--set", "loss.weight=0.01")
SIZES = ("--set", "observers.activation-sizes.steps=[1,3]")
PUBLIC = public_places()


@dataclass
class Used:
    """What became of each run, by its name, and of the clouds."""

    environment: Environment
    project: Path
    printed: dict[str, subprocess.CompletedProcess] = field(default_factory=dict)
    own_tests: str = ""
    pods: list = field(default_factory=list)
    fenland: object = None

    def run(self, name: str) -> RunDirectory:
        [run] = every(self.project / ".runs" / name)
        return run


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "sources").mkdir()
    sources = copied(folder / "sources")
    used = Used(installed(folder, sources), project(folder / "project"))
    furnish, fenland = ready_environment(folder / "image"), fake_fenland()

    def lab(name, *arguments, **variables):
        used.printed[name] = used.environment.lab(
            "run", "tiny", *arguments, project=used.project, LAB_RUNS=f".runs/{name}", **variables
        )

    with (
        Simulator(factor=1) as runpod,
        fenland.Fenland(folder / "fenland") as used.fenland,
        own_tests(used.environment, sources) as tests,
        ThreadPoolExecutor() as together,
    ):
        runpod.cloud.furnish = furnish
        runpod.cloud.usual = Scenario(provisioning=0.1, starting=0.1, route=0.1)
        pod = {
            "LAB_RUNPOD_API_URL": runpod.api_url,
            "LAB_RUNPOD_PROXY_URL": runpod.proxy_url,
            "LAB_RUNPOD_GRAPHQL_URL": f"{runpod.url}/graphql",
            "RUNPOD_API_KEY": runpod.account_key,
        }
        box = {"FENLAND_API": used.fenland.address, "FENLAND_PASS": fenland.PASS}
        together.submit(lab, "here", *Z_LOSS, *SIZES)
        together.submit(lab, "pod", *Z_LOSS, "--backend", "runpod", "--yes", "--set", f"environment.gpu={A4000}", **pod)
        together.submit(lab, "box", "--backend", "fenland", "--yes", "--set", f"environment.gpu={fenland.MODEL}", **box)
        together.shutdown()
        used.own_tests = tests.communicate()[0]
        used.pods = [(pod.id, pod.alive) for pod in runpod.pods]
    return used


def plugins_of(run):
    return {one["name"]: one for one in read_json(run.provenance)["plugins"] if one["third_party"]}


def losses(run):
    return [line["loss"] for line in read_lines(run.metrics) if line["kind"] == "step"]


def test_their_own_tests_pass_where_they_are_installed(used):
    assert re.search(r"^=+ \d+ passed in ", used.own_tests, re.MULTILINE), used.own_tests


@pytest.mark.parametrize("name", ["here", "pod", "box"])
def test_a_run_with_a_strangers_part_is_a_run_like_any_other(used, name):
    assert used.printed[name].returncode == 0, used.printed[name].stderr
    assert read_json(used.run(name).outcome)["status"] == "completed"


# the loss


def test_a_strangers_loss_is_what_was_trained_with(used):
    penalty = losses(used.run("here"))[0] - losses(used.run("box"))[0]

    assert penalty == pytest.approx(0.01 * 10.82**2, rel=0.01)  # log Z is about log 50,257 before training


def test_its_version_and_hash_are_in_provenance_and_in_the_comparison(used):
    plugin = plugins_of(used.run("here"))["z-loss"]

    compared = used.environment.lab(
        "compare", used.run("box").path, used.run("here").path, "--json", project=used.project
    )
    [difference] = [
        one for one in json.loads(compared.stdout)["pairs"][0]["differences"] if one["key"] == "plugin z-loss"
    ]

    assert (plugin["distribution"], plugin["version"], plugin["parts"]) == ("lab-zloss", "1.2.0", {"loss": ["z-loss"]})
    assert difference["b"] == f"lab-zloss 1.2.0, files {plugin['files_sha256']}"
    assert difference["declared"] is True


def test_its_losses_are_not_compared_with_those_of_cross_entropy(used):
    compared = used.environment.lab("compare", used.run("box").path, used.run("here").path, project=used.project)

    assert read_json(used.run("here").environment)["objective"] == "z-loss (weight = 0.01)"
    assert "loss   not comparable: objective" in compared.stdout


def test_a_strangers_loss_reaches_the_pod_and_computes_the_same_there(used):
    here, pod = used.run("here"), used.run("pod")

    assert importlib.util.find_spec("lab_zloss") is None, "the Pod's image would have it anyway"
    assert losses(pod) == losses(here)
    assert plugins_of(pod)["z-loss"]["files_sha256"] == plugins_of(here)["z-loss"]["files_sha256"]
    assert read_json(pod.resource)["status"] == "deleted"
    assert [alive for _, alive in used.pods] == [False]


# the backend


def test_a_second_cloud_is_rented_used_deleted_and_proved(used):
    run = used.run("box")
    asked = used.fenland.asked

    resource, cost = read_json(run.resource), read_json(run.cost)

    assert (read_json(run.config)["backend"], resource["status"], resource["gpu"]) == ("fenland", "deleted", "Fen G2")
    assert (asked.count("boxes.launch"), asked.count("boxes.drop"), used.fenland.alive) == (1, 1, [])
    assert asked[asked.index("boxes.drop") + 1 :] == ["boxes.show", "boxes.all"] * 2
    assert 0 < cost["dollars"] < 0.2
    assert len(losses(run)) == 3


# the observer


def test_a_strangers_figure_is_in_the_report(used):
    run = used.run("here")
    [figure] = [line for line in read_lines(run.artifacts) if line["kind"] == "figure"]

    page = run.report.read_text(encoding="utf-8")

    assert embedding.block(run.path / figure["path"], "").address in page
    assert "How large activations are, layer by layer" in page


def test_what_it_drew_are_the_activations_of_the_observed_steps(used):
    sizes = read_json(used.run("here").path / "activation-sizes.json")["root_mean_square"]

    assert {step: len(line) for step, line in sizes.items()} == {"1": 8, "3": 8}  # 2 layers, 4 products each
    assert all(0 < size < 10 for line in sizes.values() for size in line)
    assert sizes["1"] != sizes["3"]


# what they had to know


@pytest.mark.parametrize("name", NAMES)
def test_a_stranger_imports_from_public_places_alone(name):
    sources = sorted((HERE / name).rglob("*.py"))

    used = {module for path in sources for module in imports_of_lab(path.read_text(encoding="utf-8"))}

    assert used <= {"lab", "lab.contracts", "lab.rental", "lab.conformance"} == PUBLIC


def test_every_public_name_can_be_had():
    for module in map(importlib.import_module, PUBLIC):
        assert all(getattr(module, name) is not None for name in module.__all__)

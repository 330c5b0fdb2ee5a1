"""What travels of a stranger's plugin beside the bundle: the same search, the same limit, nothing that is hidden."""

from __future__ import annotations

import json
import os

import pytest

from lab.errors import LabError
from lab.experiment import PartChoice
from lab.jobs.bundle import Bundle, BundledFile
from lab.launch import plan as planning
from lab.launch import recording, resume
from lab.launch.carried import checked
from lab.launch.plan import plan
from lab.plugins import Plugins
from lab.rental import RentedBackend, requirements
from lab.runs import records
from lab.runs.secrets import Secrets
from lab.settings import read_settings

ACME = [{"distribution": "lab-acme", "third_party": True, "parts": {"loss": ["acme"]}}]
SECRETS = Secrets({"ACME_API_KEY": "violet4anvil"})
OBSERVER = """
# An observer.
from lab import Part, hookimpl
KEY = "violet4anvil"
@hookimpl
def observers():
    return [Part("acme", "lab_acme:Acme", summary="x")]
class Acme: ...
"""


class Cloud(RentedBackend):
    def __init__(self):
        pass


@pytest.fixture
def folder(install_plugin):
    """The package of a plugin that was installed from a folder, with its entry point beside it."""
    source = json.dumps({"url": "file:///home/me/acme", "dir_info": {"editable": True}})
    files = {"lab_acme-1.0.dist-info/direct_url.json": source, "acme_rest/__init__.py": "", "acme_rest/a.txt": "one\n"}
    return install_plugin("acme", "X = 1\n", files=files) / "acme_rest"


def names(found):
    return [os.path.basename(file.path) for file in found.files]


def test_the_files_of_a_plugin_from_a_folder_travel_to_a_rented_machine_and_no_others(folder):
    assert names(checked(Cloud(), ACME, SECRETS)) == ["__init__.py", "a.txt", "lab_acme.py"]
    assert checked(object(), ACME, SECRETS) == Bundle(())
    assert checked(Cloud(), [{**ACME[0], "third_party": False}], SECRETS) == Bundle(())


def test_a_secret_in_one_of_them_is_refused_by_its_place_and_line(folder):
    (folder / "a.txt").write_text("one\nviolet4anvil\n")

    with pytest.raises(LabError, match=rf"^{folder}/a\.txt, line 2: contains the value of ACME_API_KEY"):
        checked(Cloud(), ACME, SECRETS)


def test_they_count_for_the_limit_of_the_bundle_before_they_are_read(folder):
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(3_000_000_000_000)

    with pytest.raises(LabError, match=r"3,000,000\.0 MB  .*/weights\.bin") as caught:
        checked(Cloud(), ACME, SECRETS, 1_000_000)

    assert "--bundle-mb" in caught.value.do


def test_the_bundle_that_they_travel_beside_counts_too(folder):
    beside = [BundledFile("src/lab/x.py", b"x" * 900)]
    (folder / "a.txt").write_bytes(b"x" * 200)

    assert names(checked(Cloud(), ACME, SECRETS, 1000)) != []
    with pytest.raises(LabError, match=r"The bundle would hold .* in 4 files"):
        checked(Cloud(), ACME, SECRETS, 1000, beside)


def test_hidden_files_links_and_pipes_of_a_plugin_stay_and_are_named(folder, tmp_path):
    (tmp_path / "id_rsa").write_text("secret")
    (folder / ".env").write_text("A_KEY=x")
    (folder / "link.py").symlink_to(tmp_path / "id_rsa")
    (folder / "deep").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")

    found = checked(Cloud(), ACME, SECRETS)
    _, (travels,) = requirements.of_plugins(ACME)

    assert names(found) == ["__init__.py", "a.txt", "lab_acme.py"]
    assert sorted(travels["files"]) == ["acme_rest/__init__.py", "acme_rest/a.txt", "lab_acme.py"]
    assert [(os.path.basename(one.path), one.reason.partition(":")[0]) for one in found.skipped] == [
        (".env", "hidden"), ("deep", "a link"), ("link.py", "a link"), ("pipe", "not a regular file"),
    ]  # fmt: skip


def test_a_plan_for_a_rented_machine_is_refused_for_a_secret_in_a_plugin_before_anything_is_asked(
    project, install_plugin, monkeypatch
):
    monkeypatch.setenv("ACME_API_KEY", "violet4anvil")
    source = json.dumps({"url": "file:///home/me/acme", "dir_info": {"editable": True}})
    install_plugin("acme", OBSERVER, files={"lab_acme-1.0.dist-info/direct_url.json": source})

    def planned(backend):
        return plan("smoke", ["observers.acme={}"], read_settings(), Plugins(), PartChoice(name=backend), dry=True)

    assert planned("local").carried == Bundle(())
    with pytest.raises(LabError, match=r"lab_acme\.py, line 4: contains the value of ACME_API_KEY"):
        planned("runpod")


def test_a_resume_on_a_rented_machine_is_refused_for_a_secret_that_came_into_a_plugin_meanwhile(
    project, install_plugin, monkeypatch
):
    source = json.dumps({"url": "file:///home/me/acme", "dir_info": {"editable": True}})
    install_plugin("acme", OBSERVER, files={"lab_acme-1.0.dist-info/direct_url.json": source})
    small = Bundle((BundledFile("src/lab/x.py", b"x"),))
    monkeypatch.setattr(planning.bundle, "collect", lambda *_: small)
    settings, plugins = read_settings(), Plugins()
    run, _ = recording.create(plan("smoke", ["observers.acme={}"], settings, plugins, PartChoice(name="local")))
    recording.set_outcome(run, "stopped", exit_code=143, ended="then")
    records.write_json(run.config, {**(records.read_json(run.config) or {}), "backend": "runpod"})
    monkeypatch.setenv("ACME_API_KEY", "violet4anvil")

    with pytest.raises(LabError, match=r"lab_acme\.py, line 4: contains the value of ACME_API_KEY"):
        resume.prepare(run, settings, plugins, as_recorded=True)


def test_records_of_plugins_that_cannot_be_read_are_left_out(folder):
    for damaged in (None, 3, "x", [1, "x", {}, {"third_party": True}]):
        assert checked(Cloud(), damaged, SECRETS) == Bundle(())

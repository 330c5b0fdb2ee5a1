"""What ran is hashed file by file in every situation, and git's own words are recorded as far as it has any."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

import lab as lab_package
from lab.experiment import PartChoice
from lab.jobs import allowed
from lab.launch import recording
from lab.launch.plan import plan
from lab.plugins import Plugins
from lab.runs import records
from lab.runs.directory import every
from lab.settings import read_settings

TOKEN = "a-token-of-no-known-shape"
QUICK = '[trackers]\nmlflow = false\n[[stages]]\nname = "only"\nrun = ["true"]\n'
FILES = {"src/lab/__init__.py": "", "src/mine.py": "one = 1\n", "pyproject.toml": "", "experiments/quick.toml": QUICK}


def git(folder, *arguments):
    settings = ("user.name=A", "user.email=a@b", "protocol.file.allow=always", "init.defaultBranch=main")
    options = [word for setting in settings for word in ("-c", setting)]
    command = ["git", "-C", str(folder), *options, *arguments]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})


class Situation:
    """A small project, in the state that git is to find it in."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch = folder, monkeypatch
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def no_repository(self):
        return "no repository", None

    def git_missing(self):
        self.committed()
        self.monkeypatch.setenv("PATH", "")
        return "git missing", None

    def no_commit_yet(self):
        git(self.folder, "init")
        return "no commit yet", "checkout"

    def committed(self):
        git(self.folder, "init")
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-m", "first")
        return "clean", "checkout"

    def edited(self):
        self.committed()
        (self.folder / "src" / "mine.py").write_text("one = 2\n")
        return "dirty", "checkout"

    def detached_head(self):
        self.committed()
        git(self.folder, "checkout", "--detach")
        return "clean", "checkout"

    def worktree(self):
        self.committed()
        git(self.folder, "worktree", "add", str(self.folder.parent / "tree"))
        self.folder = self.folder.parent / "tree"
        return "clean", "worktree"

    def submodule(self):
        self.committed()
        outer = self.folder.parent / "outer"
        outer.mkdir()
        git(outer, "init")
        git(outer, "submodule", "add", str(self.folder), "inner")
        self.folder = outer / "inner"
        return "clean", "submodule"

    def with_a_submodule(self):
        self.committed()
        inner = self.folder.parent / "inner"
        inner.mkdir()
        (inner / "deep.py").write_text("deep = 1\n")
        git(inner, "init")
        git(inner, "add", ".")
        git(inner, "commit", "-m", "inner")
        git(self.folder, "submodule", "add", str(inner), "src/inner")
        return "dirty", "checkout"

    def untracked_sources(self):
        self.committed()
        (self.folder / "src" / "new.py").write_text("new = 1\n")
        return "clean", "checkout"

    def dubious_ownership(self):
        self.committed()
        self.monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        return "dubious ownership", None

    def remote_with_a_token(self):
        self.committed()
        git(self.folder, "remote", "add", "origin", f"https://{TOKEN}@github.com/o/r.git")
        return "clean", "checkout"


@pytest.fixture
def situation(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "project"
    folder.mkdir()
    return Situation(folder, monkeypatch)


def recorded(folder, monkeypatch, name="quick", plugins=None):
    """The provenance of a run that was begun in this folder, and the files of its bundle."""
    monkeypatch.chdir(folder)
    begun, _ = recording.create(plan(name, [], read_settings(), plugins or Plugins(), PartChoice(name="local")))
    with tarfile.open(fileobj=io.BytesIO(begun.bundle.read_bytes())) as archive:
        bundled = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    return records.read_json(begun.provenance), bundled


def hashes(files):
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


HOW = [name for name in vars(Situation) if not name.startswith("_")]


@pytest.mark.parametrize("how", HOW)
def test_what_runs_is_hashed_file_by_file_whatever_git_says(situation, monkeypatch, how):
    state, kind = getattr(situation, how)()

    provenance, bundled = recorded(situation.folder, monkeypatch)

    there = {name: (situation.folder / name).read_bytes() for name in bundled}
    assert there == bundled
    assert {*FILES} <= {*bundled}
    assert provenance["files"] == hashes(bundled)
    assert re.fullmatch(r"[0-9a-f]{64}", provenance["code_sha256"])
    assert (provenance["repository"]["state"], provenance["repository"]["kind"]) == (state, kind)
    assert TOKEN not in json.dumps(provenance)


@pytest.mark.parametrize("how", HOW)
def test_one_edited_line_is_another_code_whatever_git_says(situation, monkeypatch, how):
    getattr(situation, how)()
    before, _ = recorded(situation.folder, monkeypatch)
    (situation.folder / "src" / "mine.py").write_text("one = 3\n")

    after, _ = recorded(situation.folder, monkeypatch)

    changed = {name for name in before["files"] if before["files"][name] != after["files"][name]}
    assert changed == {"src/mine.py"}
    assert before["code_sha256"] != after["code_sha256"]


def test_each_edit_is_another_code_and_its_patch_is_kept_while_staging_is_none(situation, monkeypatch):
    situation.committed()
    source = situation.folder / "src" / "mine.py"

    found = []
    for text in ("one = 1\n", "one = 2\n", "one = 3\n"):
        source.write_text(text)
        provenance, _ = recorded(situation.folder, monkeypatch)
        git(situation.folder, "add", "src")
        staged, _ = recorded(situation.folder, monkeypatch)
        assert staged["code_sha256"] == provenance["code_sha256"]
        found.append((provenance["code_sha256"], provenance["repository"]["state"]))

    assert len({code for code, _ in found}) == 3
    assert [state for _, state in found] == ["clean", "dirty", "dirty"]
    newest = max(every(situation.folder / ".runs"), key=lambda run: run.config.stat().st_mtime_ns)
    assert "+one = 3" in newest.patch.read_text()


def test_sources_that_git_does_not_track_are_named_and_hashed(situation, monkeypatch):
    situation.untracked_sources()

    provenance, _ = recorded(situation.folder, monkeypatch)

    assert provenance["repository"]["untracked_code"] == ["src/new.py"]
    assert provenance["files"]["src/new.py"] == hashlib.sha256(b"new = 1\n").hexdigest()


def test_the_code_of_a_submodule_travels_and_is_hashed(situation, monkeypatch):
    situation.with_a_submodule()

    _, bundled = recorded(situation.folder, monkeypatch)

    assert bundled["src/inner/deep.py"] == b"deep = 1\n"


def test_the_code_of_an_installed_wheel_is_hashed_and_no_repository_claimed(tmp_path, project, monkeypatch):
    (project / "experiments" / "quick.toml").write_text(QUICK)
    site = tmp_path / "site-packages"
    source = os.path.dirname(lab_package.__file__)
    shutil.copytree(source, site / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(os.path.join(source, "../../plugins/lab_local"), site / "lab_local")
    monkeypatch.setattr(allowed, "_package_folder", lambda: site / "lab")
    monkeypatch.setattr(allowed, "_plugin_modules", lambda: ["lab_local"])
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "lab_local", raising=False)

    provenance, bundled = recorded(project, monkeypatch)

    installed = {
        "src/lab/runs/records.py": "lab/runs/records.py",
        "plugins/lab_local/backend.py": "lab_local/backend.py",
    }
    assert {name: bundled[name] for name in installed} == {
        name: (site / place).read_bytes() for name, place in installed.items()
    }
    assert provenance["files"] == hashes(bundled)
    assert provenance["lab_repository"] is None
    assert re.fullmatch(r"\d+\.\d+.*", provenance["lab_version"])


ACME = """
from lab import Part, hookimpl

@hookimpl
def losses():
    return [Part("acme", target="lab_acme:Acme")]
"""


def test_an_editable_plugin_is_hashed_and_no_index_is_said_to_have_it(project, monkeypatch, install_plugin):
    source = json.dumps({"url": "file:///home/me/lab-acme", "dir_info": {"editable": True}})
    site = install_plugin("acme", ACME, version="3.1", files={"lab_acme-3.1.dist-info/direct_url.json": source})
    (project / "experiments" / "mine.toml").write_text('extends = "smoke"\nloss = "acme"\ntrackers.mlflow = false\n')

    before, _ = recorded(project, monkeypatch, "mine", Plugins())
    (site / "lab_acme.py").write_text(ACME + "# edited\n")
    after, _ = recorded(project, monkeypatch, "mine", Plugins())

    [one], [other] = ([p for p in record["plugins"] if p["name"] == "acme"] for record in (before, after))
    assert (one["version"], one["requirement"], one["third_party"]) == ("3.1", None, True)
    assert one["installed_from"] == "lab-acme"
    assert re.fullmatch(r"[0-9a-f]{64}", one["files_sha256"])
    assert one["files_sha256"] != other["files_sha256"]

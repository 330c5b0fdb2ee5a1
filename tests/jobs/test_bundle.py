from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lab
from lab.errors import LabError
from lab.jobs import allowed
from lab.jobs.bundle import Skipped, collect, refuse_secrets
from lab.runs.secrets import Secrets

TOKEN = "ghp_" + "a1" * 10


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A small checkout of lab, so that the bundle's whole content is known."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "checkout"
    for name in ("src/lab/__init__.py", "plugins/lab_x/__init__.py", "experiments/smoke.toml", "pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    git(folder, "init")
    return folder


FILES = ["plugins/lab_x/__init__.py", "pyproject.toml", "src/lab/__init__.py"]


def paths(found):
    return [file.path for file in found.files]


def test_only_what_is_allowed_travels(checkout):
    for name in (".env", "notes.txt", "secrets/key.pem", ".runs/x/config.json", "data/huge.bin", "tests/test_x.py"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("x")

    assert paths(collect(checkout)) == FILES


def test_of_the_experiments_only_those_that_were_read_travel(checkout, tmp_path):
    (checkout / "experiments" / "other.toml").touch()
    (tmp_path / "elsewhere.toml").touch()

    found = collect(checkout, [checkout / "experiments" / "smoke.toml", tmp_path / "elsewhere.toml"])

    assert paths(found) == ["experiments/smoke.toml", *FILES]


def test_each_file_has_the_hash_of_what_is_in_it(checkout):
    found = collect(checkout)

    assert found.hashes["pyproject.toml"] == hashlib.sha256(b"# pyproject.toml\n").hexdigest()
    assert found.sha256 == hashlib.sha256(found.archive).hexdigest()


def test_ignored_files_stay_however_large_and_new_ones_travel(checkout):
    (checkout / ".gitignore").write_text("*.bin\n.venv/\n")
    (checkout / "src" / ".venv").mkdir()
    (checkout / "src" / ".venv" / "x.py").touch()
    (checkout / "src" / "new.py").touch()
    with (checkout / "src" / "x.bin").open("wb") as file:
        file.truncate(3_000_000_000)

    assert paths(collect(checkout)) == sorted([*FILES, "src/new.py"])


def test_compiled_files_never_travel_even_where_git_ignores_nothing(checkout):
    (checkout / "src" / "lab" / "__pycache__").mkdir()
    (checkout / "src" / "lab" / "__pycache__" / "x.pyc").touch()

    found = collect(checkout)

    assert paths(found) == FILES
    assert found.skipped == ()


def test_a_file_that_git_tracks_but_that_was_deleted_is_no_error(checkout):
    git(checkout, "add", ".")
    (checkout / "plugins" / "lab_x" / "__init__.py").unlink()

    assert "plugins/lab_x/__init__.py" not in paths(collect(checkout))


@pytest.mark.parametrize("with_git", [True, False])
def test_links_are_reported_and_never_followed(checkout, tmp_path, with_git):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.py").write_text("secret")
    (checkout / "src" / "folder").symlink_to(tmp_path / "outside")
    (checkout / "src" / "loop").symlink_to(".")
    (checkout / "src" / "dangling.py").symlink_to("nowhere")
    (checkout / "src" / "file.py").symlink_to(tmp_path / "outside" / "secret.py")
    if not with_git:
        shutil.rmtree(checkout / ".git")

    found = collect(checkout)

    assert paths(found) == FILES
    names = ("src/dangling.py", "src/file.py", "src/folder", "src/loop")
    assert found.skipped == tuple(Skipped(name, "a link: links are never followed") for name in names)


@pytest.mark.parametrize("with_git", [True, False])
def test_an_allowed_name_that_is_itself_a_link_is_not_followed(checkout, tmp_path, with_git):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.py").touch()
    (checkout / "scripts").symlink_to(tmp_path / "outside")
    if not with_git:
        shutil.rmtree(checkout / ".git")

    found = collect(checkout)

    assert paths(found) == FILES
    assert [skipped.path for skipped in found.skipped] == ["scripts"]


@pytest.mark.parametrize("how", ["no repository", "git missing", "dubious ownership"])
def test_without_git_everything_allowed_travels_but_hidden_and_compiled_files(checkout, monkeypatch, how):
    (checkout / "src" / ".hidden").touch()
    (checkout / "src" / "lab" / "__pycache__").mkdir()
    (checkout / "src" / "lab" / "__pycache__" / "x.pyc").touch()
    (checkout / "src" / "pipe").unlink(missing_ok=True)
    os.mkfifo(checkout / "src" / "pipe")
    if how == "no repository":
        shutil.rmtree(checkout / ".git")
    elif how == "git missing":
        monkeypatch.setenv("PATH", "")
    else:
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")

    found = collect(checkout)

    assert paths(found) == FILES
    assert found.skipped == (Skipped("src/.hidden", "hidden"), Skipped("src/pipe", "not a regular file"))


def test_a_repository_inside_the_checkout_travels_too(checkout):
    inner = checkout / "plugins" / "inner"
    inner.mkdir()
    (inner / "x.py").touch()
    git(inner, "init")

    assert "plugins/inner/x.py" in paths(collect(checkout))


def test_a_bundle_that_is_too_large_names_its_largest_files(checkout):
    (checkout / "src" / "weights.pt").write_bytes(b"x" * 200_000)

    with pytest.raises(LabError, match=r"0\.2 MB  src/weights\.pt") as caught:
        collect(checkout, limit_bytes=100_000)

    assert "--bundle-mb" in caught.value.do


def test_a_file_that_cannot_be_read_is_named(checkout, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(LabError, match=r"__init__\.py: cannot be read for the bundle: Permission denied"):
        collect(checkout)


def test_the_code_has_one_hash_whatever_its_times_modes_and_index_say(checkout):
    before = collect(checkout)
    git(checkout, "add", ".")
    for path in checkout.rglob("*.py"):
        os.utime(path, (1, 1))

    after = collect(checkout)
    (checkout / "src" / "lab" / "__init__.py").write_text("# other\n")

    assert (after.code_sha256, after.sha256) == (before.code_sha256, before.sha256)
    assert collect(checkout).code_sha256 != before.code_sha256


def test_a_project_that_is_no_checkout_brings_its_own_files_and_labs_code(project):
    (project / "scripts").mkdir()
    (project / "scripts" / "mine.py").touch()

    found = set(paths(collect(project)))

    assert {"scripts/mine.py", "src/lab/__init__.py", "plugins/lab_local/backend.py"} <= found
    assert not any(path.startswith(("tests/", "docs/", ".")) for path in found)


def test_an_installed_wheel_brings_lab_and_its_plugins_in_the_same_places(project, tmp_path, monkeypatch):
    site = tmp_path / "site-packages"
    source = os.path.dirname(lab.__file__)
    shutil.copytree(source, site / "lab", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(os.path.join(source, "../../plugins/lab_local"), site / "lab_local")
    monkeypatch.setattr(allowed, "_package_folder", lambda: site / "lab")
    monkeypatch.setattr(allowed, "_plugin_modules", lambda: ["lab_local"])
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "lab_local", raising=False)

    found = set(paths(collect(project)))

    assert allowed.checkout_of(project) is None
    assert {"src/lab/runs/records.py", "plugins/lab_local/__init__.py"} <= found


def test_a_planted_secret_in_code_stops_the_bundle_with_file_and_line(checkout):
    (checkout / "src" / "lab" / "__init__.py").write_text("one\nKEY = 'planted-value'\n")

    with pytest.raises(LabError, match=r"src/lab/__init__\.py, line 2: contains the value of A_KEY"):
        refuse_secrets(collect(checkout), Secrets({"A_KEY": "planted-value"}))


def test_a_token_in_code_stops_the_bundle_unless_its_line_says_that_it_is_none(checkout):
    (checkout / "pyproject.toml").write_text(f"x = '{TOKEN}'  # not a secret\n")
    refuse_secrets(collect(checkout), Secrets({}))
    (checkout / "pyproject.toml").write_text(f"x = '{TOKEN}'\n")

    with pytest.raises(LabError, match=r"pyproject\.toml, line 1: contains a GitHub token"):
        refuse_secrets(collect(checkout), Secrets({}))


def test_the_code_of_this_repository_holds_no_secret(project):
    refuse_secrets(collect(project), Secrets({}))

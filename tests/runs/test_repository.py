from __future__ import annotations

import os
import subprocess

import pytest

from lab.runs import repository
from lab.runs.provenance import provenance
from lab.runs.repository import describe, listed, patch, untracked, without_credentials
from lab.runs.secrets import Secrets

NOTHING = Secrets({})
TOKEN = "ghp_SECRET123SECRET123"


def git(folder, *arguments):
    identity = [
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@b",
        "-c",
        "protocol.file.allow=always",
        "-c",
        "init.defaultBranch=main",
    ]
    command = ["git", "-C", str(folder), *identity, *arguments]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})


@pytest.fixture
def plain_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("one\n")
    return folder


@pytest.fixture
def empty(plain_folder):
    git(plain_folder, "init")
    return plain_folder


@pytest.fixture
def checkout(empty):
    git(empty, "add", "src")
    git(empty, "commit", "-m", "first")
    return empty


def test_a_clean_checkout_has_its_commit_and_branch(checkout):
    found = describe(checkout, NOTHING)

    assert (found.state, found.kind, found.branch) == ("clean", "checkout", "main")
    assert len(found.commit) == 40


def test_tracked_changes_make_it_dirty_and_staging_changes_nothing(checkout):
    (checkout / "src" / "a.py").write_text("two\n")
    edited = describe(checkout, NOTHING)
    git(checkout, "add", "src")

    staged = describe(checkout, NOTHING)

    assert edited == staged
    assert (edited.state, edited.tracked_changes) == ("dirty", ("src/a.py",))


def test_an_untracked_file_is_listed_apart_and_makes_nothing_dirty(checkout):
    (checkout / "a screenshot.png").touch()

    found = describe(checkout, NOTHING)

    assert (found.state, found.untracked) == ("clean", ("a screenshot.png",))


def test_a_renamed_file_is_one_change(checkout):
    git(checkout, "mv", "src/a.py", "src/b c.py")

    assert describe(checkout, NOTHING).tracked_changes == ("src/b c.py",)


def test_a_detached_head_has_a_commit_and_no_branch(checkout):
    git(checkout, "checkout", "--detach")

    found = describe(checkout, NOTHING)

    assert (found.state, found.branch) == ("clean", None)
    assert found.commit


def test_the_tags_of_the_commit_are_named_and_those_of_others_are_not(checkout):
    git(checkout, "tag", "chapter02-v1")
    git(checkout, "tag", "-a", "chapter01-v1", "-m", "the article")
    tagged = describe(checkout, NOTHING)
    (checkout / "src" / "a.py").write_text("two\n")
    git(checkout, "commit", "-am", "later")

    assert tagged.tags == ("chapter01-v1", "chapter02-v1")
    assert describe(checkout, NOTHING).tags == ()


def test_before_the_first_commit_there_is_none(empty):
    found = describe(empty, NOTHING)

    assert (found.state, found.commit, found.branch) == ("no commit yet", None, "main")


def test_a_folder_outside_any_repository_is_called_so(plain_folder):
    assert describe(plain_folder, NOTHING).state == "no repository"


def test_without_git_that_is_what_is_said(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")

    assert describe(checkout, NOTHING).state == "git missing"
    assert listed(checkout, ["src"]) is None
    assert patch(checkout, ["src"], NOTHING) == (b"", ())


def test_dubious_ownership_is_named_and_not_fatal(checkout, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")

    found = describe(checkout, NOTHING)

    assert (found.state, found.commit) == ("dubious ownership", None)


def test_a_worktree_is_a_worktree(checkout, tmp_path):
    git(checkout, "worktree", "add", str(tmp_path / "tree"))

    found = describe(tmp_path / "tree", NOTHING)

    assert (found.state, found.kind, found.branch) == ("clean", "worktree", "tree")


def test_a_submodule_has_the_commit_of_the_submodule(checkout, tmp_path):
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init")
    git(outer, "submodule", "add", str(checkout), "inner")
    git(outer, "commit", "-m", "outer")

    found = describe(outer / "inner", NOTHING)

    assert (found.state, found.kind) == ("clean", "submodule")
    assert found.commit == describe(checkout, NOTHING).commit


def test_a_variable_that_points_git_elsewhere_is_ignored(checkout, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "/nowhere")

    assert describe(checkout, NOTHING).state == "clean"


def test_a_repository_that_is_damaged_says_what_git_says(checkout):
    (checkout / ".git" / "HEAD").write_text("nonsense")

    assert describe(checkout, NOTHING).commit is None


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        (f"https://user:{TOKEN}@github.com/o/r.git", "https://github.com/o/r.git"),
        (f"https://{TOKEN}@github.com/o/r.git", "https://github.com/o/r.git"),
        (f"https://github.com/o/r.git?access_token={TOKEN}#{TOKEN}", "https://github.com/o/r.git"),
        (f"ssh://user:{TOKEN}@host:2222/o/r", "ssh://host:2222/o/r"),
        ("git@github.com:o/r.git", "git@github.com:o/r.git"),
        (f"{TOKEN}@host:o/r.git", "host:o/r.git"),
        ("/local/folder@home", "/local/folder@home"),
        (f"https://[{TOKEN}", "an address that cannot be read"),
    ],
)
def test_an_address_keeps_host_and_path_and_loses_what_opens_it(address, kept):
    assert without_credentials(address) == kept


def test_a_token_in_the_remote_is_never_recorded(checkout, monkeypatch):
    git(checkout, "remote", "add", "origin", "https://me@github.com/o/r.git?key=a-secret-of-no-known-shape")
    git(checkout, "config", f"url.https://{TOKEN}@github.com/.insteadOf", "https://github.com/")

    record = provenance(checkout, None, {"src/a.py": "x"}, {}, [], NOTHING)

    assert TOKEN not in str(record)
    assert "no-known-shape" not in str(record)
    assert record["repository"]["remote"] == "https://github.com/o/r.git"


@pytest.mark.parametrize(
    ("address", "recorded"),
    [
        ("/home/me/secret-client/lab", "folder lab"),
        ("file:///home/me/lab.git", "folder lab.git"),
        ("../lab/", "folder lab"),
        ("~/lab", "folder lab"),
        ("host:o/r.git", "host:o/r.git"),
        ("https://example.org/o/r", "https://example.org/o/r"),
    ],
)
def test_a_remote_on_this_machine_is_recorded_without_its_place(checkout, address, recorded):
    git(checkout, "remote", "add", "origin", address)

    assert describe(checkout, NOTHING).remote == recorded


def test_any_remote_is_taken_where_there_is_no_origin(checkout):
    git(checkout, "remote", "add", "fork", "git@host:o/r.git")

    assert describe(checkout, NOTHING).remote == "git@host:o/r.git"


def test_files_that_git_ignores_are_not_listed(checkout):
    (checkout / ".gitignore").write_text("*.bin\n")
    for name in ("new.py", "x.bin", "ünï \n.py"):
        (checkout / "src" / name).touch()

    assert listed(checkout, ["src", "missing"]) == ["src/a.py", "src/new.py", "src/ünï \n.py"]
    assert untracked(checkout, ["src"]) == ["src/new.py", "src/ünï \n.py"]


def test_the_patch_holds_the_changes_with_every_secret_covered(checkout):
    (checkout / "src" / "a.py").write_text(f"two {TOKEN} planted-value\n")

    text, omitted = patch(checkout, ["src"], Secrets({"A_TOKEN": "planted-value"}))

    assert b"+two [hidden] [hidden]" in text
    assert omitted == ()


def test_a_large_change_is_named_and_left_out(checkout, monkeypatch):
    monkeypatch.setattr(repository, "PATCH_FILE_BYTES", 100)
    (checkout / "src" / "b.py").write_text("short\n")
    git(checkout, "add", "src")
    (checkout / "src" / "a.py").write_text("x" * 1000)

    text, omitted = patch(checkout, ["src"], NOTHING)

    assert b"short" in text
    assert omitted == ("src/a.py (1,000 bytes)",)


def test_gigabytes_beside_the_code_cost_a_small_record_that_names_what_it_omits(checkout):
    (checkout / "src" / "table.py").write_bytes(b"x" * 50_000_000)
    git(checkout, "add", "src")
    git(checkout, "-c", "core.compression=0", "commit", "-m", "large")
    with (checkout / "src" / "table.py").open("r+b") as file:
        file.write(b"y" * 1000)
    with (checkout / "weights.bin").open("wb") as file:
        file.truncate(2 * 2**30)  # sparse: whoever reads it notices
    (checkout / "many").mkdir()
    for number in range(20_000):
        (checkout / "many" / f"{number}.txt").touch()

    found = describe(checkout, NOTHING)
    text, omitted = patch(checkout, ["src"], NOTHING)

    assert (found.tracked_changes, found.untracked) == (("src/table.py",), ("many/", "weights.bin"))
    assert (text, omitted) == (b"", ("src/table.py (50,000,000 bytes)",))


def test_thousands_of_names_are_counted_and_not_all_listed(checkout):
    for number in range(repository.LISTED + 5):
        (checkout / f"{number}.txt").touch()

    found = describe(checkout, NOTHING)

    assert (len(found.untracked), found.not_listed) == (repository.LISTED, 5)


def test_provenance_tells_untracked_code_from_other_untracked_files(checkout):
    for name in ("src/new.py", "notes.txt"):
        (checkout / name).touch()

    record = provenance(checkout, None, {"src/a.py": "1", "src/new.py": "2"}, {"code_sha256": "c"}, [], NOTHING)

    assert record["repository"]["untracked_code"] == ["src/new.py"]
    assert record["files"] == {"src/a.py": "1", "src/new.py": "2"}
    assert record["code_sha256"] == "c"
    assert record["lab_version"]

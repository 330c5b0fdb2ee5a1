from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sample_runs import edit, write
from typer.testing import CliRunner

from lab.cli import app
from lab.errors import UsageError
from lab.runs import records

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory

OTHER = "sample-20261201-0916-bbbb"
TOKEN = "hf_" + "a" * 24


def lab(*arguments: str) -> list[str]:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output.split()


@pytest.fixture
def run(project: Path) -> RunDirectory:
    return write(project / ".runs", steps=6)


def test_a_report_lies_in_its_run_and_its_path_is_printed_as_it_can_be_typed(
    run: RunDirectory, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab("report", run.id) == [f".runs/{run.id}/report.html"]
    monkeypatch.chdir(project / "experiments")
    assert lab("report", run.id) == [str(run.report)]
    assert run.report.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_several_runs_get_one_page_outside_their_directories(run: RunDirectory, project: Path) -> None:
    write(project / ".runs", id=OTHER, steps=6)

    (path,) = lab("report", run.id, OTHER)

    assert Path(path).parent == Path(".lab/reports")
    assert not run.report.exists()


def test_the_index_lists_runs_newest_first_and_links_to_reports(run: RunDirectory, project: Path) -> None:
    write(project / ".runs", id=OTHER, steps=6)
    lab("report", run.id)

    (path,) = lab("report", "--index")

    page = Path(path).read_text(encoding="utf-8")
    assert page.index(OTHER) < page.index(run.id)
    assert f'href="{run.id}/report.html"' in page
    assert f'href="{OTHER}' not in page
    assert "2 runs, newest first" in page
    assert "<em>measured</em>" not in page


def test_an_index_without_any_run_says_so(project: Path) -> None:
    (path,) = lab("report", "--index")

    assert "There is no run yet." in Path(path).read_text(encoding="utf-8")


def test_nothing_named_is_a_usage_error(project: Path) -> None:
    with pytest.raises(UsageError, match="needs a run"):
        lab("report")


def test_what_is_published_may_be_committed(run: RunDirectory, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "s3cr3t-of-mine")
    run.checkpoint.write_bytes(b"weights")
    edit(run.outcome, reason=f"died on {platform.node()} in {project}/x with {TOKEN} and s3cr3t-of-mine")
    edit(run.environment, notes={"host": platform.node(), "access_token": "abc"})
    edit(run.config, experiment__description=f"uses {TOKEN}")

    (path,) = lab("report", run.id, "--publish", "reports/first")

    published = Path(path)
    assert published == Path("reports/first")
    files = [file for file in published.rglob("*") if file.is_file()]
    everything = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert {"report.html", "README.md"} <= {file.name for file in files}
    assert not {"checkpoint.pt", "bundle.tar.gz", "train.log"} & {file.name for file in files}
    for private in (TOKEN, "s3cr3t-of-mine", str(project), "access_token", "/somewhere/tokens"):
        assert private not in everything
    assert f"on {platform.node()}" not in everything
    assert "0123456789abcdef0123456789abcdef01234567" in everything


def test_a_key_of_the_env_file_is_covered_in_what_is_published(run: RunDirectory, project: Path) -> None:
    (project / ".env").write_text("ACME_API_KEY=violet4anvil\n")
    edit(run.config, experiment__description="with violet4anvil")

    (path,) = lab("report", run.id, "--publish", "reports/first")

    files = [file for file in Path(path).rglob("*") if file.is_file()]
    assert [file for file in files if b"violet4anvil" in file.read_bytes()] == []
    assert any(b"with [hidden]" in file.read_bytes() for file in files)


def test_tags_and_uncommitted_changes_are_marked_in_what_is_published(run: RunDirectory) -> None:
    edit(run.provenance, repository__tags=["chapter01-v1"], repository__tracked_changes=["src/lab/x.py"])

    (path,) = lab("report", run.id, "--publish", "reports/first")

    commit = "0123456789abcdef0123456789abcdef01234567"
    marked = f"{commit}, tag chapter01-v1, with uncommitted changes"
    assert marked in (Path(path) / "README.md").read_text(encoding="utf-8")
    page = (Path(path) / "report.html").read_text(encoding="utf-8")
    assert f"{commit[:8]} chapter01-v1 with uncommitted changes" in page


def test_a_published_batch_is_never_merged_with_another(run: RunDirectory, project: Path) -> None:
    lab("report", run.id, "--publish", "reports/first")
    before = sorted(project.joinpath("reports").rglob("*"))

    with pytest.raises(UsageError, match="never merged"):
        lab("report", run.id, "--publish", "reports/first")

    assert sorted(project.joinpath("reports").rglob("*")) == before


def test_publishing_that_fails_leaves_nothing_behind(
    run: RunDirectory, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.config.write_text("{torn", encoding="utf-8")

    with pytest.raises(Exception, match=r"config\.json"):
        lab("report", run.id, "--publish", "reports/first")

    assert not list((project / "reports").iterdir())


def test_published_records_are_strict_json(project: Path) -> None:
    run = write(project / ".runs", steps=6, nan_steps=frozenset({2}))

    (path,) = lab("report", run.id, "--publish", "reports/first")

    for file in Path(path).rglob("*.json"):
        json.loads(file.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert records.read_json(Path(path) / run.id / "config.json") is not None

"""What of runs may be committed: their records and page, without secrets, host names, paths, checkpoints or bundles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.compare import facts
from lab.compare.comparison import compare
from lab.compare.markdown import markdown, table
from lab.errors import LabError
from lab.report.page import comparison_page, run_page
from lab.runs import records
from lab.runs.directory import RunDirectory
from lab.runs.new_folder import new_folder
from lab.runs.secrets import promises_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.compare.facts import RunFacts

RECORDS = (
    "config",
    "provenance",
    "environment",
    "data_manifest",
    "data_stats",
    "summary",
    "outcome",
    "resource",
    "cost",
)
LINES = ("stages", "metrics", "artifacts")
PRIVATE_KEYS = frozenset({"host", "hostname", "boot", "folder", "argv", "pid", "remote", "handle", "pod", "address"})
ARTIFACTS = ("figure", "json", "table")
LARGEST_ARTIFACT = 1_000_000


def publish(runs: Sequence[RunDirectory], target: Path, hidden: Callable[[str], str]) -> Path:
    """Write the runs' records and their page into the new folder `target`; `hidden` covers what is secret in a text.

    Raises `UsageError` when `target` exists: results of two batches are never merged.
    """
    with new_folder(target, "what is published is never merged with another batch", "Give a new name.") as building:
        copies = [_copy(run, building / run.id, hidden) for run in runs]
        found = [facts.read(copy) for copy in copies]
        comparison = compare(found) if len(found) > 1 else None
        page = comparison_page(comparison) if comparison else run_page(found[0]).html()
        records.write_bytes(building / "report.html", page.encode("utf-8", "backslashreplace"))
        text = _readme(target.name, found) + (f"\n{markdown(comparison)}" if comparison else "")
        records.write_bytes(building / "README.md", text.encode("utf-8", "backslashreplace"))
    return target


def without_this_machine(text: str, host: str, folders: Mapping[str, str]) -> str:
    """The text without this machine's name, and with stand-ins for its folders, the longest first."""
    for folder, stand_in in sorted(folders.items(), key=lambda item: -len(item[0])):
        text = text.replace(folder, stand_in) if len(folder) > 1 else text
    return re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", "[host]", text) if len(host) > 1 else text


def _copy(run: RunDirectory, folder: Path, hidden: Callable[[str], str]) -> RunDirectory:
    folder.mkdir()
    copy = RunDirectory(folder)
    for name in RECORDS:
        record = _readable(getattr(run, name))
        if record is not None:
            records.write_json(getattr(copy, name), _cleaned(record, hidden))
    for name in LINES:
        for line in records.read_lines(getattr(run, name)):
            if name != "artifacts" or _bring(run, copy, line, hidden):
                records.append_line(getattr(copy, name), _cleaned(line, hidden))
    return copy


def _readable(path: Path) -> dict[str, Any] | None:
    try:
        return records.read_json(path)
    except LabError:
        return None


def _bring(run: RunDirectory, copy: RunDirectory, line: dict[str, Any], hidden: Callable[[str], str]) -> bool:
    """Copy a small picture or record that a loop left; anything else stays at home."""
    name = str(line.get("path", ""))
    source = run.path / name
    plain = name == Path(name).name and source.is_file() and not source.is_symlink()
    if not plain or line.get("kind") not in ARTIFACTS or source.stat().st_size > LARGEST_ARTIFACT:
        return False
    content = source.read_bytes()
    if source.suffix in (".json", ".svg", ".csv", ".txt"):
        content = hidden(content.decode("utf-8", "replace")).encode()
    records.write_bytes(copy.path / name, content)
    return True


def _cleaned(record: dict[str, Any], hidden: Callable[[str], str]) -> dict[str, Any]:
    return {
        key: _cover(value, hidden)
        for key, value in record.items()
        if key.lower() not in PRIVATE_KEYS and not promises_secret(key)
    }


def _cover(value: object, hidden: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return hidden(value)
    if isinstance(value, dict):
        return _cleaned(value, hidden)
    if isinstance(value, list):
        return [_cover(inner, hidden) for inner in value]
    return value


def _readme(name: str, found: Sequence[RunFacts]) -> str:
    rows = [(run.id, run.name, run.status, _commit(run)) for run in found]
    lines = [f"# {name}", "", *table(("run", "experiment", "status", "commit"), rows), ""]
    lines.append("`report.html` is the page; each run's records lie in the folder of its name.")
    return "\n".join(lines) + "\n"


def _commit(run: RunFacts) -> str:
    repository = run.provenance.get("repository") or {}
    commit = repository.get("commit")
    if commit is None:
        return str(repository.get("state") or "unknown")
    named = ", ".join([commit, *(f"tag {tag}" for tag in repository.get("tags") or ())])
    return f"{named}{', with uncommitted changes' if repository.get('tracked_changes') else ''}"

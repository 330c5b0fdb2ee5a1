"""The page of all runs: newest first, each with its figures and, where there is one, its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.compare import formats
from lab.compare.formats import counted
from lab.report.blocks import Section, Table, Text
from lab.report.page import Page
from lab.runs import index, records
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from lab.runs.row import Row
    from lab.settings import Settings

COLUMNS = ("run", "experiment", "status", "created", "loss", "validation loss", "tokens/s", "MFU", "elapsed")


def write_index(settings: Settings) -> Path:
    """Write index.html beside the run directories and return its path."""
    found = list(reversed(index.rows(settings)))
    links = {row.id: f"{row.id}/{report.name}" for row in found if (report := RunDirectory(row.path).report).is_file()}
    table = Table("", COLUMNS, [_row(row) for row in found], COLUMNS[4:], links=links)
    about = f"{counted(len(found), 'run')}, newest first. A name leads to the run's report where one was written."
    blocks = [table] if found else [Text("There is no run yet.")]
    page = Page("Runs", settings.project.name, about, (), [Section("runs", "Runs", blocks)], marked=False)
    settings.runs_folder.mkdir(parents=True, exist_ok=True)
    path = settings.runs_folder / "index.html"
    records.write_bytes(path, page.html().encode("utf-8", "backslashreplace"))
    return path


def _row(row: Row) -> tuple[str, ...]:
    return (
        row.id,
        row.experiment or "-",
        row.status,
        (row.created or "-")[:16].replace("T", " "),
        formats.quantity(row.loss, "nats/token"),
        formats.quantity(row.evaluation_loss, "nats/token"),
        formats.quantity(row.tokens_per_second, "tokens/s"),
        formats.quantity(row.mfu, "share"),
        formats.quantity(row.elapsed_seconds, "seconds"),
    )

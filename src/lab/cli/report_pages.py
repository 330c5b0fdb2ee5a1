"""Which pages `lab report` writes, and where."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lab.runs.directory import RunDirectory
    from lab.settings import Settings


def write_pages(names: Sequence[str], publish: Path | None, *, index: bool, settings: Settings) -> Iterator[Path]:
    """Write what was asked for and yield each path."""
    from lab.report.index import write_index
    from lab.report.page import write
    from lab.report.publishing import publish as publish_runs
    from lab.runs.find import as_written, find

    runs = [find(name, settings, as_written) for name in names]
    if publish is not None and runs:
        yield publish_runs(runs, settings.project / publish, _hidden(settings))
    elif len(runs) == 1:
        yield write(runs[0], settings.store_folder)
    elif runs:
        yield _comparison(runs, settings)
    if index:
        yield write_index(settings)


def _comparison(runs: Sequence[RunDirectory], settings: Settings) -> Path:
    from lab.compare import facts
    from lab.compare.comparison import compare
    from lab.report.page import comparison_page
    from lab.runs import records

    page = comparison_page(compare([facts.read(run) for run in runs]), settings.store_folder)
    folder = settings.store_folder / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{'--'.join(run.id for run in runs[:4])}.html"
    records.write_bytes(path, page.encode("utf-8", "backslashreplace"))
    return path


def _hidden(settings: Settings) -> Callable[[str], str]:
    from lab.report.publishing import without_this_machine
    from lab.runs.secrets import Secrets
    from lab.settings import variables

    secrets = Secrets(variables(settings.project))
    folders = {str(settings.project): "[project]", str(Path.home()): "~"}
    return lambda text: without_this_machine(secrets.hidden(text), platform.node(), folders)

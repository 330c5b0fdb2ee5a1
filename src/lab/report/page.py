"""Pages: one run, a comparison, or all runs, each as one HTML file that needs no network and no other file."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from lab.compare import facts
from lab.report import comparing, figures, machine, observed, surroundings, training, vega
from lab.report.blocks import Plot, Section
from lab.runs import records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from jinja2 import Template

    from lab.compare.answer import Comparison
    from lab.compare.facts import RunFacts
    from lab.report.vega import Drawing
    from lab.runs.directory import RunDirectory


@dataclass(frozen=True)
class Badge:
    """A short fact under the title; `tone` is good, bad, open or nothing."""

    what: str
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Page:
    """What the template shows."""

    kind: str
    title: str
    about: str
    badges: Sequence[Badge]
    sections: Sequence[Section]
    marked: bool = True
    """Whether the figures say how they are known."""
    written: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC")

    @cached_property
    def drawings(self) -> dict[str, Drawing]:
        """Every chart of the page, drawn."""
        plots = [block for section in self.sections for block in section.blocks if isinstance(block, Plot)]
        return {plot.chart.name: vega.draw(plot.chart) for plot in plots}

    @property
    def specs(self) -> dict[str, Any]:
        """What the page's script needs for each chart."""
        plots = [block for section in self.sections for block in section.blocks if isinstance(block, Plot)]
        return {
            plot.chart.name: {"spec": self.drawings[plot.chart.name].spec, "x_title": plot.chart.x_title}
            for plot in plots
        }

    @property
    def version(self) -> str:
        """Which lab wrote the page."""
        from importlib.metadata import version

        return version("llm-training-lab")

    def html(self, store: Path | None = None) -> str:
        """The page; `store` is where the script that draws charts is kept between calls."""
        runtime = vega.runtime(store) if self.drawings else ""
        return _template("base.html").render(page=self, runtime=runtime)


def write(run: RunDirectory, store: Path | None = None) -> Path:
    """Write the run's report.html and return its path; with the project's `store`, the next page is written faster."""
    vega.begin(store)
    page = run_page(facts.read(run))
    records.write_bytes(run.report, page.html(store).encode("utf-8", "backslashreplace"))
    return run.report


def run_page(run: RunFacts) -> Page:
    """The page of one run: what was changed, what went wrong, figures, curves, then everything behind them."""
    from lab.report.blocks import Numbers
    from lab.report.numbers import headline

    charts = {chart.name: chart for chart in figures.of_run(run)}
    sections = (
        training.declared_change(run),
        training.trouble(run),
        Section("figures", "Key figures", [Numbers(headline(run))]),
        observed.pictures(run),
        training.loss(run, charts),
        training.speed(run, charts),
        observed.memory(run, charts),
        observed.trace(run),
        machine.section(charts),
        training.more(charts),
        observed.artifacts(run),
        surroundings.data(run),
        surroundings.cost(run),
        surroundings.stages(run),
        surroundings.environment(run),
        surroundings.provenance(run),
        surroundings.experiment(run),
        surroundings.files(run),
    )
    about = str(run.experiment.get("description") or "")
    return Page(f"Run of experiment {run.name}", run.id, about, _badges(run), sections)


def comparison_page(comparison: Comparison, store: Path | None = None, *, only_changed: bool = False) -> str:
    """The page of a comparison as HTML, on request without the checks that hold and the figures that are the same."""
    vega.begin(store)
    names = [run.name for run in comparison.runs]
    title = " and ".join(names if len(set(names)) == len(names) else [run.id for run in comparison.runs])
    return Page("Comparison of runs", title, "", (), comparing.sections(comparison, only_changed)).html(store)


def _badges(run: RunFacts) -> list[Badge]:
    tones = {"completed": "good", "failed": "bad", "lost": "bad", "stopped": "open"}
    repository = run.provenance.get("repository") or {}
    commit, changed = repository.get("commit"), repository.get("tracked_changes")
    named = " ".join([str(commit)[:8], *(repository.get("tags") or ())])
    badges = [
        Badge("status", run.status, tones.get(run.status, "")),
        Badge(
            "created",
            str(run.config.get("created", "unknown")).split(".")[0].removesuffix("+00:00").replace("T", " ") + " UTC",
        ),
        Badge("device", str(run.device.get("name") or run.environment.get("cpu") or "unknown")),
        Badge("backend", str(run.config.get("backend", "unknown"))),
        Badge("commit", f"{named}{' with uncommitted changes' if changed else ''}", "open" if changed else "")
        if commit
        else Badge("commit", str(repository.get("state") or "unknown"), "open"),
    ]
    if run.attempt > 1:
        badges.append(Badge("attempt", str(run.attempt), "open"))
    return [*badges, *_noted(run)]


def _noted(run: RunFacts) -> Iterator[Badge]:
    """What the loop noted in words, such as the model that it took; observers say theirs in their own sections."""
    notes = run.environment.get("notes")
    for name, note in notes.items() if isinstance(notes, dict) else ():
        if isinstance(note, str) and name not in (run.experiment.get("observers") or {}):
            yield Badge(str(name), note)


@cache
def _template(name: str) -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("lab.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template(name)

"""From a checked experiment to the job that a backend executes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.jobs import PYTHON, RUN, Job, Needs, Stage
from lab.plugins import chosen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.experiment import Experiment
    from lab.plugins import Plugins

HOUR = 3600.0
PREPARE, TRAIN = "prepare", "train"


def job_of(experiment: Experiment, plugins: Plugins, bundle_sha256: str, known: Mapping[str, str]) -> Job:
    """The job of an experiment: the stages of a training, or the experiment's own."""
    forwarded = _forwarded(experiment, plugins, known)
    stages = [replace(stage, forwarded=tuple(forwarded.get(stage.name, ()))) for stage in _stages(experiment)]
    declared = experiment.environment
    return Job(
        run_id="",
        stages=tuple(stages),
        bundle_sha256=bundle_sha256,
        needs=Needs(
            gpu=declared.gpu,
            image=declared.image,
            packages=(*declared.packages, *_undeclared(experiment, plugins)),
            torch_index=declared.torch_index,
            disk_gb=declared.disk_gb,
            volume_gb=declared.volume_gb,
            network_volume=declared.network_volume,
        ),
        forwarded=tuple(sorted({name for stage in stages for name in stage.forwarded})),
        results=experiment.results or ("**",),
        seconds=experiment.limits.hours * HOUR,
        max_dollars=experiment.limits.dollars,
    )


def _stages(experiment: Experiment) -> Iterator[Stage]:
    if experiment.stages:
        for stage in experiment.stages:
            yield Stage(stage.name, stage.run, None if stage.hours is None else stage.hours * HOUR)
        return
    yield Stage("preflight", (PYTHON, "-m", "lab.worker.preflight", RUN))
    if experiment.data is not None:
        yield Stage(PREPARE, (PYTHON, "-m", "lab", "data", "prepare", "--run", RUN))
    yield Stage(TRAIN, (PYTHON, "-m", "lab.worker", RUN), leaves=f"{RUN}/summary.json")


def _undeclared(experiment: Experiment, plugins: Plugins) -> Iterator[str]:
    """What the experiment's parts need and its environment does not name: a declared version stands."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    def name(line: str) -> str:
        return canonicalize_name(Requirement(line).name)

    declared = {name(line) for line in experiment.environment.packages}
    return (line for line in plugins.requirements(experiment) if name(line) not in declared)


def _forwarded(experiment: Experiment, plugins: Plugins, known: Mapping[str, str]) -> dict[str, list[str]]:
    """Which stage gets which variable: those that the options of its parts name in `forwards`, where they are set.

    Raises `UsageError` for a variable that a stage of the experiment's own asks for and nobody set.
    """
    for stage in experiment.stages:
        if absent := [name for name in stage.forward if name not in known]:
            raise UsageError(f"stage {stage.name} forwards {', '.join(absent)}, which is not set", "Set it in .env.")
    if experiment.stages:
        return {stage.name: sorted(stage.forward) for stage in experiment.stages}
    wanted: dict[str, set[str]] = {PREPARE: set(), TRAIN: set()}
    for kind, key, choice in chosen(experiment):
        if kind == "tracker" and choice.options.get("where") != "worker":
            continue
        names = getattr(plugins.options(kind, choice, key), "forwards", ())
        wanted[PREPARE if kind == "source" else TRAIN].update(names)
    return {stage: sorted(name for name in names if name in known) for stage, names in wanted.items()}

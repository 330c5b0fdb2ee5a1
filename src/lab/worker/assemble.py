"""From a run directory's config to the parts that train: the loop with its attention and loss, and the observers."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from pydantic import ValidationError

from lab.contracts import ARTIFACT_KINDS, LoopContext
from lab.contracts.loss import CROSS_ENTROPY
from lab.data.cache import read_manifest
from lab.errors import LabError, UsageError
from lab.experiment import Experiment
from lab.plugins import blame, chosen, load
from lab.plugins.loading import owned, report
from lab.runs import records, regular
from lab.runs.spelling import spelled
from lab.settings import read_settings
from lab.worker.handed import Handed
from lab.worker.imports import Imports
from lab.worker.observers import Observers

if TYPE_CHECKING:
    from lab.contracts import Attention, Loop, Loss
    from lab.experiment.sections import Train
    from lab.plugins import Plugins
    from lab.runs.directory import RunDirectory
    from lab.worker.phases import Phases

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts:
    """An experiment's parts on their device, built from what `lab check` accepted."""

    experiment: Experiment
    train: Train
    device: torch.device
    attention: Attention | None
    loss: Loss | None
    plugins: Plugins

    @property
    def kernels(self) -> dict[str, str | None]:
        """What computes attention and loss, in the parts' own words."""
        named = (("attention", self.experiment.attention, self.attention), ("loss", self.experiment.loss, self.loss))
        return {kind: getattr(part, "kernel", choice.name) if choice else None for kind, choice, part in named}

    @property
    def objective(self) -> str | None:
        """What the loss measures: cross-entropy, unless it brings a `reference` of its own; None for a loop's own."""
        choice = self.experiment.loss
        if choice is None:
            return None
        if not hasattr(self.loss, "reference"):
            return CROSS_ENTROPY
        options = ", ".join(f"{name} = {value!r}" for name, value in sorted(choice.options.items()))
        return f"{choice.name} ({options})" if options else choice.name


@dataclass
class Said:
    """What parts say through their context: artifacts for the report, notes for environment.json."""

    run: RunDirectory
    notes: dict[str, object] = field(default_factory=dict)

    def add_artifact(self, path: Path, kind: str, title: str) -> None:
        """Record a file of the run directory once; one of a kind that no report knows is kept as a "file"."""
        path = Path(path)
        try:
            name = path.resolve().relative_to(self.run.path.resolve()).as_posix()
        except ValueError:
            raise LabError(f"{path}: an artifact must lie in the run directory {self.run.path}.") from None
        if kind not in ARTIFACT_KINDS:
            logger.warning("%s: no kind of artifact is %r: kept as a file, not shown", name, kind)
            kind = "file"
        line = {"path": name, "kind": kind, "title": str(title)}
        if line not in list(records.read_lines(self.run.artifacts)):
            records.append_line(self.run.artifacts, line)

    def note(self, key: str, value: object) -> None:
        """Remember a fact; it must be plain JSON. Raises `ValueError` or `TypeError` for what no record can hold."""
        spelled({"notes": {key: value}})
        text = json.dumps(value)
        if len(text) > regular.LONGEST_LINE_BYTES:
            raise ValueError(f"a fact has {len(text):,} bytes, more than one line of a record may have")
        self.notes[key] = json.loads(text)


def experiment_of(run: RunDirectory) -> tuple[Experiment, Train]:
    """The experiment that the run's config holds, and its [train]."""
    config = records.read_json(run.config) or {}
    try:
        experiment = Experiment.model_validate(config.get("experiment"))
    except ValidationError as error:
        raise LabError(f"{run.config}: is not an experiment of this lab: {error.errors()[0]['msg']}") from error
    if experiment.train is None:
        raise UsageError(f"{experiment.name}: has no [train]: there is nothing for the worker to do.")
    return experiment, experiment.train


def device_here() -> torch.device:
    """The GPU where there is one, else the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def parts_of(run: RunDirectory) -> Parts:
    """Resolve and build the experiment's attention and loss."""
    experiment, train = experiment_of(run)
    plugins = load(read_settings())
    attention = plugins.build("attention", experiment.attention) if experiment.attention else None
    loss = plugins.build("loss", experiment.loss) if experiment.loss else None
    return Parts(experiment, train, device_here(), attention, loss, plugins)


def observers_of(parts: Parts) -> Observers:
    """The experiment's observers, as one."""
    wanted = [(key, choice) for kind, key, choice in chosen(parts.experiment) if kind == "observer"]
    imports = Imports()
    with imports.noted():
        built = [(choice.name, parts.plugins.build("observer", choice, key)) for key, choice in wanted]
    return Observers(built, told=lambda error: blame.told(error, parts.plugins.installed), imports=imports)


def loop_of(parts: Parts, run: RunDirectory, said: Said, phases: Phases) -> Loop:
    """The experiment's loop, built; whatever it does before its first step happens here."""
    choice = parts.experiment.loop
    assert choice is not None, "an experiment with [train] has a loop"
    context = LoopContext(
        experiment=parts.experiment,
        options=parts.plugins.options("loop", choice),
        device=parts.device,
        attention=parts.attention,
        loss=parts.loss,
        tokens=tokens_of(run) if parts.experiment.data else None,
        folder=run.path,
        phase=phases,
        add_artifact=said.add_artifact,
        note=said.note,
    )
    loop: Loop = parts.plugins.resolve("loop", choice.name)(context)
    return loop


def handed_by(parts: Parts) -> Handed:
    """What checks all that the experiment's loop hands over, and names its plugin."""
    assert parts.experiment.loop is not None
    plugin, part = parts.plugins.find("loop", parts.experiment.loop.name)
    return Handed(owned("loop", plugin, part), report(plugin))


def tokens_of(run: RunDirectory) -> Path:
    """The folder of the token cache that the prepare stage named."""
    manifest = records.read_json(run.data_manifest)
    if manifest is None:
        raise LabError(f"{run.data_manifest} is missing: no data was prepared.", "Run: lab data prepare --run RUN")
    folder, identity = Path(str(manifest.get("folder"))), manifest.get("identity")
    held = read_manifest(folder)["identity"]
    if held != identity:
        raise LabError(f"{folder}: holds the data set {held}, but the run was prepared with {identity}.", "Start anew.")
    return folder

"""A loop context that listens: what a part says through it is kept for a check to judge."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.conformance import require
from lab.contracts import ARTIFACT_KINDS, LoopContext
from lab.experiment import Experiment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Heard:
    """What a part said: phases in order, artifacts, notes."""

    phases: list[str] = field(default_factory=list)
    open_phases: list[str] = field(default_factory=list)
    artifacts: list[tuple[Path, str, str]] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase that remembers whether it is open."""
        self.phases.append(name)
        self.open_phases.append(name)
        try:
            yield
        finally:
            self.open_phases.remove(name)

    def add_artifact(self, path: Path, kind: str, title: str) -> None:
        """An artifact must be a file that exists, of a kind that reports know, with a title."""
        require(path.is_file(), f"add_artifact({path.name!r}): there is no such file")
        known = ", ".join(ARTIFACT_KINDS)
        require(kind in ARTIFACT_KINDS, f"add_artifact({path.name!r}): {kind!r} is none of {known}")
        require(title.strip(), f"add_artifact({path.name!r}): the title is empty")
        self.artifacts.append((path, kind, title))

    def note(self, key: str, value: object) -> None:
        """A fact for environment.json."""
        self.notes[key] = value


def listening_context(folder: Path, heard: Heard, steps: int = 3, device: str = "cpu") -> LoopContext:
    """The context of a small run in `folder` that trains nothing."""
    import torch

    experiment = Experiment.model_validate({"name": "sample", "loop": "sample", "train": {"steps": steps}})
    return LoopContext(
        experiment=experiment,
        options=None,
        device=torch.device(device),
        attention=None,
        loss=None,
        tokens=None,
        folder=folder,
        phase=heard.phase,
        add_artifact=heard.add_artifact,
        note=heard.note,
    )

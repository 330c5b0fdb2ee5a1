"""A whole experiment small enough for unit tests: 257 tokens of vocabulary, two layers, steps of milliseconds."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from fakes import ByteTokenizer, ListSource

from lab.contracts import LoopContext
from lab.data.prepare import prepare
from lab.experiment import Experiment
from lab.runs import records
from lab.runs.directory import RunDirectory
from lab_torch.cross_entropy import CrossEntropy
from lab_torch.sdpa import SegmentAttention

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("quick", "brown", "foxes", "jump", "over", "a", "lazy", "dog", "while", "wizards", "brew", "strong", "tea")


def tiny_experiment(**changes):
    """The experiment with whole sections replaced by `changes`; None removes one."""
    sections = {
        "name": "tiny",
        "seed": 7,
        "loop": "pretrain",
        "attention": "sdpa",
        "loss": "cross-entropy",
        "data": {
            "source": "list",
            "context": 32,
            "validation_fraction": 0.2,
            "train_tokens": 3000,
            "validation_tokens": 300,
            "max_documents": 400,
        },
        "model": {"layers": 2, "width": 16, "heads": 2},
        "batch": {"tokens": 64, "micro_batches": 2, "buffer": 8},
        "optimizer": {"learning_rate": 1e-2},
        "train": {"steps": 6, "warmup_steps": 2, "precision": "fp32"},
        "evaluate": {"every": 2, "batches": 2, "tokens": 64},
        "checkpoint": {"every": 2},
    }
    merged = {**sections, **changes}
    return Experiment.model_validate({key: value for key, value in merged.items() if value is not None})


def tiny_tokens(store: Path, experiment=None, documents=300) -> Path:
    """The prepared token cache of the experiment."""
    drawn = random.Random(3)
    texts = [" ".join(drawn.choices(WORDS, k=drawn.randint(1, 20))) for _ in range(documents)]
    data = (experiment or tiny_experiment()).data
    return prepare(data, ListSource(texts), store, tokenizer=ByteTokenizer()).folder


def tiny_run(folder: Path, experiment=None) -> RunDirectory:
    """A run directory as it is when its worker starts."""
    experiment = experiment or tiny_experiment()
    run = RunDirectory.create(folder / "runs", experiment.name)
    records.write_json(run.config, {"schema": 1, "run_id": run.id, "experiment": experiment.model_dump(mode="json")})
    if experiment.data is not None:
        tokens = tiny_tokens(folder / "store", experiment)
        manifest = records.read_json(tokens / "manifest.json")
        splits = {name: {"tokens": split["tokens"]} for name, split in manifest["splits"].items()}
        record = {"schema": 1, "identity": manifest["identity"], "folder": str(tokens), "splits": splits}
        records.write_json(run.data_manifest, record)
    return run


@dataclass
class Heard:
    """What a loop said through its context."""

    phases: list[str] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)

    @contextlib.contextmanager
    def phase(self, name):
        self.phases.append(name)
        yield


def tiny_context(tokens: Path, experiment=None, attention=None, loss=None, heard=None) -> LoopContext:
    """What the worker would hand the loop."""
    heard = heard or Heard()
    return LoopContext(
        experiment=experiment or tiny_experiment(),
        options=None,
        device=torch.device("cpu"),
        attention=attention or SegmentAttention(),
        loss=loss or CrossEntropy(),
        tokens=tokens,
        folder=tokens,
        phase=heard.phase,
        add_artifact=lambda path, kind, title: None,
        note=heard.notes.__setitem__,
    )


def metric_lines(run: RunDirectory, kind="step"):
    """The lines of one kind."""
    return [line for line in records.read_lines(run.metrics) if line["kind"] == kind]

"""Writes finished run directories in the format that a run leaves, so that readers can be tested without one."""

from __future__ import annotations

import hashlib
import io
import json
import math
import tarfile
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lab.experiment import fingerprint, load
from lab.runs import records, spelling
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

START = 1_796_116_500.0  # 2026-12-01 09:15:00 UTC
CPU = {"type": "cpu", "name": "Test CPU", "uuid": None, "memory_bytes": None}
H100 = {"type": "cuda", "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1f", "memory_bytes": 85_899_345_920}
CODE = {
    "src/lab/worker/execute.py": "def execute():\n    return 1\n",
    "src/lab/cli/run.py": "def run():\n    return 1\n",
    "plugins/lab_pretrain/loop.py": "def loop():\n    return 1\n",
}
EXPERIMENT = """
description = "A sample"
group = "samples"
seed = 42
loop = "pretrain"
attention = "sdpa"
loss = "chunked"
[data]
source = "embedded"
context = 64
train_tokens = 20_000
validation_tokens = 2_000
max_documents = 100
[model]
layers = 2
width = 32
heads = 2
[batch]
tokens = 1000
[optimizer]
learning_rate = 3e-4
[train]
steps = {steps}
warmup_steps = {warmup}
precision = "bf16-autocast"
[evaluate]
every = {every}
batches = 2
tokens = 128
before_training = true
"""


@dataclass(frozen=True)
class Sample:
    """One run to write; `replace(sample, ...)` or keywords of `write` change one thing."""

    id: str = "sample-20261201-0915-aaaa"
    overrides: tuple[str, ...] = ()
    steps: int = 20
    planned: int | None = None
    warmup: int = 2
    every: int = 5
    observed: frozenset[int] = frozenset()
    targets: int = 1000
    seconds: float = 0.5
    loss_floor: float = 3.0
    nan_steps: frozenset[int] = frozenset()
    fed_flips_at: int | None = None
    """From this step on, the tokens fed are others."""
    weights: str = "weights"
    evaluation_inputs: str | None = "inputs"
    scope: str = "scope"
    precision: str = "bf16-autocast"
    objective: str | None = "cross-entropy"
    device: Mapping[str, object] = field(default_factory=lambda: dict(H100))
    cpu: str = "Test CPU"
    threads: int = 2
    packages: Mapping[str, str] = field(default_factory=lambda: {"torch": "2.13.0", "numpy": "2.4.6"})
    code: Mapping[str, str] = field(default_factory=lambda: dict(CODE))
    tokenizer: str = "gpt2"
    bytes_per_target: float = 4.4
    status: str = "completed"
    attempt: int = 1
    failed_stage: str | None = None
    torn: int = 0
    peak: int | None = 40_000_000_000
    dollars: float | None = None
    dollars_per_hour: float = 3.6
    description: str | None = None
    rebuilt: bool = False
    sampled: bool = False
    """Whether every third step has a sample of what the machine does."""


def write(runs: Path, sample: Sample | None = None, **changes: object) -> RunDirectory:
    """Write one run directory below `runs`."""
    one = replace(sample or Sample(), **changes)
    run = RunDirectory(runs / one.id)
    (run.path / "logs").mkdir(parents=True)
    stage = one.failed_stage
    _config(run, one)
    _provenance(run, one)
    _ending(run, one)
    if stage not in ("install", "preflight"):
        _data(run, one)
    if stage not in ("install", "preflight", "prepare"):
        lines = _lines(one)
        _metrics(run, one, lines)
        _environment(run, one)
        if stage is None:
            _summary(run, one, lines)
    return run


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def edit(path: Path, **fields: object) -> None:
    """Change fields of a JSON record in place, by dotted key; None removes the field."""
    record = records.read_json(path) or {}
    for key, value in fields.items():
        at = record
        *outer, last = key.split("__")
        for part in outer:
            at = at.setdefault(part, {})
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    records.write_json(path, record)


def _config(run: RunDirectory, one: Sample) -> None:
    folder = run.path.parent.parent / "sample-experiments"
    folder.mkdir(exist_ok=True)
    text = EXPERIMENT.format(steps=one.planned or one.steps, warmup=one.warmup, every=one.every)
    (folder / "sample.toml").write_text(text, encoding="utf-8")
    loaded = load("sample", folder, one.overrides)
    declarations = [
        {
            "base": link.base,
            "child": link.child,
            "changes": [{"key": c.key, "before": c.before, "after": c.after} for c in link.changes],
        }
        for link in loaded.declarations
    ]
    experiment = loaded.experiment.model_dump(mode="json")
    if one.description is not None:
        experiment["description"] = one.description
    config = {
        "schema": 1,
        "run_id": run.id,
        "created": "2026-12-01T09:15:00+00:00",
        "backend": "local",
        "experiment": experiment,
        "fingerprint": fingerprint(loaded.experiment),
        "files": ["experiments/sample.toml"],
        "declarations": declarations,
    }
    records.write_json(run.config, config)


def _provenance(run: RunDirectory, one: Sample) -> None:
    with tarfile.open(run.bundle, "w:gz") as archive:
        for path, text in sorted(one.code.items()):
            info = tarfile.TarInfo(path)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    files = {path: sha(text) for path, text in one.code.items()}
    records.write_json(
        run.provenance,
        {
            "schema": 1,
            "repository": {
                "state": "clean",
                "commit": "0123456789abcdef0123456789abcdef01234567",
                "branch": "main",
                "remote": "https://example.invalid/lab.git",
                "tracked_changes": [],
                "untracked": [],
            },
            "files": files,
            "code_sha256": sha(json.dumps(files, sort_keys=True)),
            "bundle_sha256": hashlib.sha256(run.bundle.read_bytes()).hexdigest(),
            "lab_version": "0.1.0",
            "plugins": [
                {
                    "name": "pretrain",
                    "distribution": "llm-training-lab",
                    "version": "0.1.0",
                    "files_sha256": sha("pretrain"),
                    "third_party": False,
                }
            ],
        },
    )


def _ending(run: RunDirectory, one: Sample) -> None:
    code = {"completed": 0, "stopped": 143}.get(one.status, 1)
    names = [*(["install"] if one.failed_stage == "install" else []), "preflight", "prepare", "train"]
    moment = START
    for name in names:
        failed = name == one.failed_stage
        exit_code = code if failed or (name == "train" and one.status != "completed") else 0
        seconds = one.steps * one.seconds + 4 if name == "train" else 2.0
        records.append_line(run.stages, {"stage": name, "event": "started", "time": moment, "argv": ["python", name]})
        moment += seconds
        ended = {"stage": name, "event": "ended", "time": moment, "seconds": seconds, "exit_code": exit_code}
        records.append_line(run.stages, {**ended, "signal": None, "reason": ""})
        (run.logs / f"{name}.log").write_text(f"{name} said this\n", encoding="utf-8")
        if exit_code:
            break
    records.append_line(run.stages, {"event": "exited", "exit_code": code, "stage": name if code else None})
    reason = f"{name} exited with code {code}" if code else ""
    outcome = {
        "schema": 1,
        "status": one.status,
        "attempt": one.attempt,
        "started": "2026-12-01T09:15:00+00:00",
        "ended": "2026-12-01T09:16:00+00:00",
        "exit_code": code,
        "stage": name if code else None,
        "reason": reason,
    }
    records.write_json(run.outcome, outcome)
    records.write_json(run.resource, {"schema": 1, "status": "none"})
    if one.dollars is not None:
        records.write_json(run.cost, _cost(one))


def _cost(one: Sample) -> dict[str, object]:
    """As if a third of the money had gone for booting and installing."""
    train, tokens = 2 * one.dollars / 3, one.steps * one.targets
    return {
        "schema": 1,
        "dollars": one.dollars,
        "dollars_per_hour": one.dollars_per_hour,
        "seconds": one.dollars / one.dollars_per_hour * 3600,
        "other_machines_dollars": 0.0,
        "phases": {"boot": one.dollars / 6, "install": one.dollars / 6, "train": train, "collect": 0.0, "idle": 0.0},
        "dollars_per_million_tokens": {"train": train / tokens * 1e6, "all": one.dollars / tokens * 1e6},
        "kind": "derived",
    }


def _data(run: RunDirectory, one: Sample) -> None:
    split = {"documents": 10, "tokens": 20_100, "pairs": 20_090, "sha256": sha("train")}
    records.write_json(
        run.data_manifest,
        {
            "schema": 1,
            "identity": sha(f"cache {one.tokenizer}"),
            "folder": "/somewhere/tokens",
            "source": {"name": "embedded"},
            "tokenizer": {
                "name": one.tokenizer,
                "revision": "r1",
                "sha256": sha(one.tokenizer),
                "vocabulary": 50_257,
                "eos": 50_256,
            },
            "splits": {"train": split, "validation": {**split, "documents": 2, "tokens": 2_050, "pairs": 2_048}},
            "files": {"train.tokens": sha("train")},
        },
    )


def _environment(run: RunDirectory, one: Sample) -> None:
    records.write_json(
        run.environment,
        {
            "schema": 1,
            "packages": dict(one.packages),
            "python": "3.11.2",
            "platform": "Linux",
            "cpu": one.cpu,
            "threads": one.threads,
            "device": dict(one.device),
            "driver": None if one.device["type"] == "cpu" else "570.1",
            "cuda": None if one.device["type"] == "cpu" else "12.8",
            "image": None,
            "precision": one.precision,
            "kernels": {"attention": "sdpa", "loss": "chunked"},
            "objective": one.objective,
            "notes": {"flops": {"formula": "6 * (12 * L * d^2 + V * d) * T + 12 * L * d * sum(s_i^2)"}},
            "differences": [],
        },
    )


def _lines(one: Sample) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = [_evaluation(one, 0)]
    for step in range(1, one.steps + 1):
        tokens = f"other {step}" if one.fed_flips_at is not None and step >= one.fed_flips_at else f"fed {step}"
        wobble = 0.02 * math.sin(step)
        lines.append(
            {
                "kind": "step",
                "step": step,
                "time": START + 4 + step * one.seconds,
                "loss": math.nan if step in one.nan_steps else _loss(one, step) + wobble,
                "gradient_norm": math.nan if step in one.nan_steps else 1.0 + wobble,
                "learning_rate": 3e-4,
                "seconds": one.seconds * (1 + 0.5 * wobble) * (3 if step <= one.warmup else 1),
                "targets": one.targets,
                "tokens": one.targets,
                "segments": 20,
                "packs": 1,
                "micro_batches": 1,
                "flops": one.targets * 6_000_000,
                "fed": sha(tokens),
                "warmup": step <= one.warmup,
                "observed": step in one.observed,
                "allocated_bytes": one.peak,
                "reserved_bytes": one.peak,
                "targets_total": step * one.targets,
                **(_sample(one) if one.sampled and step % 3 == 1 else {}),
            }
        )
        if step % one.every == 0:
            lines.append(_evaluation(one, step))
    return lines


def _sample(one: Sample) -> dict[str, object]:
    found: dict[str, object] = {"process_bytes": 3 * 2**30, "processor_percent": 104.5}
    on_gpu = {"gpu_percent": 97, "gpu_memory_bytes": 60 * 2**30, "gpu_watts": 650.5}
    return found if one.device["type"] == "cpu" else found | on_gpu


def _loss(one: Sample, step: int) -> float:
    return one.loss_floor + 7.0 * math.exp(-step * one.targets / 8000)


def _evaluation(one: Sample, step: int) -> dict[str, object]:
    return {
        "kind": "evaluation",
        "step": step,
        "time": START + 4 + step * one.seconds,
        "loss": math.nan if step in one.nan_steps else _loss(one, step),
        "targets": 2048,
        "tokens": 2048,
        "batches": 2,
        "inputs": None if one.evaluation_inputs is None else sha(one.evaluation_inputs),
        "bytes": round(2048 * one.bytes_per_target),
        "seconds": 0.1,
    }


def _metrics(run: RunDirectory, one: Sample, lines: list[dict[str, object]]) -> None:
    text = "".join(json.dumps(spelling.spelled(line), separators=(",", ":")) + "\n" for line in lines)
    run.metrics.write_text(text + '{"kind":"step","st' * bool(one.torn), encoding="utf-8")


def _summary(run: RunDirectory, one: Sample, lines: list[dict[str, object]]) -> None:
    steps = [line for line in lines if line["kind"] == "step"]
    normal = [line for line in steps if not line["warmup"] and not line["observed"]]
    seconds = sum(line["seconds"] for line in normal)
    targets = sum(line["targets"] for line in normal)
    evaluations = [line for line in lines if line["kind"] == "evaluation"]
    flops = sum(line["flops"] for line in normal)
    on_gpu = one.device["type"] != "cpu"
    records.write_json(
        run.summary,
        {
            "schema": 1,
            "status": one.status,
            "reason": "",
            "steps": len(steps),
            "measured": {
                "steps": len(normal),
                "seconds": seconds,
                "targets": targets,
                "tokens_per_second": targets / seconds if seconds else None,
                "median_step_seconds": sorted(line["seconds"] for line in normal)[len(normal) // 2] if normal else None,
                "flops": flops,
                "mfu": flops / seconds / 989e12 if on_gpu and seconds else None,
                "mfu_reason": "" if on_gpu else "no peak is known for Test CPU",
                "peak_flops": 989e12 if on_gpu else None,
                "peak_source": "NVIDIA H100 SXM data sheet, dense BF16" if on_gpu else None,
                "peak_allocated_bytes": one.peak,
                "peak_reserved_bytes": one.peak,
            },
            "overall": {"seconds": sum(line["seconds"] for line in steps), "targets": len(steps) * one.targets},
            "loss": {
                "first": steps[0]["loss"] if steps else None,
                "last": steps[-1]["loss"] if steps else None,
                "evaluations": [
                    {"step": e["step"], "loss": e["loss"], "targets_total": e["step"] * one.targets}
                    for e in evaluations
                ],
            },
            "tokens": {"cached_train": 20_100, "cached_validation": 2_050, "processed": len(steps) * one.targets},
            "fingerprints": {
                "weights_initial": sha(one.weights),
                "weights_final": sha(f"{one.weights} trained {one.loss_floor}"),
                "fed": steps[-1]["fed"] if steps else None,
                "evaluation_inputs": None if one.evaluation_inputs is None else sha(one.evaluation_inputs),
                "scope": sha(f"{one.scope} {one.warmup} {sorted(one.observed)}"),
            },
            "elapsed_seconds": 4 + len(steps) * one.seconds,
            "rebuilt": one.rebuilt,
        },
    )

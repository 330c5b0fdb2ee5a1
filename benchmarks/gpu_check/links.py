"""Links of the chain, each trained by the real worker on synthetic documents: speed, memory, graphs, waits, loss."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import section
import sizes
import torch
from documents import cache
from torch._dynamo.utils import counters

from lab.data.cache import read_manifest
from lab.experiment import Experiment, load
from lab.runs import records
from lab.runs.directory import RunDirectory
from lab.worker.attempt import Attempt
from lab.worker.stop import Stop

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
OBSERVED = ("corrected", "fast-few-chunks")
"""Links that also leave a trace and a memory history, on steps after the timed ones."""


def experiment(name: str, shape: sizes.Sizes, cpu: bool) -> Experiment:
    """The shipped experiment over synthetic documents, for a few steps; without FA3 or FA4 the chain goes on."""
    record = load(name, EXPERIMENTS).experiment.model_dump(mode="json", exclude_none=True)
    last = shape.warmup_steps + shape.timed_steps + (shape.observed_steps if name in OBSERVED else 0)
    record |= {
        "evaluate": None,
        "checkpoint": None,
        "observers": {},
        "train": {**record["train"], "steps": last, "warmup_steps": shape.warmup_steps},
        "batch": {**record["batch"], "packs": shape.packs},
        "data": {
            **record["data"], "source": "synthetic", "context": shape.context, "train_tokens": shape.train_tokens,
            "validation_tokens": shape.validation_tokens, "max_documents": shape.documents,
        },
    }  # fmt: skip
    if name in OBSERVED:
        record["observers"] = {"profiler": {"steps": [last - 1]}, "memory-snapshot": {"step": last}}
    if record["attention"].get("provider") == "fa4":
        record["attention"]["provider"] = "auto"
    if cpu:
        record["attention"]["provider"] = "reference"
        record["model"] = {**record["model"], "layers": shape.layers, "width": shape.width}
        record["model"]["heads"] = shape.heads if record["model"]["heads"] == 12 else shape.heads // 2
        if record["loss"]["name"] == "liger":
            record["loss"] = {"name": "chunked"}
    return Experiment.model_validate({key: value for key, value in record.items() if value is not None})


def run_directory(folder: Path, wanted: Experiment, tokens: Path) -> RunDirectory:
    run = RunDirectory.create(folder / "runs", wanted.name)
    records.write_json(run.config, {"schema": 1, "run_id": run.id, "experiment": wanted.model_dump(mode="json")})
    manifest = {"schema": 1, "folder": str(tokens), "identity": read_manifest(tokens)["identity"], "splits": {}}
    records.write_json(run.data_manifest, manifest)
    return run


def unavailable(wanted: Experiment, where: torch.device) -> str:
    """Why this machine cannot train a link at all: a kernel or a package that it lacks; empty when it can."""
    parts = (("attention", wanted.attention), ("loss", wanted.loss))
    reasons = [section.built(kind, choice, where)[1] for kind, choice in parts if choice]
    return next(filter(None, reasons), "")


def trained(
    wanted: Experiment, shape: sizes.Sizes, tokens: Path, folder: Path, where: torch.device
) -> dict[str, object]:
    counters.clear()
    run = run_directory(folder, wanted, tokens)
    attempt = Attempt(run, Stop())
    loop_steps, graphs = attempt.loop.steps, []

    def watched():
        for step in loop_steps():
            graphs.append(counters["stats"]["unique_graphs"])
            yield step

    attempt.loop.steps = watched
    attempt.execute()
    measured = records.read_json(run.summary)["measured"]
    lines = [line for line in records.read_lines(run.metrics) if line["kind"] == "step"]
    timed = graphs[shape.warmup_steps - 1 : shape.warmup_steps + shape.timed_steps]
    environment = records.read_json(run.environment)
    return {
        "available": True,
        "kernels": environment["kernels"],
        "parameters": environment["notes"]["parameters"],
        "tokens_per_second": measured["tokens_per_second"],
        "median_step_seconds": measured["median_step_seconds"],
        "mfu": measured["mfu"],
        "mfu_reason": measured["mfu_reason"],
        "peak_allocated_bytes": measured["peak_allocated_bytes"],
        "peak_reserved_bytes": measured["peak_reserved_bytes"],
        "graphs": graphs[-1],
        "graphs_while_timed": timed[-1] - timed[0],
        "waits": waits(attempt.loop, where),
        "losses": [line["loss"] for line in lines],
        "artifacts": [str(run.path / line["path"]) for line in records.read_lines(run.artifacts)],
    }


def waits(loop, where: torch.device) -> list[str] | None:
    """Where one more step makes the host wait for the device; None where there is no device to wait for."""
    if where.type != "cuda":
        return None
    steps = type(loop).steps(loop)
    next(steps)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            next(steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return [f"{Path(each.filename).name}:{each.lineno}" for each in caught if "synchroniz" in str(each.message)]


if __name__ == "__main__":
    given = section.arguments()
    here, shape = section.device(given.cpu), sizes.of(given.cpu)
    tokens = cache(shape, given.folder / "store")
    found = {}
    for link in given.names:
        wanted = experiment(link, shape, given.cpu)
        if reason := unavailable(wanted, here):
            found[link] = {"available": False, "reason": reason}
        else:
            try:
                found[link] = trained(wanted, shape, tokens, given.folder, here)
            except Exception as error:  # the other links still tell something
                reason = f"{type(error).__name__}: {error}"[:1000]
                found[link] = {"available": False, "failed": True, "reason": reason}
        section.save(given.out, found)
        gc.collect()

"""A small finished run, written the way a run is: begun, then ended, so that a tracker can be asked in between."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lab.experiment import Experiment, fingerprint
from lab.runs import records
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    from pathlib import Path

START = 1_796_116_500.0  # 2026-12-01 09:15:00 UTC
RUN_ID = "sample-20261201-0915-7f3a"
AWKWARD = {"loss@k": 0.5, "p=0.9": 1.0, "tok/s": 2.0}
"""Names of values that many trackers refuse."""


class SampleRun:
    """One run of four steps, in `runs`, with what makes trackers stumble: odd names, NaN, a torn line."""

    def __init__(self, runs: Path) -> None:
        self.directory = RunDirectory(runs / RUN_ID)

    def begin(self) -> RunDirectory:
        """The run is under way: two steps, an evaluation and a line that is still being written."""
        run = self.directory
        run.logs.mkdir(parents=True)
        experiment = Experiment.model_validate(
            {"name": "sample", "description": "x" * 7000, "loop": "sample", "train": {"steps": 4}, "group": "samples"}
        )
        config = {
            "schema": 1, "run_id": run.id, "created": "2026-12-01T09:15:00Z", "backend": "local",
            "experiment": experiment.model_dump(mode="json"), "fingerprint": fingerprint(experiment),
            "files": ["experiments/sample.toml"], "declarations": [],
        }  # fmt: skip
        records.write_json(run.config, config)
        records.write_json(run.outcome, {"schema": 1, "status": "running", "attempt": 1, "started": config["created"]})
        (run.logs / "train.log").write_text("step 1\nstep 2\n", encoding="utf-8")
        self._evaluate(0, 10.5)
        self._step(1, 10.0)
        self._step(2, math.nan)
        with run.metrics.open("ab") as metrics:
            metrics.write(b'{"kind":"step","step":3,"lo')
        return run

    def finish(self) -> RunDirectory:
        """The run is over: all four steps, a second evaluation, a figure, a summary."""
        run = self.directory
        whole = run.metrics.read_bytes().rpartition(b"\n")[0] + b"\n"
        run.metrics.write_bytes(whole)
        self._step(3, 9.0)
        self._step(4, 8.5)
        self._evaluate(4, 8.75)
        (run.path / "figure.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>', encoding="utf-8")
        records.append_line(run.artifacts, {"path": "figure.svg", "kind": "figure", "title": "A figure"})
        records.write_json(run.environment, {"schema": 1, "packages": {"torch": "2.13.0"}, "python": "3.11"})
        measured = {"steps": 4, "seconds": 4.0, "targets": 400, "tokens_per_second": 100.0, "mfu": None}
        loss = {"first": 10.0, "last": 8.5, "evaluations": [{"step": 4, "loss": 8.75, "targets_total": 400}]}
        summary = {"schema": 1, "status": "completed", "steps": 4, "measured": measured, "loss": loss}
        records.write_json(run.summary, summary)
        ended = {
            "status": "completed",
            "attempt": 1,
            "started": "2026-12-01T09:15:00Z",
            "ended": "2026-12-01T09:16:00Z",
        }
        records.write_json(run.outcome, {"schema": 1, "exit_code": 0, **ended})
        return run

    def _step(self, step: int, loss: float) -> None:
        line = {
            "kind": "step", "step": step, "time": START + step, "loss": loss, "gradient_norm": 1.0, "seconds": 1.0,
            "learning_rate": 3e-4, "targets": 100, "targets_total": 100 * step, "tokens": 101, "segments": 2,
            "warmup": step == 1, "observed": False, **AWKWARD,
        }  # fmt: skip
        records.append_line(self.directory.metrics, line)

    def _evaluate(self, step: int, loss: float) -> None:
        line = {"kind": "evaluation", "step": step, "time": START + step, "loss": loss, "targets": 50, "batches": 1}
        records.append_line(self.directory.metrics, line)

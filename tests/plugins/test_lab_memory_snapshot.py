"""The memory of one step: bounded, attributed to phases and categories, and honestly absent without CUDA."""

from __future__ import annotations

import json
import pickle
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from pydantic import ValidationError

from lab.contracts import LoopContext
from lab.experiment import Experiment
from lab_memory_snapshot.observer import EVENTS, SNAPSHOT, MemorySnapshot
from lab_memory_snapshot.options import MemorySnapshotOptions
from lab_memory_snapshot.recorder import CudaRecorder
from lab_memory_snapshot.replay import PhaseSpan, by_category, by_line, by_phase, phase_at, replay

if TYPE_CHECKING:
    from pathlib import Path

PHASES = [PhaseSpan("forward", 0, 99), PhaseSpan("backward", 100, 199), PhaseSpan("optimizer", 200, 299)]


def alloc(time_us: int, address: int, size: int, *lines: str) -> dict[str, Any]:
    frames = [{"filename": line, "line": 3, "name": "f"} for line in lines]
    return {"action": "alloc", "time_us": time_us, "addr": address, "size": size, "frames": frames}


def free(time_us: int, address: int, size: int) -> dict[str, Any]:
    return {"action": "free_completed", "time_us": time_us, "addr": address, "size": size}


STEP = [
    alloc(10, 1, 400, "/venv/torch/nn/x.py", "model.py"),  # an activation
    alloc(20, 2, 50), free(30, 2, 50),  # temporary in the forward pass
    alloc(110, 3, 200),  # a gradient
    alloc(120, 4, 90),  # temporary in the backward pass: the peak
    free(130, 4, 90),
    free(140, 1, 400),
    free(150, 77, 5),  # a block from before the step
    alloc(210, 2, 60),  # the address of a freed block, used again
]  # fmt: skip


class RecordedSteps:
    """Stands for the CUDA allocator: a fixed history, and a counter for what is allocated."""

    def __init__(self, history: list[dict[str, Any]]) -> None:
        self.history = history
        self.calls: list[str] = []

    def begin(self) -> None:
        self.calls.append("begin")

    def end(self) -> dict[str, Any]:
        self.calls.append("end")
        return {"device_traces": [self.history], "segments": []}

    def allocated(self) -> tuple[int, int]:
        return 1000, 4096


class Walk:
    """Drives the observer as the worker does."""

    def __init__(self, folder: Path, observer: MemorySnapshot, device: str = "cpu") -> None:
        self.observer = observer
        self.artifacts: list[tuple[str, str, str]] = []
        self.notes: dict[str, object] = {}
        experiment = Experiment.model_validate({"name": "walk", "loop": "any", "train": {"steps": 9}})
        self.context = LoopContext(
            experiment=experiment, options=None, device=torch.device(device), attention=None, loss=None, tokens=None,
            folder=folder, phase=None, note=self.notes.__setitem__,
            add_artifact=lambda path, kind, title: self.artifacts.append((path.name, kind, title)),
        )  # fmt: skip
        observer.run_started(self.context)

    def start(self, step: int) -> None:
        self.observer.step_started(step)
        for phase in ("zero_grad", "forward", "backward", "optimizer"):
            self.observer.phase_started(step, phase)
            self.observer.phase_ended(step, phase)

    def take(self, *steps: int) -> Walk:
        for step in steps:
            self.start(step)
            self.observer.step_finished(step, {})
        return self


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / EVENTS).read_text())


def test_the_peak_is_what_was_alive_at_once() -> None:
    replayed = replay(STEP, PHASES, baseline_bytes=1000)

    assert replayed.peak_bytes == 1000 + 400 + 200 + 90
    assert replayed.peak_phase == "backward"
    assert (replayed.allocations, replayed.missed_frees) == (5, 1)


def test_the_peak_is_attributed_to_categories_that_add_up() -> None:
    replayed = replay(STEP, PHASES, baseline_bytes=1000)

    categories = by_category(replayed)

    assert categories == {"held": 1000, "activations": 400, "gradients": 200, "temporary": 90}
    assert sum(categories.values()) == replayed.peak_bytes


def test_the_peak_is_attributed_to_the_phases_that_allocated_it() -> None:
    assert by_phase(replay(STEP, PHASES, 1000)) == {"forward": 400, "backward": 290}


def test_with_stacks_the_first_line_outside_torch_is_named() -> None:
    assert by_line(replay(STEP, PHASES, 1000)) == [{"line": "model.py:3 f", "bytes": 400}]


def test_a_step_that_allocates_nothing_peaks_at_its_start() -> None:
    replayed = replay([free(10, 1, 300)], PHASES, baseline_bytes=1000)

    assert (replayed.peak_bytes, replayed.alive_at_peak) == (1000, ())
    assert by_category(replayed) == {"held": 1000}


@pytest.mark.parametrize(
    ("moment", "phase"), [(-1, "outside any phase"), (0, "forward"), (150, "backward"), (300, "outside any phase")]
)
def test_a_moment_belongs_to_the_phase_that_was_open(moment: int, phase: str) -> None:
    assert phase_at(PHASES, moment) == phase


def test_only_the_chosen_step_is_recorded_and_its_phases_are_marked(tmp_path: Path) -> None:
    recorder = RecordedSteps([])

    Walk(tmp_path, MemorySnapshot(MemorySnapshotOptions(step=2), recorder)).take(1, 2, 3)

    assert recorder.calls == ["begin", "end"]
    marks = [(event["phase"], event["event"]) for event in record(tmp_path)["events"]]
    phases = ("zero_grad", "forward", "backward", "optimizer")
    assert marks == [
        ("step", "started"),
        *((phase, event) for phase in phases for event in ("started", "ended")),
        ("step", "ended"),
    ]
    assert {event["allocated_bytes"] for event in record(tmp_path)["events"]} == {1000}


def test_the_history_is_written_with_its_summary(tmp_path: Path) -> None:
    now = time.time_ns() // 1000
    recorder = RecordedSteps([alloc(now, 1, 64)])

    walk = Walk(tmp_path, MemorySnapshot(MemorySnapshotOptions(step=1), recorder)).take(1)

    assert walk.artifacts == [
        (SNAPSHOT, "snapshot", "GPU memory of step 1"),
        (EVENTS, "json", "GPU memory by phase and category"),
    ]
    assert pickle.loads((tmp_path / SNAPSHOT).read_bytes())["device_traces"] == [[alloc(now, 1, 64)]]
    found = record(tmp_path)
    assert found["peak"]["bytes"] == 1064
    assert found["partial"] is None
    assert found["history"]["cut"] is False
    assert found["cost_seconds"] > 0


def test_a_history_as_long_as_its_bound_is_marked_as_cut(tmp_path: Path) -> None:
    recorder = RecordedSteps(STEP)

    Walk(tmp_path, MemorySnapshot(MemorySnapshotOptions(step=1, max_entries=len(STEP)), recorder)).take(1)

    assert record(tmp_path)["history"]["cut"] is True


def test_a_step_that_breaks_off_keeps_its_history_and_says_so(tmp_path: Path) -> None:
    walk = Walk(tmp_path, MemorySnapshot(MemorySnapshotOptions(step=1), RecordedSteps(STEP)))

    walk.start(1)
    walk.observer.run_finished(0)

    assert record(tmp_path)["partial"] == "step 1 did not finish"
    assert walk.artifacts[0][2] == "GPU memory of step 1 (partial: step 1 did not finish)"


def test_without_cuda_it_says_not_available_and_leaves_no_empty_snapshot(tmp_path: Path) -> None:
    walk = Walk(tmp_path, MemorySnapshot(MemorySnapshotOptions(step=1))).take(1)

    walk.observer.run_finished(1)

    reason = "not available: the device 'cpu' has no CUDA allocator"
    assert walk.notes == {"memory-snapshot": reason}
    assert walk.artifacts == [(EVENTS, "json", f"GPU memory ({reason})")]
    assert record(tmp_path)["available"] is False
    assert not (tmp_path / SNAPSHOT).exists()


def test_a_step_that_never_comes_is_said(tmp_path: Path) -> None:
    walk = Walk(tmp_path, MemorySnapshot(MemorySnapshotOptions(step=7), RecordedSteps([]))).take(1, 2)

    walk.observer.run_finished(2)

    assert record(tmp_path)["reason"] == "not captured: step 7 never came, step 2 was the last"


def test_a_resumed_run_leaves_the_record_of_its_first_attempt(tmp_path: Path) -> None:
    Walk(tmp_path, MemorySnapshot(MemorySnapshotOptions(step=1), RecordedSteps(STEP))).take(1)
    kept = (tmp_path / EVENTS).read_bytes()

    walk = Walk(tmp_path, MemorySnapshot(MemorySnapshotOptions(step=1), RecordedSteps([]))).take(2)
    walk.observer.run_finished(2)

    assert (tmp_path / EVENTS).read_bytes() == kept


def test_the_history_has_a_bound_by_default() -> None:
    assert MemorySnapshotOptions(step=1).max_entries == 100_000
    with pytest.raises(ValidationError):
        MemorySnapshotOptions(step=1, max_entries=0)


@pytest.mark.gpu
def test_the_cuda_allocator_is_recorded_for_one_step_and_no_longer() -> None:
    recorder = CudaRecorder(MemorySnapshotOptions(step=1), torch.device("cuda"))

    recorder.begin()
    block = torch.empty(2**20, device="cuda")
    history = recorder.end()["device_traces"][0]
    del block

    assert [entry["size"] for entry in history if entry["action"] == "alloc"] == [4 * 2**20]
    assert all("time_us" in entry for entry in history)

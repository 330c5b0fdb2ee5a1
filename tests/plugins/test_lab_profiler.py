"""The profiler traces whole chosen steps and nothing else, says what it could not trace, and sums up exactly."""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import torch
from pydantic import ValidationError

from lab.contracts import LoopContext
from lab.experiment import Experiment
from lab_profiler import observer
from lab_profiler.intervals import Span, gaps, self_times
from lab_profiler.observer import SUMMARY, TRACE, Profiler
from lab_profiler.options import ProfilerOptions
from lab_profiler.recording import merged
from lab_profiler.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Walk:
    """Drives an observer as the worker does, over steps of one matrix product in a phase."""

    def __init__(self, folder: Path, observer: Profiler, steps: int) -> None:
        self.observer = observer
        self.artifacts: list[tuple[str, str, str]] = []
        self.notes: dict[str, object] = {}
        self.matrix = torch.ones(32, 32)
        self.step = 0
        experiment = Experiment.model_validate({"name": "walk", "loop": "any", "train": {"steps": steps}})
        self.context = LoopContext(
            experiment=experiment, options=None, device=torch.device("cpu"), attention=None, loss=None, tokens=None,
            folder=folder, phase=self.phase, note=self.notes.__setitem__,
            add_artifact=lambda path, kind, title: self.artifacts.append((path.name, kind, title)),
        )  # fmt: skip
        observer.run_started(self.context)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.observer.phase_started(self.step, name)
        with torch.profiler.record_function(name):
            yield
        self.observer.phase_ended(self.step, name)

    def start(self) -> None:
        self.step += 1
        self.observer.step_started(self.step)
        with self.phase("forward"):
            self.matrix @ self.matrix

    def take(self, steps: int) -> Walk:
        for _ in range(steps):
            self.start()
            self.observer.step_finished(self.step, {})
            torch.special.erfcx(self.matrix)  # what an evaluation does: it must not be traced
        return self

    def finish(self) -> Walk:
        self.observer.run_finished(self.step)
        return self


def trace(folder: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress((folder / TRACE).read_bytes()))


def names(folder: Path) -> list[str]:
    return [event["name"] for event in trace(folder)["traceEvents"] if event.get("ph") == "X"]


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / SUMMARY).read_text())


def test_the_trace_holds_the_chosen_steps_and_nothing_between_them(tmp_path: Path) -> None:
    Walk(tmp_path, Profiler(ProfilerOptions(steps=(2, 4))), steps=5).take(5).finish()

    found = names(tmp_path)
    assert [name for name in found if name.startswith("step ")] == ["step 2", "step 4"]
    assert found.count("forward") == 2
    assert found.count("aten::matmul") == 2
    assert not [name for name in found if "erfcx" in name]


def test_it_is_saved_right_after_the_last_chosen_step(tmp_path: Path) -> None:
    walk = Walk(tmp_path, Profiler(ProfilerOptions(steps=(1, 2))), steps=9).take(2)

    assert (tmp_path / TRACE).exists()
    assert walk.artifacts == [
        (TRACE, "trace", "Timeline of steps 1, 2"),
        (SUMMARY, "json", "Profile"),
    ]


def test_the_summary_of_a_cpu_run_says_that_it_is_one(tmp_path: Path) -> None:
    Walk(tmp_path, Profiler(ProfilerOptions(steps=(1,))), steps=1).take(1).finish()

    record = summary(tmp_path)
    assert record["device"] == "cpu"
    assert record["busy_share"] is None
    assert "only the CPU was traced" in record["busy_reason"]
    assert (record["captured"], record["missing"], record["partial"]) == ([1], [], False)
    assert [phase["phase"] for phase in record["phases"]] == ["forward"]
    assert {"aten::mm", "aten::matmul"} <= {operator["name"] for operator in record["operators"]}
    assert record["trace"]["bytes"] == (tmp_path / TRACE).stat().st_size
    assert record["cost_seconds"] > 0


def test_a_step_that_never_comes_is_said_before_and_after(tmp_path: Path) -> None:
    walk = Walk(tmp_path, Profiler(ProfilerOptions(steps=(2, 7))), steps=3)
    before = walk.notes["profiler"]
    walk.take(3).finish()

    assert before == "steps [7] will not be traced: the run has 3 steps"
    assert walk.notes["profiler"] == "partial: steps 7 never came"
    assert walk.artifacts[0] == (TRACE, "trace", "Timeline of steps 2 (partial: steps 7 never came)")
    assert summary(tmp_path)["missing"] == [7]
    assert summary(tmp_path)["partial"] is True


def test_without_a_captured_step_no_trace_is_linked(tmp_path: Path) -> None:
    walk = Walk(tmp_path, Profiler(ProfilerOptions(steps=(5,))), steps=9).take(2).finish()

    assert not (tmp_path / TRACE).exists()
    assert walk.artifacts == [(SUMMARY, "json", "Profile (partial: steps 5 never came)")]
    assert summary(tmp_path)["captured"] == []


def test_the_size_of_a_trace_is_told_and_one_that_viewers_refuse_is_pointed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("small", "large"):
        (tmp_path / name).mkdir()
    small = Walk(tmp_path / "small", Profiler(ProfilerOptions(steps=(1,))), steps=1).take(1).finish()
    monkeypatch.setattr(observer, "LARGE", 1000)

    large = Walk(tmp_path / "large", Profiler(ProfilerOptions(steps=(1,))), steps=1).take(1).finish()

    assert "profiler" not in small.notes
    assert "which a viewer in a browser may refuse" in large.notes["profiler"]
    assert "which a viewer in a browser may refuse" in large.artifacts[0][2]
    assert [summary(tmp_path / name)["trace"]["large"] for name in ("small", "large")] == [False, True]


def test_a_long_run_leaves_one_trace_of_its_chosen_steps(tmp_path: Path) -> None:
    Walk(tmp_path, Profiler(ProfilerOptions(steps=(3,))), steps=200).take(200).finish()

    assert sorted(path.name for path in tmp_path.iterdir()) == [SUMMARY, TRACE]
    assert [name for name in names(tmp_path) if name.startswith("step ")] == ["step 3"]


def test_a_step_that_breaks_off_is_kept_and_named_as_unfinished(tmp_path: Path) -> None:
    walk = Walk(tmp_path, Profiler(ProfilerOptions(steps=(1, 2))), steps=9).take(1)

    walk.start()
    walk.finish()

    record = summary(tmp_path)
    assert (record["captured"], record["unfinished"], record["partial"]) == ([1], 2, True)
    assert "step 2" in names(tmp_path)
    assert walk.artifacts[0][2] == "Timeline of steps 1, 2 (partial: step 2 did not finish)"


def test_a_resumed_run_leaves_the_trace_of_its_first_attempt(tmp_path: Path) -> None:
    Walk(tmp_path, Profiler(ProfilerOptions(steps=(1,))), steps=9).take(3).finish()
    kept = (tmp_path / TRACE).read_bytes(), (tmp_path / SUMMARY).read_bytes()

    walk = Walk(tmp_path, Profiler(ProfilerOptions(steps=(1,))), steps=9)
    walk.step = 3
    walk.take(2).finish()

    assert ((tmp_path / TRACE).read_bytes(), (tmp_path / SUMMARY).read_bytes()) == kept
    assert walk.artifacts == []


def test_nothing_but_the_artifacts_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    (tmp_path / "run").mkdir()

    Walk(tmp_path / "run", Profiler(ProfilerOptions(steps=(1,))), steps=1).take(1).finish()

    assert list(scratch.iterdir()) == []
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [SUMMARY, TRACE]


def test_a_long_run_leaves_one_packed_trace_of_the_chosen_steps_alone(tmp_path: Path) -> None:
    Walk(tmp_path, Profiler(ProfilerOptions(steps=(21, 22))), steps=200).take(200).finish()

    assert [path.name for path in tmp_path.iterdir() if "json.gz" in path.name] == [TRACE]
    assert [name for name in names(tmp_path) if name.startswith("step ")] == ["step 21", "step 22"]
    assert summary(tmp_path)["trace"]["large"] is False


def test_a_trace_that_a_browser_may_refuse_is_said_to_be_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "LARGE", 100)

    walk = Walk(tmp_path, Profiler(ProfilerOptions(steps=(1,))), steps=1).take(1).finish()

    size = summary(tmp_path)["trace"]["uncompressed_bytes"]
    large = f"{size / 2**20:,.0f} MiB unpacked, which a viewer in a browser may refuse"
    assert walk.notes["profiler"] == large
    assert walk.artifacts[0] == (TRACE, "trace", f"Timeline of steps 1 ({large})")


@pytest.mark.parametrize("steps", [(), (0,), (3, 3), tuple(range(1, 22))])
def test_steps_that_make_no_bounded_trace_are_refused(steps: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError):
        ProfilerOptions(steps=steps)


def event(category: str, name: str, start: float, duration: float, **args: object) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "pid": 1, "tid": 1, "args": args}


GPU_STEP = [
    event("user_annotation", "step 7", 1000, 1000),
    event("user_annotation", "forward", 1000, 300),
    event("user_annotation", "backward", 1300, 500),
    event("cuda_runtime", "cudaLaunchKernel", 1010, 5, correlation=1),
    event("cuda_runtime", "cudaLaunchKernel", 1310, 5, correlation=2),
    event("cuda_runtime", "cudaLaunchKernel", 1320, 5, correlation=3),
    event("kernel", "gemm", 1100, 200, correlation=1),
    event("kernel", "gemm", 1350, 250, correlation=2),
    event("gpu_memcpy", "Memcpy DtoH", 1500, 200, correlation=3),
]


def test_a_gpu_step_is_busy_where_any_work_covers_it() -> None:
    record = summarise(GPU_STEP, ["forward", "backward"])

    # Covered: 1100-1300 and 1350-1700 of 1000-2000.
    assert record["device"] == "cuda"
    assert record["busy_share"] == pytest.approx(0.55)
    assert record["steps"] == [
        {
            "step": 7,
            "seconds": pytest.approx(1e-3),
            "busy_seconds": pytest.approx(5.5e-4),
            "busy_share": pytest.approx(0.55),
        }
    ]


def test_the_longest_gaps_come_first_with_what_stands_around_them() -> None:
    record = summarise(GPU_STEP, ["forward", "backward"])

    assert [(gap["seconds"], gap["after"], gap["before"], gap["phase"]) for gap in record["gaps"]] == [
        (pytest.approx(3e-4), "Memcpy DtoH", None, "backward"),
        (pytest.approx(1e-4), None, "gemm", "forward"),
        (pytest.approx(5e-5), "gemm", "gemm", "backward"),
    ]


def test_gpu_work_counts_for_the_phase_that_launched_it() -> None:
    record = summarise(GPU_STEP, ["forward", "backward"])

    assert record["phases"] == [
        {"phase": "forward", "calls": 1, "cpu_seconds": pytest.approx(3e-4), "gpu_seconds": pytest.approx(2e-4)},
        {"phase": "backward", "calls": 1, "cpu_seconds": pytest.approx(5e-4), "gpu_seconds": pytest.approx(4.5e-4)},
    ]


def test_kernels_are_ranked_by_their_time() -> None:
    record = summarise(GPU_STEP, [])

    assert [(kernel["name"], kernel["calls"], kernel["share"]) for kernel in record["kernels"]] == [
        ("gemm", 2, pytest.approx(0.45)),
        ("Memcpy DtoH", 1, pytest.approx(0.2)),
    ]


def test_gaps_ignore_what_lies_outside_the_window_and_overlaps() -> None:
    spans = [Span("a", 0, 5), Span("b", 2, 3), Span("c", 8, 12), Span("d", 30, 40)]

    assert [(gap.start, gap.end) for gap in gaps(spans, 1, 20)] == [(5, 8), (12, 20)]


def test_own_time_leaves_out_children_on_the_same_thread_only() -> None:
    spans = [Span("outer", 0, 10, 1), Span("inner", 2, 5, 1), Span("elsewhere", 2, 9, 2), Span("next", 10, 12, 1)]

    assert {span.name: own for span, own in self_times(spans)} == {"outer": 7, "inner": 3, "elsewhere": 7, "next": 2}


def test_traces_with_different_time_bases_share_one_axis() -> None:
    one = {"baseTimeNanoseconds": 1_000_000, "traceEvents": [{"ts": 5.0, "name": "a"}]}
    two = {"baseTimeNanoseconds": 3_000_000, "traceEvents": [{"ts": 5.0, "name": "b"}, {"name": "meta"}]}

    both = merged([one, two])

    assert [event.get("ts") for event in both["traceEvents"]] == [5.0, 2005.0, None]
    assert both["baseTimeNanoseconds"] == 1_000_000

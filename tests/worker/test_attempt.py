"""Whole attempts on a tiny experiment: the records they leave, and the same bits however often they are resumed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from tiny_run import metric_lines, tiny_experiment, tiny_run, tiny_tokens

from lab.errors import LabError
from lab.experiment import fingerprint
from lab.runs import environment as environment_of_run
from lab.runs import records
from lab.training import checkpoint
from lab.worker.attempt import Attempt
from lab.worker.stop import Stop

SAME = ("step", "loss", "gradient_norm", "targets", "targets_total", "tokens", "segments", "packs", "flops", "fed")
WATCH = """
from lab import Part, hookimpl
from lab.contracts import EVENTS, Observer

HEARD = []

class Recording(Observer):
    observed_steps = frozenset({3})
    def __init__(self, options): pass

for event in EVENTS:
    setattr(Recording, event, lambda self, *what, event=event: HEARD.append((event, *what)))

class Raising(Observer):
    def __init__(self, options): pass
    def step_started(self, step):
        raise ZeroDivisionError("mine")

class Stopping(Observer):
    def __init__(self, options): pass
    def step_finished(self, step, line):
        import os, signal
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

class Slow(Observer):
    def __init__(self, options): pass
    def step_finished(self, step, line):
        import time
        time.sleep(0.2)

class Tearing(Observer):
    def __init__(self, options): pass
    def step_finished(self, step, line):
        import os, signal, torch
        whole = torch.save
        def half(state, file):
            whole(state, file)
            file.truncate(file.tell() // 2)
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 4 and "TEAR" in os.environ:
            torch.save = half

@hookimpl
def observers():
    names = ("recording", "raising", "stopping", "slow", "tearing")
    return [Part(name, target=f"lab_watch:{name.capitalize()}") for name in names]
"""


@pytest.fixture
def here(project, tmp_path):
    return tmp_path / "work"


def attempt(run, stop=None):
    worker = Attempt(run, stop or Stop())
    return worker.execute()


def run_until(run, step):
    """One attempt that is asked to stop during `step`."""
    stop = Stop()
    worker = Attempt(run, stop)
    pull = worker.loop.steps

    def steps():
        for number, made in enumerate(pull(), worker.position.step + 1):
            if number == step:
                stop._remember(signal.SIGTERM, None)
            yield made

    worker.loop.steps = steps
    return worker.execute()


def same(run):
    return [{key: line[key] for key in SAME} for line in metric_lines(run)]


def evaluations(run):
    return [(line["step"], line["loss"], line["inputs"]) for line in metric_lines(run, "evaluation")]


def test_a_run_leaves_every_record(here):
    run = tiny_run(here)

    code = attempt(run)

    assert code == 0
    assert [line["step"] for line in metric_lines(run)] == [1, 2, 3, 4, 5, 6]
    assert [step for step, _, _ in evaluations(run)] == [2, 4, 6]
    assert len({inputs for _, _, inputs in evaluations(run)}) == 1
    found = records.read_json(run.summary)
    assert (found["status"], found["steps"], found["rebuilt"]) == ("completed", 6, False)
    assert found["measured"]["steps"] == 4
    assert found["measured"]["mfu"] is None
    assert "no peak is known" in found["measured"]["mfu_reason"]
    assert found["loss"]["last"] < found["loss"]["first"]
    assert found["tokens"]["processed"] == sum(line["tokens"] for line in metric_lines(run))
    assert found["tokens"]["cached_train"] >= 3000
    assert all(len(digest) == 64 for digest in found["fingerprints"].values())
    assert found["fingerprints"]["weights_initial"] != found["fingerprints"]["weights_final"]
    assert found["elapsed_seconds"] > found["overall"]["seconds"]
    assert not list(run.path.glob(".*"))


def test_the_environment_is_what_was_really_used(here):
    import torch

    run = tiny_run(here)

    attempt(run)

    found = records.read_json(run.environment)
    assert found["packages"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["device"]["type"] == "cpu"
    assert found["device"]["name"]
    assert found["precision"] == "fp32"
    assert "scaled_dot_product_attention" in found["kernels"]["attention"]
    assert found["kernels"]["loss"] == "cross-entropy"
    assert found["objective"] == "cross-entropy"
    assert found["notes"]["optimizer_groups"][1]["weight_decay"] == 0.0
    assert found["differences"] == []


def test_a_declared_environment_that_differs_is_recorded(here):
    run = tiny_run(here, tiny_experiment(environment={"gpu": "NVIDIA H200", "packages": ["torch==1.0"]}))

    attempt(run)

    found = records.read_json(run.environment)["differences"]
    assert {difference["what"] for difference in found} == {"gpu", "package"}


def test_three_steps_resumed_for_three_more_are_the_bits_of_six(here, tmp_path):
    evaluated = tiny_experiment(evaluate={"every": 2, "batches": 2, "tokens": 64, "before_training": True})
    straight, resumed = tiny_run(here, evaluated), tiny_run(tmp_path / "other", evaluated)
    attempt(straight)

    first = run_until(resumed, 3)
    halfway = records.read_json(resumed.summary)
    second = attempt(resumed)

    assert (first, second) == (143, 0)
    assert (halfway["status"], halfway["steps"]) == ("stopped", 3)
    assert same(resumed) == same(straight)
    assert evaluations(resumed) == evaluations(straight)
    assert [step for step, _, _ in evaluations(resumed)] == [0, 2, 4, 6]
    assert not resumed.attempts.exists()  # nothing was computed twice
    ends = [records.read_json(run.summary)["fingerprints"] for run in (straight, resumed)]
    assert ends[0] == ends[1]


NOISE = """
import random
import numpy
import torch
from lab import Part, hookimpl
from lab.contracts import Step

class Noise:
    def __init__(self, context):
        self.context, self.step = context, 0

    def steps(self):
        while True:
            with self.context.phase("draw"):
                drawn = torch.rand(()) + random.random() + numpy.random.random()
            self.step += 1
            yield Step(loss=drawn.float(), targets=1)

    def evaluate(self): return None
    def state_dict(self): return {"step": self.step}
    def load_state_dict(self, state): self.step = state["step"]
    def weights(self): return None

@hookimpl
def loops():
    return [Part("noise", target="lab_noise:Noise")]
"""


def test_a_loop_that_draws_from_any_generator_draws_the_same_after_a_resume(here, tmp_path, install_plugin):
    install_plugin("noise", NOISE)
    parts = dict.fromkeys(("attention", "loss", "data", "model", "batch", "optimizer", "evaluate"))
    noisy = tiny_experiment(loop="noise", **parts)
    straight, resumed = tiny_run(here, noisy), tiny_run(tmp_path / "other", noisy)
    attempt(straight)

    codes = run_until(resumed, 3), attempt(resumed)

    assert codes == (143, 0)
    losses = [[line["loss"] for line in metric_lines(run)] for run in (straight, resumed)]
    assert len(set(losses[0])) == 6
    assert losses[0] == losses[1]


def test_a_wish_to_stop_during_the_last_step_comes_too_late(here):
    run = tiny_run(here)

    code = run_until(run, 6)

    found = records.read_json(run.summary)
    assert (code, found["status"], found["steps"]) == (0, "completed", 6)
    assert [step for step, _, _ in evaluations(run)] == [2, 4, 6]


def test_resumed_after_every_single_step_it_is_still_the_same(here, tmp_path):
    """Two passes over the data: two attempts within one epoch, one exactly at its end."""
    small = tiny_experiment(batch={"tokens": 512, "micro_batches": 2, "buffer": 8})
    straight, resumed = tiny_run(here, small), tiny_run(tmp_path / "other", small)
    attempt(straight)

    codes, waiting = [], []
    for step in range(1, 6):
        codes.append(run_until(resumed, step))
        waiting.append(len(checkpoint.load(resumed.checkpoint)["loop"]["feed"]["sampler"]["waiting"]))
    codes.append(attempt(resumed))

    assert codes == [143] * 5 + [0]
    assert not resumed.attempts.exists()  # nothing was computed twice
    assert waiting == [8, 8, 0, 8, 8]  # nothing waits to be packed: the epoch is exactly over
    assert same(resumed) == same(straight)
    assert evaluations(resumed) == evaluations(straight)
    weights = [records.read_json(run.summary)["fingerprints"]["weights_final"] for run in (straight, resumed)]
    assert weights[0] == weights[1]
    assert checkpoint.load(straight.checkpoint)["loop"]["feed"]["sampler"]["epoch"] >= 1


def test_there_is_one_checkpoint_and_it_is_the_newest_by_number(here, caplog):
    run = tiny_run(here, tiny_experiment(train={"steps": 11, "precision": "fp32"}, checkpoint={"every": 1}))
    run_until(run, 10)

    with caplog.at_level("INFO"):
        attempt(run)

    begun = "building the loop on cpu; the first of its 11 steps takes longest"
    assert caplog.messages.index(begun) < caplog.messages.index("going on after step 10")
    assert [path.name for path in run.path.glob("*checkpoint*")] == [run.checkpoint.name]
    assert checkpoint.load(run.checkpoint)["step"] == 11


def test_lines_after_the_checkpoint_move_to_the_earlier_attempt(here, tmp_path):
    straight, run = tiny_run(tmp_path / "straight"), tiny_run(here)
    attempt(straight)
    run_until(run, 4)
    lost = {**metric_lines(run)[-1], "step": 5, "fed": "lost"}
    records.append_line(run.metrics, lost)
    with run.metrics.open("ab") as file:
        file.write(b'{"kind":"step","step":6,"lo')

    attempt(run)

    assert [line["step"] for line in metric_lines(run)] == [1, 2, 3, 4, 5, 6]
    assert same(run) == same(straight)
    assert [line["fed"] for line in records.read_lines(run.earlier_metrics(1))] == ["lost"]
    assert records.torn_lines(run.metrics) == 0


def test_a_power_cut_leaves_no_checkpoint_that_counts_more_steps_than_there_are_lines(here, monkeypatch):
    run = tiny_run(here, tiny_experiment(checkpoint={"every": 2}))
    fsync, replace, on_disk = os.fsync, os.replace, []

    def synced(handle):
        fsync(handle)
        if run.metrics.exists() and os.path.samestat(os.fstat(handle), run.metrics.stat()):
            on_disk.append(("lines", metric_lines(run)[-1]["step"]))

    def replaced(source, target):
        replace(source, target)
        if target == run.checkpoint:
            on_disk.append(("checkpoint", checkpoint.load(target)["step"]))

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)

    attempt(run)

    assert on_disk == [(what, step) for step in (2, 4, 6) for what in ("lines", "checkpoint")]


def test_without_a_checkpoint_it_starts_over_and_keeps_what_was_written(here):
    run = tiny_run(here, tiny_experiment(checkpoint=None))
    records.append_line(run.metrics, {"kind": "evaluation", "step": 0, "loss": 1.0})
    records.append_line(run.metrics, {"kind": "step", "step": 1, "loss": 1.0})

    attempt(run)

    assert [line["step"] for line in metric_lines(run)] == [1, 2, 3, 4, 5, 6]
    assert len(list(records.read_lines(run.earlier_metrics(1)))) == 2


def test_a_part_of_a_checkpoint_is_removed_and_the_whole_one_before_it_used(here, caplog):
    run = tiny_run(here)
    run_until(run, 2)
    (run.path / ".checkpoint.pt.abc.part").write_bytes(b"half")

    with caplog.at_level("INFO"):
        attempt(run)

    assert "an unfinished checkpoint was removed; the one before it is whole" in caplog.messages
    assert "going on after step 2" in caplog.messages
    assert not list(run.path.glob(".*"))
    assert records.read_json(run.summary)["steps"] == 6


@pytest.mark.parametrize("what", ["experiment", "data"])
def test_a_checkpoint_of_something_else_is_refused(here, what):
    run = tiny_run(here)
    run_until(run, 2)
    if what == "experiment":
        changed = tiny_experiment(optimizer={"learning_rate": 5e-4})
        records.write_json(run.config, {"schema": 1, "experiment": changed.model_dump(mode="json")})
    else:
        records.write_json(run.data_manifest, {**records.read_json(run.data_manifest), "identity": "another"})
    before = run.metrics.read_bytes()

    with pytest.raises(LabError, match=f"saved with another {what}"):
        attempt(run)

    assert run.metrics.read_bytes() == before


def test_a_checkpoint_says_which_experiment_and_data_it_belongs_to(here):
    run = tiny_run(here)

    run_until(run, 2)

    state = checkpoint.load(run.checkpoint)
    assert state["experiment"] == fingerprint(tiny_experiment())
    assert state["data"] == records.read_json(run.data_manifest)["identity"]
    assert (state["step"], state["targets"]) == (2, metric_lines(run)[-1]["targets_total"])


def test_a_nan_stops_the_run_and_the_last_good_checkpoint_goes_on(here, monkeypatch):
    import math

    import torch

    run = tiny_run(here, tiny_experiment(checkpoint={"every": 1}))
    worker = Attempt(run, Stop())
    loss, calls = worker.loop.loss, []

    def broken(hidden, head, targets):
        calls.append(None)
        if len(calls) == 13:  # two micro-batches a step and two evaluated batches every second one: in step 5
            hidden.register_hook(lambda gradient: torch.full_like(gradient, math.nan))
        return loss(hidden, head, targets)

    worker.loop.loss = broken

    with pytest.raises(LabError, match="step 5"):
        worker.execute()

    found = records.read_json(run.summary)
    assert found["status"] == "failed"
    assert "step 5" in found["reason"]
    assert checkpoint.load(run.checkpoint)["step"] == 4
    assert attempt(run) == 0
    assert [line["step"] for line in metric_lines(run)] == [1, 2, 3, 4, 5, 6]


ASTRAY = """
import torch
from lab import Part, hookimpl
from lab.contracts import Step

class Astray:
    \"\"\"Tells no gradient norm, and its weight is no number after step 5, whose loss still is one.\"\"\"
    broken = True

    def __init__(self, context):
        self.context, self.weight, self.step = context, torch.ones(3), 0

    def steps(self):
        while True:
            self.step += 1
            if self.step == 5 and self.broken:
                self.weight[1] = torch.nan
            yield Step(loss=torch.tensor(1.0), targets=1)

    def evaluate(self): return None
    def state_dict(self): return {"step": self.step, "model": {"layer": [self.weight]}}
    def load_state_dict(self, state): self.step, self.weight = state["step"], state["model"]["layer"][0]
    def weights(self): return None

@hookimpl
def loops():
    return [Part("astray", target="lab_astray:Astray")]
"""


def test_weights_that_are_no_numbers_replace_no_checkpoint(here, install_plugin):
    install_plugin("astray", ASTRAY)
    parts = dict.fromkeys(("attention", "loss", "data", "model", "batch", "optimizer", "evaluate"))
    run = tiny_run(here, tiny_experiment(loop="astray", checkpoint={"every": 1}, **parts))

    with pytest.raises(LabError, match=r"step 5: model\.layer\.0 holds a number that is none") as stopped:
        attempt(run)

    assert "`lab resume` goes on from the last checkpoint" in stopped.value.do
    assert checkpoint.load(run.checkpoint)["step"] == 4
    assert records.read_json(run.summary)["status"] == "failed"
    import lab_astray

    lab_astray.Astray.broken = False
    assert attempt(run) == 0
    assert [line["step"] for line in metric_lines(run)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("good", "odd", "told"),
    [
        ("loss=torch.tensor(1.0)", "loss=1.0", "step 1: loss: "),
        ('return {"step": self.step, "model": {"layer": [self.weight]}}', "return None", "state_dict(): "),
        ("def weights(self): return None", "def weights(self): return 5", "weights(): "),
    ],
)
def test_what_a_loop_hands_over_is_told_by_its_plugin_where_it_is_not_the_contracts(
    here, install_plugin, good, odd, told
):
    assert good in ASTRAY
    install_plugin("astray", ASTRAY.replace(good, odd), version="2.0")
    parts = dict.fromkeys(("attention", "loss", "data", "model", "batch", "optimizer", "evaluate"))
    run = tiny_run(here, tiny_experiment(loop="astray", checkpoint={"every": 1}, **parts))

    with pytest.raises(LabError) as refused:
        attempt(run)

    assert refused.value.what.startswith(f"{told}the loop 'astray' of plugin astray (lab-astray 2.0) gives ")
    assert refused.value.do == "Reinstall or report lab-astray, or choose another."
    assert not run.checkpoint.exists()


@pytest.mark.parametrize("where", ["at its top", "when the run begins"])
def test_a_library_that_only_an_observer_imports_is_recorded_as_that(here, install_plugin, monkeypatch, where):
    top, later = ("import drawing", "pass") if where == "at its top" else ("", "import drawing")
    watch = f"from lab.contracts import Observer\n{top}\n\nclass Watch(Observer):\n"
    watch += f"    def __init__(self, options): pass\n    def run_started(self, context):\n        {later}\n"
    hooks = (
        "from lab import Part, hookimpl\n@hookimpl\ndef observers(): return [Part('drawer', 'drawer_parts:Watch')]\n"
    )
    install_plugin("drawer", hooks, files={"drawer_parts.py": watch, "drawing.py": ""})
    monkeypatch.setattr(environment_of_run, "_owners", lambda: {"drawing": ["drawing-library"], "torch": ["torch"]})
    run = tiny_run(here, tiny_experiment(observers={"drawer": {}}))

    attempt(run)

    found = records.read_json(run.environment)
    assert found["packages"].keys() == {"drawing-library", "torch"}
    assert found["packages_of_observers"] == ["drawing-library"]


def test_observers_that_record_and_that_raise_change_no_bit(here, tmp_path, install_plugin):
    install_plugin("watch", WATCH)
    observed = tiny_experiment(observers={"recording": {}, "raising": {}})
    plain, watched = tiny_run(here), tiny_run(tmp_path / "other", observed)

    codes = attempt(plain), attempt(watched)

    assert codes == (0, 0)
    assert same(watched) == same(plain)
    assert evaluations(watched) == evaluations(plain)
    one, other = (records.read_json(run.summary) for run in (plain, watched))
    assert one["fingerprints"]["weights_final"] == other["fingerprints"]["weights_final"]
    assert one["fingerprints"]["scope"] != other["fingerprints"]["scope"]
    assert [line["step"] for line in metric_lines(watched) if line["observed"]] == [3]
    assert other["measured"]["steps"] == 3
    notes = records.read_json(watched.environment)["notes"]
    [why] = [notes["observers_switched_off"].pop("raising")]
    assert why.startswith("step_started: ZeroDivisionError: mine (in plugin watch (lab-watch 1.0), lab_watch.py:")
    assert notes["observers_switched_off"] == {}
    import lab_watch

    heard = [event for event, *_ in lab_watch.HEARD]
    assert heard[0] == "run_started"
    assert heard[-1] == "run_finished"
    assert heard.count("step_finished") == 6
    assert heard.count("phase_started") == heard.count("phase_ended") == 6 * 7


def test_artifacts_are_recorded_once_and_only_from_the_run_directory(here, tmp_path):
    run = tiny_run(here)
    worker = Attempt(run, Stop())
    (run.path / "figure.png").write_bytes(b"x")

    for _ in range(2):
        worker.said.add_artifact(run.path / "figure.png", "figure", "A figure")
    with pytest.raises(LabError, match="must lie in the run directory"):
        worker.said.add_artifact(tmp_path / "elsewhere.png", "figure", "Elsewhere")

    assert list(records.read_lines(run.artifacts)) == [{"path": "figure.png", "kind": "figure", "title": "A figure"}]


def test_an_artifact_of_a_kind_that_no_report_knows_is_kept_as_a_file(here, caplog):
    run = tiny_run(here)
    worker = Attempt(run, Stop())
    (run.path / "weights.bin").write_bytes(b"x")

    worker.said.add_artifact(str(run.path / "weights.bin"), "weights", 7)
    worker.said.add_artifact(run.path / "weights.bin", None, "7")

    assert list(records.read_lines(run.artifacts)) == [{"path": "weights.bin", "kind": "file", "title": "7"}]
    assert "weights.bin: no kind of artifact is 'weights': kept as a file, not shown" in caplog.text


def test_a_note_that_no_record_can_hold_is_refused_where_it_is_made(here):
    worker = Attempt(tiny_run(here), Stop())
    worker.said.note("flops", {"formula": "6 P T"})

    for value in (10**300, json.loads("[" * 100 + "]" * 100), {1, 2}, "x" * (1 << 24)):
        with pytest.raises((ValueError, TypeError), match=r"300 digits|100 deep|not JSON|16,777,218 bytes"):
            worker.said.note("odd", value)

    assert worker.said.notes["flops"] == {"formula": "6 P T"}
    assert "odd" not in worker.said.notes


def test_a_run_whose_data_was_not_prepared_says_what_to_do(here):
    run = tiny_run(here)
    run.data_manifest.unlink()

    with pytest.raises(LabError, match=r"no data was prepared(.|\n)*lab data prepare"):
        attempt(run)


def test_a_folder_that_holds_other_data_than_was_prepared_is_refused_before_the_first_step(here, tmp_path):
    run = tiny_run(here)
    other = tiny_tokens(tmp_path / "other", documents=250)
    manifest = records.read_json(run.data_manifest)
    records.write_json(run.data_manifest, {**manifest, "folder": str(other)})

    with pytest.raises(LabError, match=f"holds the data set {other.name}, but the run was prepared with"):
        attempt(run)

    assert not run.metrics.exists()


def environment(install_plugin_site=None):
    paths = [str(install_plugin_site)] if install_plugin_site else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}


def test_sigterm_finishes_the_step_saves_and_exits_143(here, install_plugin):
    site = install_plugin("watch", WATCH)
    run = tiny_run(here, tiny_experiment(observers={"stopping": {}}, checkpoint=None))

    ended = subprocess.run(
        [sys.executable, "-m", "lab.worker", str(run.path)], env=environment(site), capture_output=True, check=False
    )

    assert ended.returncode == 143, ended.stderr.decode()
    found = records.read_json(run.summary)
    assert (found["status"], found["steps"]) == ("stopped", checkpoint.load(run.checkpoint)["step"])
    assert 3 <= found["steps"] < 6
    assert found["fingerprints"]["weights_final"]


def test_kill_9_leaves_lines_that_read_and_a_run_that_goes_on(here, tmp_path, install_plugin):
    site = install_plugin("watch", WATCH)
    slow = tiny_experiment(observers={"slow": {}}, checkpoint={"every": 1})
    run, straight = tiny_run(here, slow), tiny_run(tmp_path / "straight")
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.worker", str(run.path)],
        env=environment(site), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while len(metric_lines(run)) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()

    attempt(straight)
    code = attempt(run)

    assert code == 0
    assert same(run) == same(straight)


def test_kill_9_while_an_evaluated_step_is_saved_goes_on_from_the_checkpoint_before(
    here, tmp_path, install_plugin, caplog
):
    site = install_plugin("watch", WATCH)
    run, straight = tiny_run(here, tiny_experiment(observers={"tearing": {}})), tiny_run(tmp_path / "straight")
    ended = subprocess.run(
        [sys.executable, "-m", "lab.worker", str(run.path)],
        env={**environment(site), "TEAR": "1"}, capture_output=True, check=False,
    )  # fmt: skip
    lost = [step for step, _, _ in evaluations(run)], len(list(run.path.glob(".*.part")))

    attempt(straight)
    with caplog.at_level("INFO"):
        code = attempt(run)

    assert (ended.returncode, lost) == (-signal.SIGKILL, ([2, 4], 1))
    assert "an unfinished checkpoint was removed; the one before it is whole" in caplog.messages
    assert "going on after step 2" in caplog.messages
    assert code == 0
    assert same(run) == same(straight)
    assert evaluations(run) == evaluations(straight)
    assert [line["step"] for line in records.read_lines(run.earlier_metrics(1))] == [3, 4, 4]
    ends = [records.read_json(one.summary)["fingerprints"]["weights_final"] for one in (straight, run)]
    assert ends[0] == ends[1]
    assert not list(run.path.glob(".*"))


FULL_DISK = """
import resource, signal, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop()), resource.RLIM_INFINITY))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from lab.worker import __main__ as worker
sys.exit(worker.main())
"""


@pytest.mark.parametrize(
    ("size", "saving", "told"), [(8000, None, "metrics.jsonl"), (20_000, {"every": 2}, "checkpoint.pt")]
)
def test_a_disk_that_fills_while_a_run_trains_is_said_and_the_run_goes_on_once_there_is_space(
    here, tmp_path, size, saving, told
):
    small = tiny_experiment(train={"steps": 30, "precision": "fp32"}, checkpoint=saving)
    run, straight = tiny_run(here, small), tiny_run(tmp_path / "straight", small)

    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(run.path), str(size)],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert re.search(rf"^Error: .*{told}: .*written: ", ended.stderr, re.MULTILINE)
    assert not list(run.path.glob(".*"))
    attempt(straight)
    assert attempt(run) == 0
    assert same(run) == same(straight)


def test_a_directory_that_is_no_run_is_a_usage_error(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "lab.worker.preflight", str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert "is not a run directory" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_preflight_says_each_figure_and_passes(here, caplog):
    from lab.worker.preflight import preflight

    with caplog.at_level("INFO"):
        code = preflight(tiny_run(here))

    assert code == 0
    assert any(message.startswith("passed  attention dq") for message in caplog.messages)


def test_preflight_stops_the_run_with_the_figure_that_failed(here, install_plugin):
    from lab.worker.preflight import preflight

    code = """
from lab import Part, hookimpl

class Mean:
    def __init__(self, options): pass
    def __call__(self, hidden, head, targets):
        from torch.nn.functional import cross_entropy
        return cross_entropy((hidden @ head.T).float(), targets)

@hookimpl
def losses():
    return [Part("mean", target="lab_mean:Mean")]
"""
    install_plugin("mean", code)

    with pytest.raises(LabError, match=r"FAILED  loss 257 x 64 x 512: \d"):
        preflight(tiny_run(here, tiny_experiment(loss="mean")))


def test_metrics_are_plain_json(here):
    run = tiny_run(here)

    attempt(run)

    for line in run.metrics.read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.jobs import CODE, PYTHON, RUN, STORE, Job, Stage, archive
from lab.runs import records
from lab.runs.directory import RunDirectory
from lab.runs.status import attempt_lines, is_held, status
from lab.settings import read_settings
from lab_local.backend import LocalBackend
from lab_local.variables import stage_variables

PATIENCE_SECONDS = 30
WAITS = "echo ready > {run}/ready; trap 'echo saved > {run}/saved; exit 143' TERM; while :; do sleep 0.01; done"


def eventually(condition):
    patience = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < patience:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.01)
    raise AssertionError("it never happened")


class Submitted:
    """One job of shell stages, started on this machine by the local backend."""

    def __init__(self, project, *stages, forwarded=(), files=(), **limits):
        content = archive.pack([("src/code.py", b"first\n", False), *files])
        self.run = RunDirectory.create(read_settings().runs_folder, "quick")
        records.write_json(self.run.config, {"schema": 1, "backend": "local", "created": "c"})
        records.write_json(self.run.outcome, {"schema": 1, "status": "running", "attempt": 1})
        records.write_bytes(self.run.bundle, content)
        planned = tuple(Stage(name, ("sh", "-c", text), None, tuple(forwarded)) for name, text in stages)
        digest = hashlib.sha256(content).hexdigest()
        self.job = Job(self.run.id, planned, digest, forwarded=tuple(forwarded), **limits)
        self.backend = LocalBackend()
        self.receipt = self.backend.submit(self.job, self.run)

    def state(self):
        return LocalBackend().state(self.receipt)

    def finish(self):
        eventually(lambda: self.state().phase not in ("waiting", "running"))
        return self.state()

    def wait_for(self, name):
        return eventually(lambda: (self.run.path / name).is_file() and (self.run.path / name).read_text())

    def log(self, stage):
        return (self.run.logs / f"{stage}.log").read_text()

    def runner(self):
        return attempt_lines(self.run)[0]["pid"]


@pytest.fixture
def submit(project):
    made = []

    def start(*stages, **more):
        made.append(Submitted(project, *stages, **more))
        return made[-1]

    yield start
    for one in made:
        one.backend.delete(one.receipt)


def test_stages_run_in_the_unpacked_bundle_whatever_is_edited_meanwhile(submit, project):
    (project / "src").mkdir()
    (project / "src" / "code.py").write_text("edited\n")

    job = submit(("look", "cat src/code.py; pwd"))

    assert job.finish().exit_code == 0
    assert job.log("look") == f"first\n{project}/.lab/code/{job.job.bundle_sha256}\n"


def test_a_stage_finds_the_interpreter_the_code_the_run_and_the_store(submit, project):
    job = submit(
        ("look", f"echo {PYTHON} {RUN} {CODE} {STORE}; echo $LAB_RUN $LAB_STORE $PYTHONPATH; command -v python")
    )

    job.finish()

    code = f"{project}/.lab/code/{job.job.bundle_sha256}"
    first, second, third = job.log("look").splitlines()
    python = first.split()[0]
    assert first == f"{python} {job.run.path} {code} {project}/.lab"
    assert second == f"{job.run.path} {project}/.lab {code}/src:{code}/plugins"
    assert Path(third).parent == Path(python).parent


def test_secrets_of_this_machine_reach_no_stage_and_no_file(submit, project, monkeypatch):
    planted = {
        "HF_TOKEN": "planted-1",
        "RUNPOD_API_KEY": "planted-2",
        "MY_DB_URL": "x://me:planted-3@h",
        "A": "planted-4",
    }
    for name, value in planted.items():
        monkeypatch.setenv(name, value)

    job = submit(("look", "env"))
    job.finish()

    everything = b"".join(path.read_bytes() for path in project.rglob("*") if path.is_file())
    assert b"planted" not in everything
    assert "PATH=" in job.log("look")


def test_a_forwarded_variable_reaches_its_stage_and_is_written_nowhere(submit, project, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "planted-secret")

    job = submit(("look", "echo ${#HF_TOKEN}; echo $HF_TOKEN"), forwarded=["HF_TOKEN"])
    job.finish()

    everything = b"".join(path.read_bytes() for path in project.rglob("*") if path.is_file())
    assert b"planted-secret" not in everything
    assert job.log("look").splitlines() == ["14", "*" * 14]


def test_what_tunes_the_machine_reaches_a_stage_and_what_promises_a_secret_does_not():
    given = {
        "CUDA_VISIBLE_DEVICES": "1", "HF_HOME": "/hf", "HF_TOKEN": "t", "OMP_NUM_THREADS": "2", "EDITOR": "vi",
        "LAB_RUNPOD_API_KEY": "k", "LAB_BLOCKED_PLUGINS": "x", "LAB_PROJECT": "/p", "PYTHONPATH": "/mine",
        "PATH": "/bin", "NUM_TOKENS": "5", "TOKENIZERS_PARALLELISM": "false", "WANDB_API_KEY": "w",
    }  # fmt: skip

    found = stage_variables(given, ["WANDB_API_KEY"], Path("/code"), "/venv/bin/python")

    assert found == {
        "CUDA_VISIBLE_DEVICES": "1", "HF_HOME": "/hf", "OMP_NUM_THREADS": "2", "LAB_BLOCKED_PLUGINS": "x",
        "TOKENIZERS_PARALLELISM": "false", "WANDB_API_KEY": "w", "PATH": "/venv/bin:/bin",
        "PYTHONPATH": "/code/src:/code/plugins", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def test_asked_to_stop_the_stage_saves(submit):
    job = submit(("train", WAITS))
    job.wait_for("ready")

    job.backend.stop(job.receipt)

    assert job.finish().exit_code == 143
    assert job.wait_for("saved") == "saved\n"


def test_deleting_ends_the_group_at_once_and_is_safe_to_repeat(submit):
    job = submit(("train", f"sleep 60 & echo $! > {RUN}/child; {WAITS}"))
    child = int(job.wait_for("child"))
    job.wait_for("ready")

    for _ in range(2):
        job.backend.delete(job.receipt)

    assert not is_held(job.run.stages)
    assert not (job.run.path / "saved").exists()
    eventually(lambda: not alive(child))


def test_a_killed_runner_is_lost_and_its_stage_ends_in_order(submit):
    job = submit(("train", WAITS))
    job.wait_for("ready")

    os.kill(job.runner(), signal.SIGKILL)

    assert job.finish().phase == "lost"
    assert job.wait_for("saved") == "saved\n"
    assert status(job.run).word == "lost"


def test_a_killed_worker_is_named_as_probably_out_of_memory(submit):
    job = submit(("train", f"echo $$ > {RUN}/pid; {WAITS}"))
    pid = int(job.wait_for("pid"))
    job.wait_for("ready")

    os.kill(pid, signal.SIGKILL)

    assert job.finish().exit_code == 137
    assert "out of memory" in job.state().reason


def test_a_process_that_merely_has_the_runners_number_is_never_signalled(submit, monkeypatch):
    job = submit(("train", "true"))
    job.finish()

    with subprocess.Popen(["sleep", "60"]) as stranger, monkeypatch.context() as patched:
        records.append_line(job.run.stages, {"event": "entered", "pid": stranger.pid})
        patched.setattr("lab_local.backend.is_held", lambda path: True)
        job.backend.stop(job.receipt)
        ended = stranger.poll()
        stranger.kill()

    assert ended is None
    assert stranger.returncode == -signal.SIGKILL


def test_a_second_runner_for_the_same_run_is_refused(submit):
    job = submit(("train", WAITS))
    job.wait_for("ready")

    with pytest.raises(LabError, match="another stage runner is at work"):
        job.backend.submit(job.job, job.run)

    assert job.state().phase == "running"


def test_what_runs_here_is_owned_until_it_has_ended(submit):
    job = submit(("train", WAITS))
    job.wait_for("ready")

    running = [resource.run_id for resource in LocalBackend().owned()]
    job.backend.stop(job.receipt)
    job.finish()

    assert running == [job.run.id]
    assert LocalBackend().owned() == []


def test_a_result_that_was_announced_and_is_not_there_is_named(submit):
    job = submit(("train", "true"))
    job.finish()
    (job.run.path / "folder").mkdir()
    for path in ("gone.svg", "folder"):
        records.append_line(job.run.artifacts, {"path": path, "kind": "figure", "title": "x"})

    assert job.backend.fetch(job.receipt, job.run) == ["gone.svg: it is not there", "folder: it is no file"]


def test_a_local_run_has_no_machine_to_start(submit):
    job = submit(("train", "true"))

    with pytest.raises(LabError, match="no machine to start"):
        job.backend.start(job.receipt)


def test_a_run_goes_on_at_once_where_its_last_runner_is_only_about_to_leave(submit, monkeypatch):
    job = submit(("train", "true"))
    job.finish()
    looks = iter([True, True, True])
    monkeypatch.setattr("lab_local.backend.is_held", lambda path: next(looks, False))

    job.receipt = job.backend.submit(job.job, job.run)

    monkeypatch.undo()
    job.finish()
    assert [line["event"] for line in records.read_lines(job.run.stages)].count("entered") == 2


def test_a_bundle_that_is_damaged_starts_nothing(submit):
    job = submit(("train", "true"))
    job.finish()
    job.run.bundle.write_bytes(b"x")

    with pytest.raises(LabError, match="is damaged"):
        job.backend.submit(job.job, job.run)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

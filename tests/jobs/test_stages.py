from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.jobs import stages
from lab.runs import records
from lab.runs.status import is_held

PATIENCE_SECONDS = 20


class Job:
    """A plan on disk, and the stage runner that works on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = folder / "stages.jsonl"
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    def plan(self, *planned: tuple[str, str], **changes: object) -> list[str]:
        """Write a plan of shell scripts, given as (name, script), and return the command that runs it."""
        forwarded = changes.pop("forwarded", {})
        leaves = changes.pop("leaves", "")
        steps = [
            {
                "name": name,
                "argv": ["sh", "-c", text],
                "seconds": None,
                "forwarded": forwarded.get(name, []),
                "leaves": leaves,
            }
            for name, text in planned
        ]
        plan = {
            "attempt": 1,
            "seconds": 60.0,
            "grace_seconds": 30.0,
            "folder": str(self.folder),
            "records": str(self.records),
            "logs": str(self.logs),
            "stages": steps,
            "forwarded": sorted({name for names in forwarded.values() for name in names}),
            "environment": {},
            **changes,
        }
        (self.folder / "plan.json").write_text(json.dumps(plan))
        return [sys.executable, "-I", "-S", stages.__file__, str(self.folder / "plan.json")]

    def start(self, *planned: tuple[str, str], environment: dict[str, str] | None = None, **changes: object) -> None:
        self.process = subprocess.Popen(self.plan(*planned, **changes), env={**os.environ, **(environment or {})})

    def finish(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def run(self, *planned: tuple[str, str], **changes: object) -> int:
        self.start(*planned, **changes)
        return self.finish()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def lines(self) -> list[dict]:
        return list(records.read_lines(self.records))

    def line(self, event: str) -> dict:
        return next(line for line in self.lines() if line["event"] == event)

    def events(self) -> list[tuple]:
        return [(line.get("stage"), line["event"]) for line in self.lines()]

    def log(self, stage: str) -> str:
        return (self.logs / f"{stage}.log").read_text()

    def wait_for(self, name: str) -> str:
        """Wait until a stage wrote a file, and return its text."""
        return eventually(lambda: (self.folder / name).is_file() and (self.folder / name).read_text())


def eventually(condition):
    """Ask until the answer is yes; fail the test when it never is."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < patience:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.005)
    raise AssertionError("it never happened")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


SAVES = "trap 'echo saved; exit 143' TERM; echo ready > ready; while :; do sleep 0.01; done"
DEAF = "trap 'echo asked > asked' TERM; echo ready > ready; while :; do sleep 0.01; done"


@pytest.fixture
def job(tmp_path):
    job = Job(tmp_path)
    yield job
    if job.process is not None and job.process.poll() is None:
        job.process.send_signal(signal.SIGTERM)
        job.process.send_signal(signal.SIGTERM)
        job.process.wait(PATIENCE_SECONDS)


def test_stages_run_in_order_and_leave_their_logs_and_an_exit_record(job):
    code = job.run(("one", "echo to-out; echo to-err >&2"), ("two", "pwd"))

    assert code == 0
    assert job.log("one") == "to-out\nto-err\n"
    assert job.log("two").strip() == str(job.folder)
    one, two = ("one", "started"), ("two", "started")
    assert job.events() == [(None, "entered"), one, ("one", "ended"), two, ("two", "ended"), ("two", "exited")]
    assert job.line("exited")["exit_code"] == 0


def test_a_stage_that_fails_ends_the_job_with_its_code(job):
    code = job.run(("one", "exit 7"), ("two", "echo never"))

    assert code == 7
    assert job.line("exited") | {"exit_code": 7, "stage": "one", "reason": "exit code 7"} == job.line("exited")
    assert not (job.logs / "two.log").exists()


@pytest.mark.parametrize(("script", "code"), [("exit 0", 1), ("touch done", 0), ("exit 7", 7)])
def test_a_stage_that_ends_before_it_wrote_what_it_writes_last_has_failed(job, script, code):
    assert job.run(("train", script), ("after", "true"), leaves=str(job.folder / "done")) == code
    assert (job.line("ended")["exit_code"], job.line("exited")["exit_code"]) == (code, code)
    assert ("did not write what it writes last" in job.line("ended")["reason"]) == (script == "exit 0")


def test_a_program_that_does_not_exist_is_named(job):
    code = job.run(("one", "true"), stages=[{"name": "x", "argv": ["/no/such"], "seconds": None, "forwarded": []}])

    assert code == 127
    assert "/no/such" in job.line("exited")["reason"]


def test_an_argument_with_a_nul_byte_ends_the_stage_not_the_runner(job):
    code = job.run(stages=[{"name": "x", "argv": ["echo", "a\0b"], "seconds": None, "forwarded": []}])

    assert code == 126
    assert "cannot be started" in job.line("exited")["reason"]


def test_a_stage_killed_from_outside_is_called_probably_out_of_memory(job):
    code = job.run(("train", "kill -9 $$"))

    ended = job.line("ended")
    assert code == 137
    assert (ended["exit_code"], ended["signal"]) == (137, "SIGKILL")
    assert "out of memory" in job.line("exited")["reason"]


def test_a_crash_names_its_signal(job):
    assert job.run(("train", "kill -SEGV $$")) == 139
    assert job.line("exited")["reason"] == "killed by SIGSEGV"


def test_asked_once_the_stage_saves_and_the_job_counts_as_stopped(job):
    job.start(("train", SAVES), ("after", "echo never"))
    job.wait_for("ready")

    job.signal()

    assert job.finish() == 143
    assert job.log("train") == "saved\n"
    assert job.line("exited")["reason"] == "asked to stop"
    assert not (job.logs / "after.log").exists()


def test_asked_twice_the_process_group_ends_at_once(job):
    job.start(("train", f"sleep 60 & echo $! > child; {DEAF}"))
    job.wait_for("ready")
    child = int(job.wait_for("child"))

    job.signal(signal.SIGINT)
    job.wait_for("asked")
    job.signal(signal.SIGINT)

    assert job.finish() == 143
    assert "ended at once" in job.line("exited")["reason"]
    assert not is_alive(child)


def test_asked_again_by_a_process_that_is_not_sure_the_stage_still_saves(job):
    saves_slowly = "echo asked > asked; while ! test -f go; do sleep 0.01; done; echo saved; exit 143"
    job.start(("train", f"trap '{saves_slowly}' TERM; echo ready > ready; while :; do sleep 0.01; done"))
    job.wait_for("ready")

    job.signal()
    job.wait_for("asked")
    job.signal()
    job.signal()
    (job.folder / "go").touch()

    assert job.finish() == 143
    assert job.log("train") == "saved\n"


def test_a_stage_that_will_not_stop_is_killed_after_its_grace(job):
    job.start(("train", DEAF), grace_seconds=0.1)
    job.wait_for("ready")

    job.signal()

    assert job.finish() == 143
    assert "did not end within 0.1 s" in job.line("exited")["reason"]


def test_a_last_stage_that_finishes_although_asked_to_stop_is_a_success(job):
    job.start(("train", "trap '' TERM; echo ready > ready; while ! test -f go; do sleep 0.01; done"))
    job.wait_for("ready")

    job.signal()
    (job.folder / "go").touch()

    assert job.finish() == 0


def test_a_failure_while_stopping_is_a_failure(job):
    job.start(("train", "trap 'exit 5' TERM; echo ready > ready; while :; do sleep 0.01; done"))
    job.wait_for("ready")

    job.signal()

    assert job.finish() == 5


@pytest.mark.parametrize("whose", ["stage", "job"])
def test_a_deadline_asks_the_stage_to_save(job, whose):
    limits = {"seconds": 0.3} if whose == "job" else {}
    planned = [{"name": "train", "argv": ["sh", "-c", SAVES], "seconds": 0.3, "forwarded": []}]
    if whose == "job":
        planned[0]["seconds"] = None

    code = job.run(stages=planned, **limits)

    assert code == 143
    key = "limits.hours" if whose == "job" else "hours of this stage"
    assert job.line("exited")["reason"] == f"ended by the time limit of 0.3 s ({key})"


def test_a_stage_that_ignores_its_deadline_counts_as_failed(job):
    assert job.run(("train", DEAF), seconds=0.2, grace_seconds=0.1) == 137


def test_a_stages_start_is_recorded_so_that_no_clock_can_change_it(job):
    job.run(("a", "cut -d' ' -f22 /proc/$$/stat"))

    assert job.log("a") == f"{job.line('started')['ticks']}\n"


def test_what_a_stage_left_in_its_group_is_ended(job):
    code = job.run(("one", "sleep 60 & echo $! > child"), ("two", "true"))

    assert code == 0
    assert not is_alive(int(job.wait_for("child")))


def test_a_killed_runner_takes_its_stage_along_and_frees_its_lock(job):
    job.start(("train", f"echo $$ > pid; {SAVES}"))
    stage = int(job.wait_for("pid"))
    job.wait_for("ready")
    assert is_held(job.records)

    job.signal(signal.SIGKILL)
    job.finish()

    try:
        eventually(lambda: not is_alive(stage))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(stage, signal.SIGKILL)
    assert not is_held(job.records)
    assert (None, "exited") not in job.events()


def test_two_runners_never_work_on_one_run(job, monkeypatch):
    job.start(("train", SAVES))
    job.wait_for("ready")
    monkeypatch.setattr(stages, "LOCK_PATIENCE_SECONDS", 0.0)

    with pytest.raises(SystemExit, match="another stage runner"):
        stages.Records(str(job.records)).lock()


def test_a_stage_sees_only_the_forwarded_variables_it_names(job):
    keys = {"HF_TOKEN": "hf_secret_1", "WANDB_API_KEY": "wandb_secret_2"}

    job.run(
        ("prepare", "echo ${HF_TOKEN:+yes} ${WANDB_API_KEY:-no}"), forwarded={"prepare": ["HF_TOKEN"], "x": list(keys)},
        environment=keys,
    )  # fmt: skip

    assert job.log("prepare") == "yes no\n"


def test_a_forwarded_value_that_a_stage_prints_is_covered_in_its_log(job):
    job.run(("train", "echo key=$K; echo $K$K"), forwarded={"train": ["K"]}, environment={"K": "planted-secret"})

    everything = b"".join(path.read_bytes() for path in job.folder.rglob("*") if path.is_file())
    assert b"planted-secret" not in everything
    assert job.log("train").startswith("key=**************\n")


def test_one_line_of_a_forwarded_key_is_covered_in_a_log_and_numbers_and_paths_are_not(job):
    values = {"K": "-----BEGIN KEY-----\nviolet4anvil+one\nviolet4anvil+two\n", "N": "12345678", "P": str(job.folder)}

    job.run(("train", 'echo "$K" | sed -n 2p; echo $N $P'), forwarded={"train": list(values)}, environment=values)

    assert job.log("train") == f"****************\n12345678 {job.folder}\n"


def test_a_later_attempt_appends_to_records_and_logs(job):
    job.run(("train", "echo first; exit 1"))

    job.run(("train", "echo second"), attempt=2)

    assert job.log("train") == "first\nsecond\n"
    assert [line["attempt"] for line in job.lines() if line["event"] == "entered"] == [1, 2]
    assert [line["log_start"] for line in job.lines() if line["event"] == "started"] == [0, len("first\n")]


def test_names_with_spaces_and_shell_signs_reach_a_stage_as_they_are(job):
    names = ["a b", "$(touch PWNED)", "x;touch PWNED", "quote\"'\\", "ünï"]

    job.run(stages=[{"name": "x", "argv": ["printf", "%s\\n", *names], "seconds": None, "forwarded": []}])

    assert job.log("x").splitlines() == names
    assert not (job.folder / "PWNED").exists()


def detached(command: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*command[:-1], "--detach", command[-1]], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


def test_detached_it_outlives_the_session_that_started_it(job):
    done = detached(job.plan(("train", "while ! test -f go; do sleep 0.01; done")))
    runner = job.line("entered")["pid"]
    session = os.getsid(runner)
    (job.folder / "go").touch()

    assert done.returncode == 0
    assert session == runner
    eventually(lambda: ("train", "exited") in job.events())


def test_detached_it_says_why_it_could_not_start(job):
    done = detached(job.plan(("train", "true"), records=str(job.folder / "missing" / "stages.jsonl")))

    assert done.returncode == 1
    assert "missing" in done.stderr


class FullDisk:
    """Stands for os.write on a disk that takes only `room` more bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.write = os.write

    def __call__(self, handle: int, content: bytes) -> int:
        if self.room <= 0:
            raise OSError(28, "No space left on device")
        written = self.write(handle, content[: self.room])
        self.room -= written
        return written


def test_lines_wait_in_memory_while_the_disk_is_full(tmp_path, monkeypatch):
    kept = stages.Records(str(tmp_path / "stages.jsonl"))
    disk = FullDisk(room=20)
    monkeypatch.setattr(stages.os, "write", disk)

    kept.add(event="started")
    kept.add(event="ended")
    assert (tmp_path / "stages.jsonl").read_bytes() == b""
    disk.room = 10_000
    kept.insist()

    assert [line["event"] for line in records.read_lines(tmp_path / "stages.jsonl")] == ["started", "ended"]
    os.close(kept.handle)


NO_FILES = {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.symlink("/dev/zero", path)}


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_a_log_that_is_no_file_fails_its_stage_by_name_and_the_run_ends(job, make):
    make(job.logs / "train.log")

    code = job.run(("train", "true"))

    assert code == 126
    assert job.line("ended")["reason"].startswith("cannot be started: ")
    assert str(job.logs / "train.log") in job.line("ended")["reason"]


@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY | os.O_APPEND | os.O_CREAT], ids=["reads", "appends"])
@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_is_never_opened(tmp_path, make, flags):
    place = tmp_path / "stages.jsonl"
    make(place)

    with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
        stages.open_file(str(place), flags)


def test_a_stage_gets_its_log_as_a_file_that_waits(tmp_path):
    handle = stages.open_file(str(tmp_path / "train.log"), os.O_WRONLY | os.O_CREAT)

    blocking = os.get_blocking(handle)
    os.close(handle)

    assert blocking

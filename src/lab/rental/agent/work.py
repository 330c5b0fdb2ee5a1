"""The job on this machine: its stages run by the runner that came with the bundle, and what became of them on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from . import durable
from .answers import Refused, refused_by_disk
from .covering import secret_parts
from .growth import opened
from .paths import Places, fault
from .planning import RUNNER, stage_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Work:
    """At most one job at a time. A request's id and content name it, however often the request arrives."""

    def __init__(self, places: Places, boot_id: str, environment: dict[str, str], ended: Callable[[], None]) -> None:
        self._places = places
        self._boot_id = boot_id
        self._environment = environment
        self._ended = ended
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._variables: dict[str, str] | None = None

    def set_variables(self, values: dict[str, str]) -> None:
        """Keep the forwarded variables in memory; a restart of the container forgets them."""
        self._variables = dict(values)

    @property
    def secrets(self) -> list[bytes]:
        """Values that must not be seen in what is sent home."""
        found = {part for value in (self._variables or {}).values() for part in secret_parts(value)}
        return [os.fsencode(part) for part in sorted(found, key=len, reverse=True)]

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start the job, unless it is started already; refuse another one while it runs."""
        content = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        with self._lock:
            known = durable.read(self._record)
            if known.get("request_id") == request["request_id"]:
                if known.get("content") != content:
                    raise Refused("conflict", "another job was started under this id")
                return self._report(known)
            if known and self._report(known)["phase"] == "running":
                raise Refused("conflict", f"job {known['request_id']} is running")
            if request["plan"].get("forwarded") and self._variables is None:
                raise Refused("variables", "this boot knows no forwarded variables")
            try:
                return self._started(request, content)
            except OSError as error:
                raise refused_by_disk(error) from error

    def report(self) -> dict[str, Any] | None:
        """What became of the job, or None when there never was one."""
        with self._lock:
            known = durable.read(self._record)
            return self._report(known) if known else None

    @property
    def running(self) -> bool:
        """Whether stages run now."""
        process = self._process
        return process is not None and process.poll() is None

    def stop(self, grace_seconds: float) -> None:
        """Ask the stage to save and end, and end its process group after the grace; asking again changes nothing."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        timer = threading.Timer(grace_seconds, self._end, [process])
        timer.daemon = True
        timer.start()

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGQUIT)

    @property
    def _record(self) -> Path:
        return self._places.state / "job.json"

    def _started(self, request: dict[str, Any], content: str) -> dict[str, Any]:
        code = self._places.code(request["bundle_sha256"])
        if not (code / RUNNER).is_file():
            raise Refused("conflict", "the bundle of this job is not here")
        for folder in (self._places.run / "logs", self._places.store, self._places.state):
            folder.mkdir(parents=True, exist_ok=True)
        _lay(request.get("files", {}), self._places.run)
        put_aside(self._places.run, int(request["plan"]["attempt"]) - 1)
        plan = self._places.state / "plan.json"
        durable.write(plan, stage_plan(request, self._places, code, dict(os.environ)))
        known = {"request_id": request["request_id"], "content": content, "boot_id": self._boot_id}
        records = self._places.run / "stages.jsonl"
        known["records_from"] = records.stat().st_size if records.exists() else 0
        durable.write(self._record, known)
        self._process, self._began = self._spawn(code, plan), time.monotonic()
        threading.Thread(target=self._wait, args=(self._process, known), daemon=True).start()
        return self._report(known)

    def _spawn(self, code: Path, plan: Path) -> subprocess.Popen[bytes]:
        with open(self._places.run / "logs" / "runner.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, str(code / RUNNER), str(plan)],
                cwd=code,
                env={**self._environment, **(self._variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self, process: subprocess.Popen[bytes], known: dict[str, Any]) -> None:
        code = process.wait()
        with self._lock, contextlib.suppress(OSError):  # on a full disk the exit record of the stages says the same
            durable.write(self._record, {**known, "runner_exit": code})
        self._ended()

    def _report(self, known: dict[str, Any]) -> dict[str, Any]:
        seconds = time.monotonic() - self._began if self._process is not None else 0.0
        report = {"request_id": known["request_id"], "stage": None, "exit_code": None, "reason": "", "seconds": seconds}
        started, exited = self._read_records(known["records_from"])
        if exited is not None and not self.running:  # while the runner ends, something may still be written
            ending = {"stage": exited.get("stage"), "reason": exited.get("reason", "")}
            return {**report, **ending, "phase": "exited", "exit_code": exited["exit_code"]}
        if known["boot_id"] == self._boot_id and "runner_exit" in known:
            code = known["runner_exit"]
            reason = "the stage runner ended without a word: see logs/runner.log"
            return {**report, "stage": started, "phase": "exited", "exit_code": 128 - code if code < 0 else code or 1,
                    "reason": reason}  # fmt: skip
        if known["boot_id"] == self._boot_id:
            return {**report, "stage": started, "phase": "running"}
        reason = "the machine restarted while the job ran; it was not run again"
        return {**report, "stage": started, "phase": "interrupted", "reason": reason}

    def _read_records(self, start: int) -> tuple[str | None, dict[str, Any] | None]:
        """The stage that started last, and the record of the job's end if there is one."""
        stage, ending = None, None
        try:
            with opened(self._places.run / "stages.jsonl") as file:
                file.seek(start)
                lines = file.read().split(b"\n")[:-1]
        except OSError:
            return None, None
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if record.get("event") == "started":
                stage = record.get("stage")
            elif record.get("event") == "exited":
                ending = record
        return stage, ending


def put_aside(run: Path, attempt: int) -> None:
    """Move the figures of an earlier attempt aside, so that nobody takes them for those of the next one."""
    for name in ("summary.json", "environment.json"):
        if attempt > 0 and (run / name).is_file():
            (run / "attempts").mkdir(exist_ok=True)
            os.replace(run / name, run / "attempts" / f"{attempt}-{name}")


def _lay(files: dict[str, str], folder: Path) -> None:
    """Put small text files into the run directory, where the stages expect them."""
    for name, text in files.items():
        if fault(name) is not None:
            raise Refused("invalid", f"{name!r} is no file of a run directory")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")

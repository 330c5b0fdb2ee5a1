"""The real agent as process 1 of a machine that is a folder: by the real bootstrap, asked by the real client."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from lab.jobs import Job, Stage
from lab.jobs import stages as stage_runner
from lab.rental import bootstrap
from lab.rental.agent_client import HttpAgent
from lab.rental.agent_contract import AgentUnreachable, JobRequest

TOKEN = "t" * 40
NONCE = "n" * 32
CLOUD_KEY = "cloud-key-of-this-machine-0123456789"
RUN_ID = "smoke-20261201-0915-7f3a"
HEAD = "import os, pathlib, signal, sys, time\nrun = pathlib.Path(sys.argv[1])\n"
PATIENCE = 30.0


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def archive(files):
    """A bundle with these files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return content.getvalue()


BUNDLE = archive({"src/lab/jobs/stages.py": Path(stage_runner.__file__).read_bytes()})
BUNDLE_SHA256 = hashlib.sha256(BUNDLE).hexdigest()


def stage(code, name="train", forwarded=(), seconds=None):
    return Stage(name, (sys.executable, "-c", HEAD + code, "{run}"), seconds, forwarded=tuple(forwarded))


def request(*stages, request_id="job1", forwarded=(), seconds=60.0, **changes):
    """A job as the controller sends it."""
    job = Job(RUN_ID, stages, BUNDLE_SHA256, forwarded=tuple(forwarded), seconds=seconds, grace_seconds=2.0, **changes)
    same = {word: word for word in ("{python}", "{run}", "{code}", "{store}")}
    plan = job.stage_plan(same, records="{run}/stages.jsonl", logs="{run}/logs")
    return JobRequest(request_id, BUNDLE_SHA256, plan, files={"config.json": "{}"})


class Machine:
    """A folder with a disk that survives; `boot` starts the container, `kill` ends it as a host does."""

    def __init__(self, folder, venv, **environment):
        self.folder, self.disk = folder, folder / "workspace"
        self.home = self.disk / "lab" / "runs" / RUN_ID
        self.port = free_port()
        self.process = None
        self.agent = HttpAgent(f"http://127.0.0.1:{self.port}", TOKEN)
        (folder / "tmp").mkdir(parents=True)
        self.home.mkdir(parents=True)
        (self.home / "venv").symlink_to(venv)
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "TMPDIR": str(folder / "tmp"),
            "LAB_RUN_ID": RUN_ID,
            "LAB_OWNER": "owner",
            "LAB_NONCE": NONCE,
            "LAB_TOKEN_SHA256": hashlib.sha256(TOKEN.encode()).hexdigest(),
            "LAB_AGENT_PORT": str(self.port),
            "LAB_WORKSPACE": str(self.disk / "lab"),
            "LAB_LEASE_SECONDS": "600",
            "LAB_LIMIT_SECONDS": "3600",
            "LAB_SECRET_VARIABLES": "CLOUD_KEY,ABSENT",
            "LAB_SELF_STOP": json.dumps([{"argv": ["touch", str(folder / "{CLOUD_KEY}")]}]),
            "CLOUD_KEY": CLOUD_KEY,
            **environment,
        }

    def boot(self):
        argv = bootstrap.argv()
        with open(self.folder / "container.log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *argv[1:]],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        self.wait(self._answers)
        return self

    def _answers(self):
        with contextlib.suppress(AgentUnreachable):
            return self.agent.hello()

    def wait(self, condition, seconds=PATIENCE):
        """Until something in another process shows; nothing here could tell us when."""
        until = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < until, (self.folder / "container.log").read_text()
            time.sleep(0.02)
        return found

    def kill(self):
        """The container is gone with all its processes; what its stages started is theirs to end."""
        self.process.kill()
        self.process.wait()
        for pid in self.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def children(self):
        """Processes of this machine, by a variable that only they have."""
        marker = str(self.folder / "tmp").encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if b"TMPDIR=" + marker + b"\0" in path.read_bytes():
                    yield int(path.parent.name)

    def close(self):
        self.agent.close()
        if self.process is not None:
            self.kill()

    def send(self, data=BUNDLE, chunk=1000):
        """Upload a bundle in small chunks."""
        sha256 = hashlib.sha256(data).hexdigest()
        for index in range(-(-len(data) // chunk)):
            self.agent.put_chunk(sha256, index, data[index * chunk : (index + 1) * chunk])
        self.agent.commit(sha256, len(data))

    def start(self, *stages, **changes):
        """Send the bundle and start a job."""
        self.send()
        return self.agent.start(request(*stages, **changes))

    def ended(self):
        """The report once no stage runs any more."""
        return self.wait(lambda: (report := self.agent.poll(None).job) and report.phase != "running" and report)

    def manifest(self, *patterns):
        self.agent.manifest(patterns or ("**",), True)
        return self.wait(lambda: self.agent.manifest(patterns or ("**",), False))

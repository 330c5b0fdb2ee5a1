"""A project that rents from the simulated RunPod, with the rules that hold for every rental whatever goes wrong."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

from pydantic import SecretStr

from lab.conformance import ScaledClock
from lab.errors import LabError
from lab.jobs import PYTHON, RUN, Job, Needs, Stage, archive
from lab.jobs import stages as stage_runner
from lab.rental.backend import RentedBackend
from lab.rental.facts import State
from lab.runs.directory import RunDirectory
from lab.runs.records import write_bytes, write_json
from lab_runpod.options import RunPodOptions
from lab_runpod.provider import RunPodProvider
from lab_runpod.settings import RunPodSettings

IMAGE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel@sha256:" + "a7" * 32
A4000 = "NVIDIA RTX A4000"
ONE_PLACE = ("EU-RO-1",)
POLL_DOLLARS = 0.01
WORK = """
import json, pathlib, sys
run = pathlib.Path(sys.argv[1])
(run / "summary.json").write_text(json.dumps({"schema": 1, "status": "completed"}))
(run / "result with space.bin").write_bytes(bytes(range(256)) * 4000)
"""
RESULT = bytes(range(256)) * 4000
TRAIN = Stage("train", (PYTHON, "-c", WORK, RUN))


def python_stage(code, name="train", **fields):
    """A stage that runs a few lines of Python; `run` is the run directory there."""
    head = "import os, pathlib, signal, subprocess, sys, time\nrun = pathlib.Path(sys.argv[1])\n"
    return Stage(name, (PYTHON, "-c", head + code, RUN), **fields)


def ready_environment(folder):
    """An environment as the install stage makes it, to be laid on new disks, because making one takes seconds."""
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", folder], check=True)

    def furnish(pod):
        home = pod.volume_folder / "lab" / "runs" / pod.request["env"]["LAB_RUN_ID"]
        home.mkdir(parents=True, exist_ok=True)
        if not (home / "venv").exists():
            (home / "venv").symlink_to(folder)

    return furnish


def wait_for(condition, seconds=30):
    """Until something of another process shows; the simulated world has no event for it."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


class World:
    """One cloud, one project, and what became of its rentals."""

    def __init__(self, cloud, project, test=None):
        self.cloud, self.project = cloud, project
        self.ends = {mark.args[1] for mark in test.iter_markers("fault")} if test else set()
        """The states in which the injected faults must leave a rental, as the test is marked."""
        self.backends, self.said, self.runs = [], [], []
        self.may_live = set()
        """Pods that a test leaves alive on purpose: foreign ones, and those that nobody may delete."""

    def settings(self, **changes):
        return RunPodSettings(
            api_url=self.cloud.api_url,
            proxy_url=self.cloud.proxy_url,
            graphql_url=f"{self.cloud.url}/graphql",
            api_key=SecretStr(changes.pop("key", self.cloud.account_key)),
            **{"read_seconds": 5, "create_seconds": 5, **changes},
        )

    def backend(self, settings=None, **options):
        chosen = RunPodOptions(**{"data_centers": ONE_PLACE, **options})
        provider = RunPodProvider(chosen, settings or self.settings())
        clock = ScaledClock(self.cloud.clock.factor)
        backend = RentedBackend(
            provider,
            chosen,
            store=self.project / ".lab",
            clock=clock,
            say=self.said.append,
            seed=0,
            sync=lambda handle: None,
        )
        self.backends.append(backend)
        return backend

    def job(self, *stages, **changes):
        """A run directory with a bundle that holds the stage runner, and a job of these stages."""
        run = RunDirectory.create(self.project / ".runs", "tiny")
        files = [("src/lab/jobs/stages.py", Path(stage_runner.__file__).read_bytes(), False)]
        packed = archive.pack([*files, ("extra.bin", changes.pop("extra", b""), False)])
        write_bytes(run.bundle, packed)
        write_json(run.config, {"schema": 1, "run_id": run.id, "experiment": {}})
        needs = {"gpu": A4000, "image": IMAGE, "volume_gb": 20, **changes.pop("needs", {})}
        fields = {"needs": Needs(**needs), "seconds": 600.0, **changes}
        job = Job(run.id, stages or (TRAIN,), hashlib.sha256(packed).hexdigest(), **fields)
        write_json(run.job, {"schema": 1, **job.record()})
        self.runs.append((run, job))
        return run, job

    def follow(self, backend, receipt, run, seconds=60):
        """What launch does between submitting and fetching."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            state = backend.state(receipt)
            backend.records(receipt, run)
            if state.phase in ("finished", "lost"):
                return state
            time.sleep(0.02)
        raise AssertionError(f"after {seconds} s still {state}")

    def whole(self, run, job, backend=None, **options):
        """Rent, run, collect, delete; whatever error ends it is returned."""
        backend = backend or self.backend(**options)
        try:
            receipt = backend.submit(job, run)
            state = self.follow(backend, receipt, run)
            missing = backend.fetch(receipt, run)
            if not missing:
                backend.delete(receipt)
        except LabError as error:
            return Ending(run, self.facts(run), error=error)
        return Ending(run, self.facts(run), state=state, missing=missing)

    def facts(self, run):
        """What the journal says."""
        return self.backends[-1].facts(run.id)

    def events(self, run):
        """The journal's events in order."""
        return [record["event"] for record in self.backends[-1].journal(run.id).records()]

    def disk(self, run):
        """The run directory on the only Pod."""
        return self.cloud.pods[0].volume_folder / "lab" / "runs" / run.id / "run"

    def close(self):
        """Give up all connections, then hold every rule against what happened."""
        for backend in self.backends:
            backend.close()
            backend.provider.client.close()
        self.it_ended_as_it_must()
        self.nothing_is_forgotten()
        self.no_stranger_was_touched()
        self.no_secret_got_out()
        self.the_bill_was_agreed_to()
        assert self.cloud.trace.violations == []

    def it_ended_as_it_must(self):
        """One of the states that the marks of the test name, at some time; later commands may have gone further."""
        for run, _ in self.runs if self.ends else ():
            passed = {str(record["state"]) for record in self.backends[-1].journal(run.id).records()}
            assert any(state in end for end in self.ends for state in passed), (passed, self.ends)

    def nothing_is_forgotten(self):
        """Every Pod is gone, or stopped and recorded, or named as needing attention."""
        known = {self.facts(run).machine_id: self.facts(run) for run, _ in self.runs if self.events(run)}
        for pod in self.cloud.alive:
            if pod.id in self.may_live:
                continue
            facts = known.get(pod.id)
            named = facts is not None and facts.state in (State.STOPPED, State.ATTENTION)
            assert named, f"{pod.id} ({pod.status}) is alive and nobody knows"

    def no_stranger_was_touched(self):
        """Nothing but a read ever reached a Pod that this project did not make."""
        ours = {pod.id for pod in self.cloud.pods if pod.request["name"].startswith("lab-")}
        for exchange in self.cloud.trace.exchanges:
            if exchange.where == "api" and exchange.method != "GET" and exchange.pod is not None:
                assert exchange.pod in ours, f"{exchange.method} {exchange.path}"

    def no_secret_got_out(self):
        """The account's key is in headers to the API and nowhere else, the token in headers to the Pod."""
        key = self.cloud.account_key
        tokens = [path.read_text() for path in (self.project / ".lab" / "rentals").glob("*/token")]
        for exchange in self.cloud.trace.exchanges:
            text = exchange.body + exchange.path + exchange.query
            assert key not in text
            assert exchange.where == "api" or key not in str(exchange.headers)
            assert not any(token in text for token in tokens)
            assert exchange.where == "proxy" or not any(token in str(exchange.headers) for token in tokens)
        for path in self.project.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                assert key.encode() not in content, path
                assert path.name == "token" or not any(token.encode() in content for token in tokens), path

    def the_bill_was_agreed_to(self):
        """No rental cost more than its ceiling and one look later."""
        for run, _ in self.runs:
            facts = self.facts(run)
            spent = sum(
                pod.spent(self.cloud.clock.now())
                for pod in self.cloud.pods
                if pod.request.get("env", {}).get("LAB_RUN_ID") == run.id
            )
            assert not facts.max_dollars or spent <= facts.max_dollars + POLL_DOLLARS


class Ending:
    """How one rental ended."""

    def __init__(self, run, facts, state=None, missing=(), error=None):
        self.run = run
        self.facts, self.state, self.missing, self.error = facts, state, missing, error

    @property
    def word(self):
        return str(self.facts.state)

"""The local backend keeps its contract, and the check fails for backends that do not."""

from __future__ import annotations

import contextlib

import pytest
from simulated_rental import A4000, IMAGE, World, ready_environment
from simulator import Simulator

from lab.conformance import ContractBroken
from lab.contracts import JobState, LogLine, Quote, Receipt, Resource
from lab.experiment import PartChoice
from lab.jobs import Needs
from lab.plugins import Plugins
from lab.runs import records

PLUGINS = Plugins()


def test_the_local_backend(check_backend, project):
    check_backend("local", lambda: PLUGINS.build("backend", PartChoice(name="local")), project / ".runs")


@pytest.fixture(scope="module")
def furnish(tmp_path_factory):
    return ready_environment(tmp_path_factory.mktemp("image") / "venv")


def test_a_rented_machine_of_a_simulated_cloud(check_backend, project, furnish):
    with Simulator(factor=30, seed=1) as simulator:
        simulator.cloud.furnish = furnish
        simulator.cloud.grace = 1.0
        world = World(simulator, project)
        needs = Needs(gpu=A4000, image=IMAGE, volume_gb=20)

        with contextlib.closing(world):
            check_backend("runpod", world.backend, project / ".runs", needs=needs)


class Jobs:
    """What an imagined cloud remembers: jobs that end at once, and one that waits to be stopped."""

    def __init__(self):
        self.jobs = {}
        self.submitted = 0


class Right:
    """Executes nothing: it knows the three jobs of the check and plays their ends."""

    ENDS = {"conformance-writes": (0, None), "conformance-fails": (3, "first"), "conformance-waits": (None, "only")}  # noqa: RUF012
    LOGS = {  # noqa: RUF012
        "conformance-writes": [("first", "hello"), ("second", "and more")],
        "conformance-fails": [("first", "about to fail")],
        "conformance-waits": [("only", "waiting")],
    }

    def __init__(self, cloud):
        self.cloud = cloud

    def quote(self, job):
        return Quote("an imagined cloud")

    def submit(self, job, run):
        kind = job.run_id[:-19]
        code, stage = self.ENDS[kind]
        self.cloud.jobs[run.id] = {"kind": kind, "code": code, "stage": stage, "here": True}
        records.write_json(run.receipt, {"schema": 1, "backend": "imagined", "handle": run.id})
        return Receipt("imagined", run.id, run.id)

    def job(self, receipt):
        return self.cloud.jobs[receipt.handle]

    def state(self, receipt):
        job = self.job(receipt)
        phase = "running" if job["code"] is None else "finished"
        return JobState(phase, job["stage"], job["code"])

    def records(self, receipt, run):
        pass

    def logs(self, receipt, run):
        yield from (LogLine(*line) for line in self.LOGS[self.job(receipt)["kind"]])

    def fetch(self, receipt, run):
        job = self.job(receipt)
        if job["kind"] == "conformance-writes":
            (run.path / "result.txt").write_text("done")
        if job["code"] == 143:
            (run.path / "saved.txt").write_text("saved")
        return []

    def stop(self, receipt):
        job = self.job(receipt)
        if job["code"] is None:
            job["code"] = 143

    def delete(self, receipt):
        self.job(receipt)["here"] = False

    def reconcile(self, receipt):
        return self.state(receipt)

    def owned(self):
        return [Resource(name, name, "running") for name, job in self.cloud.jobs.items() if job["here"]]


class CreatesWhenAsked(Right):
    def quote(self, job):
        self.cloud.jobs[job.run_id] = {"here": True}
        return super().quote(job)


class LeavesNoReceipt(Right):
    def submit(self, job, run):
        receipt = super().submit(job, run)
        run.receipt.unlink()
        return receipt


class RemembersInMemory(Right):
    def job(self, receipt):
        self.known = getattr(self, "known", {})
        return self.known[receipt.handle]


class CallsEveryEndASuccess(Right):
    def state(self, receipt):
        state = super().state(receipt)
        return JobState(state.phase, state.stage, 0) if state.phase == "finished" else state


class LosesLogs(Right):
    def logs(self, receipt, run):
        return iter(list(super().logs(receipt, run))[:1])


class BringsHalfAFile(Right):
    def fetch(self, receipt, run):
        (run.path / "result.txt").write_text("do")
        return []


class CannotBring(Right):
    def fetch(self, receipt, run):
        return ["result.txt: connection reset"]


class GoesOnAfterAFailure(Right):
    def fetch(self, receipt, run):
        (run.path / "result.txt").write_text("done")
        return []


class KillsInsteadOfAsking(Right):
    def stop(self, receipt):
        if self.job(receipt)["code"] is None:
            self.job(receipt)["code"] = 137


class MindsASecondDelete(Right):
    def delete(self, receipt):
        if not self.job(receipt)["here"]:
            raise LookupError("404")
        super().delete(receipt)


class KeepsTheMachine(Right):
    def delete(self, receipt):
        pass


class NeverEnds(Right):
    def state(self, receipt):
        return JobState("running", "first")


class LosesTheEnd(Right):
    def state(self, receipt):
        state = super().state(receipt)
        return JobState("lost") if state.phase == "finished" else state


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (CreatesWhenAsked, "quote.. creates something"),
        (LeavesNoReceipt, "leaves no receipt"),
        (CallsEveryEndASuccess, "a stage that exits with 3 is reported as 0"),
        (LosesLogs, "the log of stage second lacks 'and more'"),
        (BringsHalfAFile, "does not bring result.txt as the job wrote it"),
        (CannotBring, "could not bring result.txt: connection reset"),
        (GoesOnAfterAFailure, "a stage runs although the one before failed"),
        (KillsInsteadOfAsking, "ends with exit code 137, not the worker's 143"),
        (KeepsTheMachine, "still names a job that was deleted"),
        (NeverEnds, "does not end within"),
        (LosesTheEnd, "a job that ended is reported as lost"),
    ],
)
def test_a_backend_that_breaks_its_contract_is_found(check_backend, project, broken, why):
    cloud = Jobs()

    with pytest.raises(ContractBroken, match=why):
        check_backend("imagined", lambda: broken(cloud), project / ".runs", seconds=0.2)


@pytest.mark.parametrize("broken", [RemembersInMemory, MindsASecondDelete])
def test_a_backend_that_raises_is_found(check_backend, project, broken):
    cloud = Jobs()

    with pytest.raises(LookupError):
        check_backend("imagined", lambda: broken(cloud), project / ".runs", seconds=0.2)


def test_the_broken_backends_are_right_but_for_what_they_break(check_backend, project):
    cloud = Jobs()

    check_backend("imagined", lambda: Right(cloud), project / ".runs")

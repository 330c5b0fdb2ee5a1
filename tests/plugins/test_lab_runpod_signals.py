"""Signals to a controller in a process of its own: Ctrl-C once and twice, and a kill at moments that cost money."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from simulated_rental import ONE_PLACE, World, python_stage, ready_environment, wait_for
from simulator import Scenario, Simulator

from lab.contracts import Receipt
from lab.rental.facts import State

FACTOR = 30
CONTROLLER = Path(__file__).parents[1] / "rented_controller.py"


@pytest.fixture(scope="session")
def furnish(tmp_path_factory):
    return ready_environment(tmp_path_factory.mktemp("image") / "venv")


@pytest.fixture
def world(furnish, project, request):
    with Simulator(factor=FACTOR) as cloud:
        cloud.cloud.furnish = furnish
        cloud.cloud.usual = Scenario(provisioning=2, starting=2, route=2)
        cloud.cloud.grace = 1.0
        world = World(cloud, project, request.node)
        yield world
        world.close()


class Controller:
    """`lab run` in a process of its own."""

    def __init__(self, world, run, **options):
        settings = {
            "api_url": world.cloud.api_url,
            "proxy_url": world.cloud.proxy_url,
            "api_key": world.cloud.account_key,
        }
        order = {
            "settings": settings,
            "options": {"data_centers": ONE_PLACE, **options},
            "factor": FACTOR,
            "store": str(world.project / ".lab"),
            "run": str(run.path),
        }
        self.order = world.project.parent / "order.json"
        self.order.write_text(json.dumps(order))
        self.process = subprocess.Popen(
            [sys.executable, str(CONTROLLER), str(self.order)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        """Its exit code, and everything that it said."""
        out, err = self.process.communicate(timeout=60)
        self.order.unlink()  # it holds the key
        return self.process.returncode, out + err


def asked(world, method, path, where="api"):
    """Whether such a request has arrived."""
    return lambda: any(
        path in e.path and e.method == method and e.where == where for e in list(world.cloud.trace.exchanges)
    )


def waiting_job(world):
    return world.job(python_stage('while not (run / "go").exists(): time.sleep(0.02)'), grace_seconds=1.0)


CREATING = ("POST", "/v2/pods", "api")
SENDING = ("PUT", "/v1/upload", "proxy")
STARTING = ("POST", "/v1/job", "proxy")
FETCHING = ("POST", "/v1/manifest", "proxy")
DELETING = ("DELETE", "/v2/pods", "api")


@pytest.mark.fault(71, "deleted")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupt_while_the_creation_is_asked_for_waits_for_the_id_and_deletes_the_pod(world, number):
    world.cloud.arm("delay", method="POST", path="/v2/pods$", seconds=30, applied=True)
    run, _ = waiting_job(world)
    world.backend()
    controller = Controller(world, run)

    wait_for(asked(world, *CREATING))
    controller.send(number)
    code, said = controller.end()

    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert "in order" in said
    assert (len(world.cloud.pods), world.cloud.alive) == (1, [])
    assert str(world.facts(run).state) in ("deleted", "no machine")


@pytest.mark.fault(71, "deleted")
def test_an_interrupt_while_the_machine_boots_leaves_nothing_behind(world):
    world.cloud.cloud.queue.append(Scenario(stuck="STARTING"))
    run, _ = waiting_job(world)
    world.backend()
    controller = Controller(world, run)

    wait_for(lambda: len(world.cloud.trace.requests("GET", "/v1/hello", "proxy")) > 1)
    controller.send(signal.SIGINT)
    code, _said = controller.end()

    assert code == 130
    assert world.cloud.alive == []


@pytest.mark.fault(71, "deleted")
def test_a_second_interrupt_leaves_at_once_and_says_what_still_lives_and_how_to_end_it(world):
    world.cloud.arm("delay", method="DELETE", seconds=600, times=None)
    world.cloud.cloud.queue.append(Scenario(stuck="STARTING"))
    run, _ = waiting_job(world)
    later = world.backend()
    controller = Controller(world, run)
    wait_for(lambda: len(world.cloud.trace.requests("GET", "/v1/hello", "proxy")) > 1)

    controller.send(signal.SIGINT)
    wait_for(asked(world, *DELETING))
    began = time.monotonic()
    controller.send(signal.SIGINT)
    code, said = controller.end()

    assert (code, time.monotonic() - began < 5) == (130, True)
    assert world.cloud.pods[0].id in said
    assert "lab rentals" in said
    world.cloud.faults.disarm()
    later.terminate(Receipt("runpod", run.id, ""))
    assert world.cloud.alive == []


@pytest.mark.fault(66, "deleted, stopped or no machine")
@pytest.mark.parametrize(
    ("moment", "finished"),
    [
        pytest.param(CREATING, False, id="while creating"),
        pytest.param(SENDING, False, id="while sending", marks=pytest.mark.long),
        pytest.param(STARTING, False, id="while starting the job", marks=pytest.mark.long),
        pytest.param(FETCHING, True, id="while collecting"),
        pytest.param(DELETING, True, id="while deleting", marks=pytest.mark.long),
    ],
)
def test_after_a_kill_at_any_moment_the_next_command_leaves_nothing_dangling(world, moment, finished):
    method, path, where = moment
    world.cloud.arm("delay", where=where, method=method, path=path, seconds=20, applied=where == "api")
    run, _ = world.job() if finished else waiting_job(world)
    later = world.backend()
    controller = Controller(world, run)

    wait_for(asked(world, *moment))
    controller.send(signal.SIGKILL)
    controller.end()
    wait_for(lambda: world.cloud.pods != [])
    later.owned()
    state = later.facts(run.id).state
    if state is State.RUNNING:
        receipt = Receipt("runpod", run.id, "")
        (world.disk(run) / "go").touch()
        world.follow(later, receipt, run)
    if state in (State.RUNNING, State.FINISHED):
        assert later.fetch(Receipt("runpod", run.id, ""), run) == ()

    assert len(world.cloud.pods) == 1
    assert world.cloud.alive == [] or later.facts(run.id).state in (State.STOPPED, State.ATTENTION)
    if world.cloud.alive:
        later.terminate(Receipt("runpod", run.id, ""))


def test_the_key_is_in_no_argument_list_and_no_environment_of_a_process_of_the_pod(world):
    run, job = waiting_job(world)
    backend = world.backend()
    receipt = backend.submit(job, run)
    token = (world.project / ".lab" / "rentals" / run.id / "token").read_text()
    pod = world.cloud.pods[0]

    def processes():
        found = psutil.Process(pod.container._process.pid).children(recursive=True)
        read = psutil.process_iter(["pid", "cmdline", "environ"])
        return [str(process.info) for process in read if process in found]

    wait_for(lambda: any("time.sleep(0.02)" in text for text in processes()))
    seen = processes()

    assert len(seen) >= 3
    for secret in (world.cloud.account_key, token, pod.key):
        assert not any(secret in text for text in seen)
    backend.terminate(receipt)

"""A whole rental of a simulated RunPod: the real client, lifecycle and agent, with real processes and disks."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import threading

import httpx
import pytest
from simulated_rental import A4000, RESULT, TRAIN, World, python_stage, ready_environment, wait_for
from simulator import Scenario, Simulator

from lab.contracts import Receipt
from lab.errors import LabError
from lab.jobs import PYTHON, RUN, Stage
from lab.rental.facts import State
from lab.runs.records import read_json, read_lines

FACTOR = 30


@pytest.fixture(scope="session")
def furnish(tmp_path_factory):
    return ready_environment(tmp_path_factory.mktemp("image") / "venv")


@pytest.fixture
def cloud(furnish):
    with Simulator(factor=FACTOR, seed=1) as simulator:
        simulator.cloud.furnish = furnish
        simulator.cloud.usual = Scenario(provisioning=2, starting=2, route=2)
        simulator.proxy.keep_bodies = True
        simulator.cloud.grace = 1.0
        yield simulator


@pytest.fixture
def world(cloud, project, request):
    world = World(cloud, project, request.node)
    yield world
    world.close()


def logged(run, stage="train"):
    return (run.logs / f"{stage}.log").read_text(errors="replace")


# all is well


def test_a_job_goes_to_a_rented_machine_and_back_and_nothing_is_left(cloud, world):
    run, job = world.job()

    ending = world.whole(run, job)

    assert (ending.state.phase, ending.state.exit_code, ending.missing, ending.word) == ("finished", 0, (), "deleted")
    assert (run.path / "result with space.bin").read_bytes() == RESULT
    assert [line["stage"] for line in read_lines(run.stages) if line.get("event") == "ended"] == ["install", "train"]
    resource, cost = read_json(run.resource), read_json(run.cost)
    assert (resource["status"], resource["gpu"], resource["results_home"]) == ("deleted", A4000, True)
    assert 0 < cost["dollars"] < 0.05
    pod = cloud.pods[0]
    paths = [(e.method, e.path) for e in cloud.trace.exchanges if e.where == "api" and e.pod == pod.id]
    first_blob = next(e.number for e in cloud.trace.exchanges if e.path == "/v1/blob")
    deletion = next(e.number for e in cloud.trace.exchanges if e.method == "DELETE")
    assert first_blob < deletion
    assert ("DELETE", f"/v2/pods/{pod.id}") in paths


def test_values_of_variables_reach_their_stage_as_they_are_and_nothing_else(cloud, world, monkeypatch):
    value = 'a"b\\c\n$(touch PWNED)\u00e9'
    monkeypatch.setenv("ODD_VALUE", value)
    code = 'run.joinpath("seen.json").write_text(__import__("json").dumps(dict(os.environ)))'
    run, job = world.job(python_stage(code, forwarded=("ODD_VALUE",)), forwarded=("ODD_VALUE",))

    world.whole(run, job)

    seen = json.loads((run.path / "seen.json").read_text())
    assert seen["ODD_VALUE"] == value
    assert not {name for name in seen if name.startswith("RUNPOD_API") or "TOKEN" in name or "LAB_OWNER" in name}
    assert not list(cloud.folder.rglob("PWNED"))


@pytest.mark.long
def test_a_failed_job_whose_logs_are_home_is_deleted(cloud, world):
    run, job = world.job(python_stage('print("before the end", flush=True); sys.exit(3)'))

    ending = world.whole(run, job)

    assert (ending.state.exit_code, ending.word) == (3, "deleted")
    assert "before the end" in logged(run)


@pytest.mark.long
def test_records_come_home_while_the_job_runs(cloud, world):
    code = """
with open(run / "metrics.jsonl", "ab") as file:
    file.write(b'{"kind":"step","step":1}\\n'); file.flush()
    while not (run / "go").exists(): time.sleep(0.02)
"""
    run, job = world.job(python_stage(code))
    backend = world.backend()
    receipt = backend.submit(job, run)

    def home():
        backend.state(receipt)
        return run.metrics.exists()

    wait_for(home)
    assert list(read_lines(run.metrics)) == [{"kind": "step", "step": 1}]
    (world.disk(run) / "go").touch()
    world.follow(backend, receipt, run)
    assert backend.fetch(receipt, run) == ()
    backend.delete(receipt)


def test_a_network_volume_stays_and_keeps_its_caches(cloud, world):
    cloud.cloud.volumes["vol1"] = {"id": "vol1", "name": "hub", "size": 50, "dataCenter": "EU-RO-1", "type": "STANDARD"}
    code = 'pathlib.Path(os.environ["LAB_STORE"], "cached").write_text("kept")'
    run, job = world.job(python_stage(code), needs={"volume_gb": None, "network_volume": "vol1"})

    ending = world.whole(run, job)

    assert (ending.state.exit_code, ending.word) == (0, "deleted")
    assert "vol1" in cloud.cloud.volumes
    assert (cloud.folder / "network" / "vol1" / "lab" / "store" / "cached").read_text() == "kept"


# the boot and the proxy


@pytest.mark.fault(25, "deleted")
def test_a_pod_that_says_running_at_once_is_believed_only_when_its_agent_answers(cloud, world):
    cloud.cloud.queue.append(Scenario(running_at_once=True, provisioning=15, starting=15))
    run, job = world.job()

    ending = world.whole(run, job)

    ready = next(r for r in world.backends[-1].journal(run.id).records() if r["event"] == "agent ready")
    created = next(r for r in world.backends[-1].journal(run.id).records() if r["event"] == "created")
    assert ready["time"] - created["time"] > 28
    assert ending.word == "deleted"


@pytest.mark.fault(32, "no machine")
def test_a_machine_without_its_gpu_is_deleted_before_anything_is_sent(cloud, world):
    cloud.cloud.queue.append(Scenario(provisioning=1, starting=1, route=1, gpus=0))
    run, job = world.job()

    ending = world.whole(run, job)

    assert "0 GPUs" in " ".join(world.said)
    assert not [e for e in cloud.trace.exchanges if e.method == "PUT"]
    assert (ending.word, cloud.alive) == ("no machine", [])


@pytest.mark.fault(33, "deleted")
def test_the_proxys_phases_before_a_pod_answers_are_waited_out(cloud, world):
    cloud.cloud.queue.append(Scenario(provisioning=30, starting=30, route=1, silent_route=120))
    run, job = world.job()

    ending = world.whole(run, job)

    statuses = [e.status for e in cloud.trace.exchanges if e.path == "/v1/hello"]
    assert list(dict.fromkeys(statuses)) == [404, 502, 200]
    assert ending.word == "deleted"


@pytest.mark.fault(34, "deleted")
@pytest.mark.fault(43, "deleted")
def test_neither_a_foreign_page_nor_a_foreign_agent_is_taken_for_ours(cloud, world):
    hello = {"method": "GET", "path": "/v1/hello"}
    page = cloud.arm("answer", where="proxy", **hello, status=200, body="<html>Welcome to nginx!</html>", times=2)
    body = json.dumps({"service": "lab-agent", "nonce": "another", "boot_id": "b", "gpus": ["x"], "uptime_seconds": 1,
                       "disk_free_bytes": 1, "boots": 1, "job": None})  # fmt: skip
    digest = hashlib.sha256(body.encode()).hexdigest()
    headers = {"Content-Type": "application/json", "X-Body-SHA256": digest}
    other = cloud.arm("answer", where="proxy", **hello, status=200, body=body, headers=headers, times=2)
    run, job = world.job()

    ending = world.whole(run, job)

    assert (page.fired, other.fired) == (2, 2)
    assert ending.word == "deleted"


@pytest.mark.fault(35, "deleted")
@pytest.mark.fault(36, "deleted")
@pytest.mark.fault(37, "deleted")
@pytest.mark.fault(38, "deleted")
@pytest.mark.fault(39, "deleted")
@pytest.mark.fault(44, "deleted")
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"effect": "answer", "status": 502}, id="502", marks=pytest.mark.long),
        pytest.param({"effect": "answer", "status": 524, "applied": True}, id="524 although done"),
        pytest.param({"effect": "reset"}, id="reset", marks=pytest.mark.long),
        pytest.param({"effect": "cut", "offset": 40}, id="cut"),
        pytest.param({"effect": "truncate", "offset": 40}, id="truncated", marks=pytest.mark.long),
        pytest.param({"effect": "flip", "offset": 30}, id="flipped"),
        pytest.param({"effect": "gzip"}, id="gzip", marks=pytest.mark.long),
    ],
)
def test_a_proxy_that_spoils_every_fifth_answer_changes_nothing_about_the_results(cloud, world, fault):
    armed = cloud.arm(where="proxy", path="/v1/", rate=0.2, times=None, **fault)
    run, job = world.job()

    ending = world.whole(run, job)

    assert armed.fired > 0
    assert (ending.state.exit_code, ending.word) == (0, "deleted")
    assert (run.path / "result with space.bin").read_bytes() == RESULT
    assert len([line for line in read_lines(run.stages) if line.get("event") == "started"]) == 2


@pytest.mark.fault(37, "deleted")
@pytest.mark.fault(39, "deleted")
@pytest.mark.fault(46, "deleted")
@pytest.mark.parametrize("effect", ["cut", pytest.param("flip", marks=pytest.mark.long)])
def test_a_chunk_that_is_spoilt_on_its_way_up_is_sent_again(cloud, world, effect):
    fault = cloud.arm(effect, where="proxy", method="PUT", direction="request", offset=2000, times=2)
    run, job = world.job()

    ending = world.whole(run, job)

    assert fault.fired == 2
    assert (ending.state.exit_code, ending.word) == (0, "deleted")


@pytest.mark.fault(40, "deleted")
@pytest.mark.fault(41, "deleted")
def test_an_edge_that_drops_range_and_refuses_large_bodies_changes_nothing(cloud, world):
    cloud.proxy.drops_range = True
    cloud.proxy.max_body = 16 * 1024 * 1024
    run, job = world.job(python_stage('(run / "archive.tar.gz").write_bytes(os.urandom(20 << 20))'))

    ending = world.whole(run, job)

    assert ending.word == "deleted"
    assert (run.path / "archive.tar.gz").stat().st_size == 20 << 20
    assert 413 not in {e.status for e in cloud.trace.exchanges}


@pytest.mark.long
@pytest.mark.fault(45, "deleted")
def test_a_trickle_of_an_answer_is_only_slow(cloud, world):
    fault = cloud.arm("slow", where="proxy", path="/v1/blob", bytes_per_second=10_000, times=2)
    run, job = world.job()

    ending = world.whole(run, job)

    assert fault.fired == 2
    assert ending.word == "deleted"
    assert (run.path / "result with space.bin").read_bytes() == RESULT


@pytest.mark.fault(47, "deleted")
def test_a_job_whose_start_was_not_answered_is_not_started_twice(cloud, world):
    start = cloud.arm("answer", where="proxy", method="POST", path="/v1/job$", status=502, applied=True, times=2)
    run, job = world.job(python_stage('open(run / "starts", "a").write("x")'))

    ending = world.whole(run, job)

    assert start.fired == 2
    assert (run.path / "starts").read_text() == "x"
    assert ending.word == "deleted"


# the job


@pytest.mark.fault(51, "deleted")
@pytest.mark.parametrize(
    ("code", "exit_code", "words"),
    [
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", 137, "SIGKILL", id="killed"),
        pytest.param("os.kill(os.getpid(), signal.SIGSEGV)", 139, "SIGSEGV", id="crashed", marks=pytest.mark.long),
        pytest.param(
            "subprocess.Popen(['sleep', '1000'], start_new_session=True); sys.exit(1)",
            1,
            "",
            id="left a child",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_job_that_dies_is_a_reported_fact_and_its_logs_are_home(cloud, world, code, exit_code, words):
    run, job = world.job(python_stage(f'print("so far", flush=True); {code}'))

    ending = world.whole(run, job)

    ended = [line for line in read_lines(run.stages) if line.get("event") == "ended"][-1]
    assert (ending.state.exit_code, ending.word) == (exit_code, "deleted")
    assert words in json.dumps(ended)
    assert "so far" in logged(run)


@pytest.mark.fault(51, "deleted")
def test_a_stage_that_hangs_without_a_word_is_ended_at_its_own_deadline(cloud, world):
    run, job = world.job(python_stage("time.sleep(1000)", seconds=1.0), grace_seconds=0.5)

    ending = world.whole(run, job)

    assert ending.word == "deleted"
    assert ending.state.exit_code not in (0, None)


@pytest.mark.fault(49, "deleted")
def test_a_disk_that_is_full_when_a_checkpoint_is_written_leaves_the_earlier_one(cloud, world):
    code = """
(run / "checkpoint.pt").write_bytes(b"whole" * 1000)
with open("/dev/full", "wb") as disk:
    disk.write(b"x" * 100000)
"""
    run, job = world.job(python_stage(code))

    ending = world.whole(run, job)

    assert (ending.state.exit_code, ending.word) == (1, "deleted")
    assert "No space left on device" in logged(run)
    assert (run.path / "checkpoint.pt").read_bytes() == b"whole" * 1000


@pytest.mark.fault(49, "deleted")
def test_a_disk_that_does_not_take_the_bundle_is_given_back_at_once(cloud, world):
    cloud.cloud.largest_file = 100_000
    run, job = world.job(extra=os.urandom(300_000))

    ending = world.whole(run, job)

    assert "the machine refused the bundle" in " ".join(world.said)
    assert (ending.word, cloud.alive) == ("deleted", [])


@pytest.mark.fault(50, "deleted")
def test_a_package_that_cannot_be_installed_is_a_failed_stage_and_costs_little(cloud, world):
    run, job = world.job(TRAIN, needs={"packages": ("no-such-package-of-lab==9.9.9",)})
    job.environment.update(PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0")

    ending = world.whole(run, job)

    assert ending.state.exit_code not in (0, None)
    assert "no-such-package-of-lab" in logged(run, "install")
    assert ending.word == "deleted"


@pytest.mark.fault(54, "deleted")
def test_odd_names_come_home_and_whatever_is_no_plain_file_stays_behind_by_name(cloud, world, tmp_path):
    secret = tmp_path / "outside"
    secret.write_text("never")
    code = f"""
for name in ["a b.txt", "file(01).txt", "x;touch PWNED", "$(id).log", "\\u00fcn\\u00ef.txt", "deep/er/x"]:
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_text(name)
for number in range(300):
    (run / "many").mkdir(exist_ok=True)
    (run / "many" / str(number)).write_text("")
os.symlink({str(secret)!r}, run / "escape.txt")
os.symlink("..", run / "up")
os.symlink(".", run / "loop")
os.symlink("step-9", run / "latest")
os.mkfifo(run / "pipe")
"""
    run, job = world.job(python_stage(code))

    ending = world.whole(run, job)

    assert (ending.word, ending.missing) == ("deleted", ())
    for name in ["a b.txt", "file(01).txt", "x;touch PWNED", "$(id).log", "\u00fcn\u00ef.txt", "deep/er/x"]:
        assert (run.path / name).read_text() == name
    assert len(list((run.path / "many").iterdir())) == 300
    for name in ["escape.txt", "up", "loop", "latest", "pipe"]:
        assert any(line.startswith(f"left behind: {name}:") for line in world.said)
    assert not [path for path in run.path.rglob("*") if path.is_symlink()]


@pytest.mark.fault(56, "deleted")
def test_only_the_holder_of_the_token_learns_anything_from_the_machine(cloud, world):
    run, job = world.job(python_stage('while not (run / "go").exists(): time.sleep(0.02)'))
    backend = world.backend()
    receipt = backend.submit(job, run)
    url = backend.provider.agent_url(cloud.pods[0].id, 8765)

    answers = [
        httpx.get(f"{url}/v1/hello", headers=headers, trust_env=False)
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"})
    ]

    assert {answer.status_code for answer in answers} == {401}
    assert not any(word in answer.text for answer in answers for word in ("nonce", "boot", "gpu"))
    backend.terminate(receipt)


# the container and its disk


def running(world, code='while not (run / "go").exists(): time.sleep(0.02)', **options):
    """A rental whose job runs and waits for a file."""
    run, job = world.job(python_stage(code))
    backend = world.backend(**options)
    receipt = backend.submit(job, run)
    return run, backend, receipt


def kill_container(cloud):
    """End the main process, as the out-of-memory killer would; the cloud starts the container again."""
    pod = cloud.pods[0]
    boots = pod.boots
    children = __import__("psutil").Process(pod.container._process.pid).children()
    for child in children:
        child.kill()
    wait_for(lambda: pod.boots > boots)


@pytest.mark.fault(48, "deleted")
def test_a_job_that_a_restart_of_the_container_interrupted_is_reported_and_not_run_again(cloud, world):
    code = 'open(run / "starts", "a").write("x"); (run / "half").write_text("1"); time.sleep(1000)'
    run, backend, receipt = running(world, code)
    home = world.disk(run)
    wait_for(lambda: (home / "half").exists())

    kill_container(cloud)
    state = world.follow(backend, receipt, run)

    assert state.phase in ("finished", "lost")
    assert backend.fetch(receipt, run) == ()
    assert (run.path / "starts").read_text() == "x"
    assert (run.path / "half").read_text() == "1"
    backend.delete(receipt)
    assert cloud.alive == []


@pytest.mark.long
@pytest.mark.fault(48, "deleted")
def test_results_survive_a_restart_after_the_job_ended(cloud, world):
    run, job = world.job()
    backend = world.backend()
    receipt = backend.submit(job, run)
    world.follow(backend, receipt, run)

    kill_container(cloud)

    assert backend.fetch(receipt, run) == ()
    assert (run.path / "result with space.bin").read_bytes() == RESULT
    backend.delete(receipt)


@pytest.mark.fault(52, "stopped")
@pytest.mark.fault(53, "stopped")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda path: path.write_bytes(b"x" * len(RESULT)), id="changes"),
        pytest.param(lambda path: path.unlink(), id="vanishes", marks=pytest.mark.long),
    ],
)
def test_a_result_that_is_not_what_was_listed_keeps_the_machine_and_is_named(cloud, world, change):
    run, job = world.job()
    backend = world.backend()
    receipt = backend.submit(job, run)
    world.follow(backend, receipt, run)
    home = world.disk(run)
    cloud.arm("delay", where="proxy", path="/v1/blob", seconds=30, times=None)

    def meddle():
        wait_for(lambda: any("result" in e.query for e in cloud.trace.exchanges))
        change(home / "result with space.bin")

    thread = threading.Thread(target=meddle)
    thread.start()
    missing = backend.fetch(receipt, run)
    thread.join()

    assert any("result with space.bin" in line for line in missing)
    assert not (run.path / "result with space.bin").exists()
    assert (str(backend.facts(run.id).state), cloud.pods[0].status) == ("stopped", "EXITED")
    backend.terminate(receipt)


@pytest.mark.fault(39, "stopped")
def test_a_result_that_arrives_wrong_every_time_is_named_and_its_machine_is_kept(cloud, world):
    fault = cloud.arm("flip", where="proxy", path="/v1/blob", offset=100, times=None)
    run, job = world.job()
    backend = world.backend()
    receipt = backend.submit(job, run)
    world.follow(backend, receipt, run)

    missing = backend.fetch(receipt, run)

    assert fault.fired >= 3
    assert any("result with space.bin" in line and "sha256" in line for line in missing)
    assert (str(backend.facts(run.id).state), cloud.pods[0].status) == ("stopped", "EXITED")
    assert not (run.path / "result with space.bin").exists()
    with pytest.raises(LabError, match="only on machine"):
        backend.delete(receipt)
    cloud.faults.disarm()
    assert backend.collect(receipt) == ()
    assert (run.path / "result with space.bin").read_bytes() == RESULT
    assert cloud.alive == []


# stopping and starting


@pytest.mark.fault(57, "stopped")
@pytest.mark.fault(58, "stopped")
@pytest.mark.fault(59, "stopped")
@pytest.mark.parametrize(
    "way",
    [
        pytest.param("500 but done", marks=pytest.mark.long),
        "200 but runs on",
        pytest.param("409", marks=pytest.mark.long),
    ],
)
def test_a_stop_is_believed_only_when_the_cloud_shows_it(cloud, world, way):
    run, backend, receipt = running(world)
    action = {"method": "POST", "path": "/action$"}
    if way == "500 but done":
        cloud.arm("answer", **action, status=500, applied=True)
    elif way == "409":
        cloud.arm("answer", **action, status=409)
    else:
        cloud.pods[0].scenario.stops_ignored = 1

    backend.halt(receipt)

    assert (str(backend.facts(run.id).state), cloud.pods[0].status) == ("stopped", "EXITED")
    assert "a day" in " ".join(world.said)
    backend.terminate(receipt)
    assert cloud.alive == []


@pytest.mark.fault(42, "deleted")
def test_a_stopped_machine_is_started_again_for_its_results_and_the_old_boot_is_not_believed(cloud, world):
    cloud.cloud.usual = Scenario(provisioning=2, starting=2, route=2, stale_route=20)
    run, backend, receipt = running(world, '(run / "half").write_text("1"); time.sleep(1000)')
    home = world.disk(run)
    wait_for(lambda: (home / "half").exists())
    backend.halt(receipt)

    missing = backend.collect(receipt)

    assert missing == ()
    assert (run.path / "half").read_text() == "1"
    assert cloud.alive == []
    assert [e for e in cloud.trace.exchanges if e.fault == "stale route"]


@pytest.mark.fault(60, "stopped")
def test_a_host_that_gave_its_gpus_away_leaves_the_machine_stopped_and_says_so(cloud, world):
    run, backend, receipt = running(world)
    backend.halt(receipt)
    cloud.pods[0].host.free = 0

    with pytest.raises(LabError, match=r"[Ff]ailed to resume pod"):
        backend.start(receipt)

    assert (str(backend.facts(run.id).state), cloud.pods[0].status) == ("stopped", "EXITED")
    backend.terminate(receipt)


@pytest.mark.long
@pytest.mark.fault(32, "deleted")
def test_a_machine_that_comes_back_without_a_gpu_still_gives_its_results(cloud, world):
    run, backend, receipt = running(world, '(run / "half").write_text("1"); time.sleep(1000)')
    home = world.disk(run)
    wait_for(lambda: (home / "half").exists())
    backend.halt(receipt)
    cloud.pods[0].scenario.gpus_on_start = 0

    missing = backend.collect(receipt)

    assert missing == ()
    assert (run.path / "half").read_text() == "1"
    assert cloud.alive == []


@pytest.mark.fault(65, "stopped")
def test_a_machine_that_nobody_speaks_to_stops_itself_by_whatever_way_it_may(cloud, world):
    cloud.cloud.pod_keys = "allowed"
    _, backend, receipt = running(world, running_lease_minutes=0.02)

    wait_for(lambda: cloud.pods[0].status == "EXITED")

    assert backend.state(receipt) is not None
    assert cloud.pods[0].status == "EXITED"
    backend.terminate(receipt)
    assert cloud.alive == []


@pytest.mark.long
@pytest.mark.fault(65, "deleted")
def test_a_machine_that_may_not_stop_itself_asks_in_vain_and_is_deleted_by_the_next_command(cloud, world):
    cloud.cloud.pod_keys = "forbidden"
    _, backend, receipt = running(world, running_lease_minutes=0.02)

    def asked():
        return [e for e in cloud.trace.exchanges if e.where == "api" and e.path.endswith("/action")]

    wait_for(asked)

    assert {exchange.status for exchange in asked()} == {403}
    assert cloud.pods[0].alive
    backend.terminate(receipt)
    assert cloud.alive == []


# the connection, the money, two controllers


@pytest.mark.fault(70, "deleted")
def test_a_lost_connection_of_whatever_length_ends_no_run(cloud, world):
    run, backend, receipt = running(world)
    proxy = cloud.arm("reset", where="proxy", times=None)
    api = cloud.arm("reset", times=None)
    home = world.disk(run)

    def cut_off():
        assert backend.state(receipt).phase == "running"
        return proxy.fired > 5 and api.fired > 5

    wait_for(cut_off)
    (home / "go").touch()
    cloud.faults.disarm()

    assert world.follow(backend, receipt, run).exit_code == 0
    assert backend.fetch(receipt, run) == ()
    backend.delete(receipt)
    assert len(cloud.pods) == 1


@pytest.mark.fault(72, "lost")
def test_an_empty_account_takes_the_machine_and_what_was_not_home_is_called_lost(cloud, world):
    run, backend, receipt = running(world)
    cloud.cloud.balance = 0.0
    wait_for(lambda: not cloud.alive)

    state = world.follow(backend, receipt, run)

    assert state.phase == "lost"
    assert backend.facts(run.id).state is State.LOST


@pytest.mark.fault(31, "lost")
def test_a_machine_that_somebody_deletes_while_it_works_is_lost_and_never_made_again(cloud, world):
    run, backend, receipt = running(world)
    cloud.do(lambda: cloud.cloud.life.terminate(cloud.pods[0]))

    state = world.follow(backend, receipt, run)

    assert state.phase == "lost"
    assert len(cloud.pods) == 1


@pytest.mark.long
def test_the_cost_ceiling_ends_a_job_that_would_never_end(furnish, project):
    with Simulator(factor=1) as cloud:
        cloud.cloud.furnish = furnish
        cloud.cloud.usual = Scenario(provisioning=0, starting=0, route=0, cost=120.0)
        world = World(cloud, project)
        run, job = world.job(python_stage("time.sleep(1000)"), max_dollars=1.0, grace_seconds=1.0)
        backend = world.backend(max_price=130.0)
        receipt = backend.submit(job, run)

        world.follow(backend, receipt, run, seconds=120)

        assert cloud.pods[0].status in ("EXITED", "TERMINATED")  # the machine's own limit or the controller's
        assert cloud.cloud.spent() <= 1.0
        backend.terminate(receipt)
        world.close()


@pytest.mark.fault(68, "deleted")
def test_two_commands_on_one_rental_take_turns(cloud, world):
    run, backend, receipt = running(world)
    other = world.backend()

    with backend.journal(run.id).lock():
        held = other.state(receipt)

    assert (held.phase, "works on it" in held.reason) == ("running", True)
    assert other.state(receipt).phase == "running"
    backend.terminate(receipt)


def test_another_process_finds_the_rental_and_ends_it(cloud, world):
    run, _, _ = running(world)
    later = world.backend()

    later.terminate(Receipt("runpod", run.id, ""))

    assert (str(later.facts(run.id).state), cloud.alive) == ("deleted", [])


@pytest.mark.long
def test_nothing_of_a_finished_rental_is_left_in_processes_or_folders(cloud, world):
    run, job = world.job()
    world.whole(run, job)

    def ours():
        marks = [str(cloud.folder)]
        for process in __import__("psutil").process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or [])
            if any(mark in line for mark in marks):
                yield line

    assert list(ours()) == []
    assert [path.name for path in run.path.rglob("*.part")] == []
    assert gzip.decompress(run.bundle.read_bytes())
    assert Stage("x", (PYTHON, RUN)).argv
    assert os.path.exists(run.resource)

"""The simulated cloud keeps its promises: it judges requests as the specification does and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from simulator import Scenario, Simulator

REPOSITORY = Path(__file__).parents[2]
GPU = {"id": "NVIDIA RTX A4000", "count": 1}
SERVE = """
import http.server, json, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"boot": os.getpid(), "kept": os.path.exists(os.environ["DISK"] + "/mark")}).encode()
        open(os.environ["DISK"] + "/mark", "w").close()
        open("scratch", "a").close()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): print(*words, flush=True)
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


@pytest.fixture
def cloud():
    with Simulator(factor=60) as simulator:
        simulator.cloud.usual = Scenario(provisioning=1, starting=1, route=1, restart=3)
        yield simulator
    assert simulator.trace.violations == []


@pytest.fixture
def api(cloud):
    headers = {"Authorization": f"Bearer {cloud.account_key}", "User-Agent": "a test"}
    with httpx.Client(base_url=cloud.api_url, headers=headers, trust_env=False) as client:
        yield client


def body(*argv, **changes):
    command = json.dumps({"entrypoint": list(argv[:1]), "cmd": list(argv[1:])}) if argv else ""
    mounts = {"persistent": {"size": 10, "path": "/workspace"}}
    asked = {"name": "one", "image": "an/image", "gpu": GPU, "args": command, "mounts": mounts, "ports": ["8000/http"]}
    return {**asked, "env": {"PORT": "8000", "DISK": "/workspace/deep/er"[:10]}, **changes}


def serving(cloud, api):
    """A Pod that serves, and its first answer through the proxy."""
    pod = api.post("/pods", json=body("python3", "-c", SERVE)).json()
    return pod["id"], answer(cloud, pod["id"])


def answer(cloud, pod, not_boot=None):
    """The first answer of the Pod itself, or of another boot of it."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        got = httpx.get(cloud.proxy_url.format(pod_id=pod, port=8000) + "/", trust_env=False)
        if got.status_code == 200 and got.json()["boot"] != not_boot:
            return got.json()
        time.sleep(0.01)
    raise AssertionError(got.status_code)


def test_each_wrong_request_is_refused_as_the_specification_says(cloud, api):
    unknown = api.post("/pods", json=body(supportPublicIp=True))
    both = api.post(
        "/pods", json=body(mounts={"persistent": {"size": 10, "path": "/a"}, "network": []}, cpu={"id": "x"})
    )
    small = api.post("/pods", json=body(mounts={"persistent": {"size": 5, "path": "/a"}}))
    method = api.put("/pods", json={})

    assert (unknown.status_code, "supportPublicIp" in unknown.text) == (422, True)
    assert both.status_code in (400, 422)
    assert small.status_code == 422
    assert (method.status_code, method.headers["Allow"]) == (405, "GET, POST")
    assert all(r.headers["Content-Type"] == "application/problem+json" for r in (unknown, both, small, method))
    assert all(r.headers["x-request-id"] for r in (unknown, both, small, method))


def test_unknown_query_parameters_are_ignored_and_a_large_body_is_not(cloud, api):
    assert api.get("/pods", params={"name": "no such filter"}).status_code == 200
    assert api.post("/pods", json=body(env={"X": "x" * 110_000})).status_code == 413


def test_windows_fill_and_say_so(cloud, api):
    cloud.limits.quota = {"minute": 2, "hour": 100, "day": 1000}

    statuses = [api.get("/pods").status_code for _ in range(3)]
    cloud.clock.skip(61)

    assert statuses == [200, 200, 429]
    assert api.get("/pods").headers["RateLimit"].startswith('"minute";r=1')


def test_a_pod_is_a_real_process_with_a_disk_that_stays_and_one_that_does_not(cloud, api):
    pod, first = serving(cloud, api)
    scratch = cloud.pods[0].folder / "container" / "scratch"
    assert (first["kept"], scratch.exists()) == (False, True)

    api.post(f"/pods/{pod}/action", json={"action": "restart"})
    second = answer(cloud, pod, not_boot=first["boot"])

    assert second["kept"]
    assert not psutil.pid_exists(first["boot"])
    assert api.delete(f"/pods/{pod}").status_code == 204
    assert not psutil.pid_exists(second["boot"])


def test_a_main_process_that_ends_is_started_again(cloud, api):
    pod, first = serving(cloud, api)

    os.kill(first["boot"], signal.SIGKILL)

    assert answer(cloud, pod, not_boot=first["boot"])["kept"]
    assert cloud.pods[0].boots == 2


def test_logs_are_a_stream_that_can_be_taken_up_again(cloud, api):
    pod, _ = serving(cloud, api)

    with api.stream("GET", f"/pods/{pod}/logs", params={"source": "system"}) as stream:
        lines = stream.iter_lines()
        identity = next(line for line in lines if line.startswith("id: ")).removeprefix("id: ")
        first = next(line for line in lines if line.startswith("data: "))
    with api.stream("GET", f"/pods/{pod}/logs", headers={"Last-Event-ID": identity}) as stream:
        second = next(line for line in stream.iter_lines() if line.startswith("data: "))

    assert "create pod" in first
    assert "pulling image" in second


def test_a_stopped_pod_keeps_its_host_and_may_find_its_gpu_gone(cloud, api):
    pod, _ = serving(cloud, api)
    host = cloud.pods[0].host
    api.post(f"/pods/{pod}/action", json={"action": "stop"})
    host.free = 0

    refused = api.post(f"/pods/{pod}/action", json={"action": "start"})

    assert (refused.status_code, "Failed to resume pod" in refused.text) == (400, True)


def test_the_bill_counts_hours_and_a_stopped_disk_costs_less(cloud, api):
    pod = api.post("/pods", json=body("sleep", "1000")).json()
    cloud.clock.skip(3600)
    running = cloud.cloud.spent()
    api.post(f"/pods/{pod['id']}/action", json={"action": "stop"})
    cloud.clock.skip(3600)

    billed = api.get("/billing/pods", params={"podId": pod["id"], "bucketSize": "hour"}).json()

    assert running == pytest.approx(0.25, abs=0.01)
    assert cloud.cloud.spent() - running < 0.01
    assert billed["metadata"]["totals"]["totalAmount"] == pytest.approx(cloud.cloud.spent(), abs=0.001)


def test_the_control_interface_arms_faults_and_tells_what_happened(cloud, api):
    control = httpx.Client(base_url=f"{cloud.url}/control", trust_env=False)
    with control:
        control.post("/faults", json={"effect": "answer", "method": "GET", "path": "/v2/pods$", "status": 503})
        statuses = [api.get("/pods").status_code for _ in range(2)]
        trace, bill = control.get("/trace").json(), control.get("/bill").json()

    assert statuses == [503, 200]
    assert [e["status"] for e in trace["exchanges"]] == [503, 200]
    assert bill["spent"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_simulator_ends_every_process_of_its_pods(number, tmp_path):
    command = [sys.executable, "-m", "tests.simulator", "--boot", "0.3", "--folder", str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        cloud = json.loads(process.stdout.readline())
        headers = {"Authorization": f"Bearer {cloud['key']}", "User-Agent": "a test"}
        escaping = "import os, time; os.fork() or os.setsid(); time.sleep(1000)"
        created = httpx.post(
            f"{cloud['api_url']}/pods", json=body("python3", "-c", escaping), headers=headers, trust_env=False
        )
        assert created.status_code == 201
        wait_for(lambda: len(of(tmp_path)) >= 2)
        inside = of(tmp_path)

        process.send_signal(number)
        process.wait(10)

    wait_for(lambda: not [one for one in inside if one.is_running() and one.status() != psutil.STATUS_ZOMBIE])


def of(folder):
    """The processes of containers below a folder."""
    found = psutil.process_iter(["cwd"])
    return [process for process in found if (process.info["cwd"] or "").startswith(str(folder))]


def wait_for(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)

"""Two gigabytes of results through a proxy that breaks every twentieth answer: whole, quick, in little memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import psutil
import pytest
from simulated_rental import World, python_stage

from lab.rental.agent_client import connect
from lab.rental.agent_contract import CHUNK_BYTES, PORT

SIZE = 2 << 30
MEBIBYTE = 1 << 20
MAKE = f"""
import hashlib
block = os.urandom({MEBIBYTE})
digest = hashlib.sha256()
with open(run / "large.bin", "wb") as file:
    for number in range({SIZE // MEBIBYTE}):
        piece = number.to_bytes(8, "big") + block[8:]
        digest.update(piece); file.write(piece)
(run / "sha256").write_text(digest.hexdigest())
"""


class RemoteCloud:
    """A simulator in a process of its own, so that it shares no interpreter with the controller."""

    factor = 5

    def __init__(self):
        command = [sys.executable, "-m", "tests.simulator", "--factor", str(self.factor), "--boot", "3", "--seed", "3"]
        self.process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
        addresses = json.loads(self.process.stdout.readline())
        self.api_url, self.proxy_url, self.account_key = (addresses[k] for k in ("api_url", "proxy_url", "key"))
        self.url = addresses["control_url"].removesuffix("/control")
        self.clock = SimpleNamespace(factor=self.factor)
        self.control = httpx.Client(base_url=addresses["control_url"], trust_env=False, timeout=60)

    def pods(self):
        return self.control.get("/pods").json()["pods"]

    def blobs(self):
        return [e for e in self.control.get("/trace").json()["exchanges"] if e["path"] == "/v1/blob"]

    def close(self):
        self.control.close()
        self.process.terminate()
        self.process.communicate()


@pytest.fixture
def world(project):
    cloud = RemoteCloud()
    world = World(cloud, project)
    yield world
    for backend in world.backends:
        backend.close()
        backend.provider.client.close()
    alive = [pod for pod in cloud.pods() if pod["alive"]]
    cloud.close()
    assert alive == []


class Peak:
    """The most memory that a process has used while this was entered."""

    def __init__(self, pid):
        self.process, self.bytes, self._end = psutil.Process(pid), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self):
        with contextlib.suppress(psutil.NoSuchProcess):  # the agent ends with its machine
            while not self._end.wait(0.02):
                self.bytes = max(self.bytes, self.process.memory_info().rss)

    def __enter__(self):
        self.before = self.process.memory_info().rss
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


def curl_seconds(world, backend, run, tmp_path):
    """How long curl takes for the same bytes from the same machine over the same proxy, without a fault."""
    token = (world.project / ".lab" / "rentals" / run.id / "token").read_text()
    url = backend.provider.agent_url(world.cloud.pods()[0]["id"], PORT)
    with contextlib.closing(connect(url, token)) as agent:
        while agent.manifest(("**",), False) is None:  # only what is listed is sent
            time.sleep(0.1)
    orders = [f'header = "Authorization: Bearer {token}"', 'noproxy = "*"', "silent", "fail"]
    for offset in range(0, SIZE, CHUNK_BYTES):
        orders.append(f'url = "{url}/v1/blob?path=large.bin&offset={offset}&length={CHUNK_BYTES}"')
        orders.append(f'output = "{tmp_path / "curl"}"')
    config = tmp_path / "curl.txt"
    config.write_text("\n".join(orders))
    began = time.monotonic()
    subprocess.run(["curl", "--config", str(config)], check=True)
    return time.monotonic() - began


@pytest.mark.long
def test_two_gigabytes_come_home_whole_quickly_and_in_little_memory(world, tmp_path):
    cloud = world.cloud
    run, job = world.job(python_stage(MAKE), seconds=1200.0)
    backend = world.backend()
    receipt = backend.submit(job, run)
    world.follow(backend, receipt, run, seconds=300)
    children = psutil.Process(cloud.process.pid).children(recursive=True)
    agent = next(one for one in children if "lab-agent" in str(one.cmdline()))
    curl = curl_seconds(world, backend, run, tmp_path)
    before = len(cloud.blobs())
    cut = {"effect": "cut", "where": "proxy", "path": "/v1/blob", "offset": 3 * MEBIBYTE, "rate": 0.05, "times": None}
    cloud.control.post("/faults", json=cut)

    with Peak(agent.pid) as there, Peak(psutil.Process().pid) as here:
        missing = backend.fetch(receipt, run)

    blobs = cloud.blobs()[before:]
    sent, cuts = sum(blob["sent"] for blob in blobs), sum(blob["fault"] == "cut" for blob in blobs)
    seconds = (max(blob["answered"] for blob in blobs) - min(blob["time"] for blob in blobs)) / cloud.factor
    size = sum(path.stat().st_size for path in (run.path / "large.bin", run.path / "sha256"))
    grown = here.bytes - here.before
    figures = (
        f"{seconds:.1f} s, curl {curl:.1f} s, {cuts} cuts, {sent / size - 1:.2%} twice, "
        f"agent {there.bytes / MEBIBYTE:.0f} MiB, here {grown / MEBIBYTE:.0f} MiB"
    )
    sys.stdout.write(f"{figures}\n")
    with (run.path / "large.bin").open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    assert (missing, found) == ((), (run.path / "sha256").read_text())
    assert cuts > 5
    assert sent <= 1.01 * size, figures
    assert there.bytes <= 64 * MEBIBYTE, figures
    assert grown <= 64 * MEBIBYTE, figures
    assert seconds <= 2 * curl, figures

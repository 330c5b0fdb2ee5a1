"""The W&B tracker, judged by the files that W&B itself wrote: complete, incremental, bounded, and without secrets."""

from __future__ import annotations

import gzip
import json
import math
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import wandb
from wandb.proto.wandb_internal_pb2 import Record

from lab.errors import LabError
from lab.runs.directory import RunDirectory
from lab.runs.records import append_line, read_json, write_json
from lab_wandb.options import WandbOptions
from lab_wandb.settings import WandbSettings, read_settings
from lab_wandb.tracker import WandbTracker

BLOCK = 32 * 1024
PLANTED = "planted-secret-0123456789"
KEY = "0123456789abcdef0123456789abcdef01234567"


def wandb_records(path):
    """Every record of one .wandb file: a header of 7 bytes, then LevelDB's log format."""
    data, position, whole = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        left = BLOCK - position % BLOCK
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        whole += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            yield Record.FromString(whole)
            whole = b""


class Mirrored:
    """What all offline files of a run directory say together."""

    def __init__(self, run):
        self.files = sorted((run.path / "wandb").glob("offline-run-*/run-*.wandb"))
        self.rows, self.config, self.summary, self.exits, self.artifacts, self.kinds = [], {}, {}, [], [], set()
        self.axes = {}
        for record in (record for file in self.files for record in wandb_records(file)):
            self.kinds.add(record.WhichOneof("record_type"))
            if record.HasField("history"):
                items = record.history.item
                self.rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
            for item in (*record.run.config.update, *record.config.update):
                self.config[item.key] = json.loads(item.value_json)
            for item in (*record.run.summary.update, *record.summary.update):
                self.summary[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
            if record.HasField("metric"):
                self.axes[record.metric.glob_name] = record.metric.step_metric
            if record.HasField("exit"):
                self.exits.append(record.exit.exit_code)
            if record.HasField("artifact"):
                self.artifacts += [entry.path for entry in record.artifact.manifest.contents]

    def series(self, name):
        return [(row["train/step"], row[name]) for row in self.rows if name in row]

    def bytes(self):
        return b"".join(file.read_bytes() for file in self.files)


@pytest.fixture
def run(project):
    run = RunDirectory.create(project / ".runs", "smoke")
    experiment = {"name": "smoke", "description": "A small run", "group": "first-steps", "model": {"layers": 4}}
    write_json(run.config, {"schema": 1, "run_id": run.id, "experiment": experiment, "fingerprint": "f" * 8})
    write_json(run.outcome, {"schema": 1, "status": "running"})
    return run


def step(run, number, loss=None, **values):
    targets = 100 * number
    append_line(
        run.metrics,
        {
            "kind": "step",
            "step": number,
            "time": 1.8e9 + number,
            "loss": loss or 10 - number,
            "seconds": 2.0,
            "targets": 100,
            "targets_total": targets,
            "gradient_norm": 1.0,
            "learning_rate": 3e-4,
            "fed": "abc",
            **values,
        },
    )


def evaluation(run, number, loss):
    line = {"kind": "evaluation", "step": number, "time": 1.8e9 + number, "loss": loss, "targets": 50, "seconds": 1.0}
    append_line(run.metrics, line)


def end(run, status="completed"):
    write_json(run.summary, {"schema": 1, "status": status, "measured": {"mfu": 0.2}, "loss": {"last": 7.0}})
    write_json(run.outcome, {"schema": 1, "status": status})


def tracker(**changes):
    return WandbTracker(WandbOptions(), WandbSettings(**changes))


def sync(run, **changes):
    """One `lab runs track` from start to end."""
    one = tracker(**changes)
    one.sync(run)
    one.close()


# what is mirrored


def test_a_finished_run_is_mirrored_offline_without_a_key(run):
    evaluation(run, 0, 11.0)
    for number in (1, 2, 3):
        step(run, number)
    end(run)

    assert tracker().sync(run) is None

    mirrored = Mirrored(run)
    assert mirrored.series("train/loss") == [(1, 9), (2, 8), (3, 7)]
    assert mirrored.series("eval/loss") == [(0, 11.0)]
    assert mirrored.series("perf/tokens_per_second") == [(1, 50.0), (2, 50.0), (3, 50.0)]
    assert mirrored.config["experiment"]["model"] == {"layers": 4}
    assert (mirrored.summary["summary/measured.mfu"], mirrored.summary["summary/outcome"]) == (0.2, "completed")
    assert mirrored.exits == [0]


def test_a_folder_whose_name_is_no_text_is_named_with_what_to_do(tmp_path):
    with pytest.raises(LabError, match="W&B takes no folder whose name is not UTF-8") as caught:
        WandbTracker(settings=WandbSettings()).sync(RunDirectory(tmp_path / "caf\udce9"))

    assert "LAB_RUNS" in caught.value.do


def test_a_step_and_its_evaluation_are_one_row(run):
    step(run, 10)
    evaluation(run, 10, 8.0)
    step(run, 11)
    end(run)

    sync(run)

    first, second = Mirrored(run).rows
    assert (first["train/step"], first["train/loss"], first["eval/loss"]) == (10, 0 or first["train/loss"], 8.0)
    assert second["train/step"] == 11


def test_losses_have_a_curve_by_step_and_one_by_tokens(run):
    step(run, 1)
    end(run)

    sync(run)

    row = Mirrored(run).rows[0]
    assert row["train/tokens"] == 100
    assert row["by_tokens/train_loss"] == row["train/loss"]


def test_what_the_machine_does_has_a_panel_of_its_own_over_our_steps(run):
    step(run, 1, processor_percent=150.0, gpu_percent=97, gpu_watts=650.5)
    step(run, 2)
    end(run)

    sync(run)

    mirrored = Mirrored(run)
    assert mirrored.series("system/cpu_utilization_percentage") == [(1, 150.0)]
    assert mirrored.series("system/gpu_0_utilization_percentage") == [(1, 97)]
    assert mirrored.series("system/gpu_0_power_usage_watts") == [(1, 650.5)]
    assert mirrored.axes["system/*"] == "train/step"


def test_the_link_says_where_the_mirror_is_and_how_to_sync_it_later(run):
    step(run, 1)
    end(run)

    sync(run)

    link = read_json(run.tracker_link("wandb"))
    assert (link["mode"], link["project"], link["url"], link["rows"]) == ("offline", "llm-training-lab", None, 1)
    assert f"lab runs track {run.id} --to wandb" in link["note"]
    assert "WANDB_API_KEY" in link["note"]


def test_a_failed_run_is_marked_as_failed(run):
    step(run, 1)
    end(run, "failed")

    sync(run)

    assert Mirrored(run).exits == [1]


def test_a_loss_that_is_no_number_is_a_gap_and_the_link_stays_strict_json(run):
    step(run, 1)
    step(run, 2, loss=math.nan)
    step(run, 3)
    end(run)

    sync(run)

    losses = dict(Mirrored(run).series("train/loss"))
    assert (losses[1], losses[3]) == (9, 7)
    assert isinstance(losses[2], (str, float))
    json.loads(run.tracker_link("wandb").read_text(), parse_constant=lambda name: pytest.fail(name))


def test_odd_metric_names_and_values_that_are_no_numbers_hurt_nobody(run):
    step(run, 1, **{"loss@k": 0.5, "p=0.9": 0.9, "note": "text", "flag": True, "nothing": None})
    end(run)

    sync(run)

    row = Mirrored(run).rows[0]
    assert (row["values/loss@k"], row["values/p=0.9"]) == (0.5, 0.9)
    assert not {"values/note", "values/flag", "values/nothing"} & row.keys()


def test_chosen_artifacts_go_along_and_nothing_from_outside_the_run(run, tmp_path):
    (run.path / "curve.png").write_bytes(b"png")
    (run.path / "trace.json.gz").write_bytes(b"gz")
    outside = tmp_path / "outside.png"
    outside.write_bytes(b"secret")
    (run.path / "link.png").symlink_to(outside)
    for path, kind in [("curve.png", "figure"), ("trace.json.gz", "trace"), ("link.png", "figure"), ("../x", "figure")]:
        append_line(run.artifacts, {"path": path, "kind": kind, "title": path})
    step(run, 1)
    end(run)

    sync(run)

    assert Mirrored(run).artifacts == ["curve.png"]


# incremental and idempotent


def test_each_row_is_sent_once_however_often_the_run_is_synced(run):
    for number in (1, 2):
        step(run, number)
    sync(run)
    step(run, 3)
    sync(run)
    end(run)
    sync(run)
    sync(run)

    mirrored = Mirrored(run)
    assert [row["train/step"] for row in mirrored.rows] == [1, 2, 3]
    assert [row["_step"] for row in mirrored.rows] == [0, 1, 2]


def test_a_live_mirror_stays_open_and_writes_one_file(run):
    live = tracker()
    for number in (1, 2, 3):
        step(run, number)
        live.sync(run)
    end(run)
    live.sync(run)

    mirrored = Mirrored(run)
    assert len(mirrored.files) == 1
    assert [row["train/step"] for row in mirrored.rows] == [1, 2, 3]


def test_an_evaluation_that_comes_later_still_finds_its_row(run):
    live = tracker()
    step(run, 10)
    live.sync(run)
    evaluation(run, 10, 8.0)
    step(run, 11)
    live.sync(run)
    end(run)
    live.sync(run)

    assert [(row["train/step"], row.get("eval/loss")) for row in Mirrored(run).rows] == [(10, 8.0), (11, None)]


def test_a_run_that_was_resumed_from_its_checkpoint_gets_a_mirror_with_each_step_once(run):
    for number in range(1, 71):
        step(run, number)
    end(run, "failed")
    sync(run)
    lines = run.metrics.read_bytes().splitlines(keepends=True)
    run.metrics.write_bytes(b"".join(lines[:50]))
    run.summary.unlink()
    for number in range(51, 81):
        step(run, number, loss=0.5)
    end(run)

    sync(run)

    second = [row for file in Mirrored(run).files if file.stem.endswith("-2") for row in rows_of(file)]
    assert [row["train/step"] for row in second] == list(range(1, 81))
    assert {row["train/loss"] for row in second[50:]} == {0.5}
    assert read_json(run.tracker_link("wandb"))["id"] == f"{run.id}-2"


def rows_of(file):
    for record in wandb_records(file):
        if record.HasField("history"):
            yield {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}


def test_a_torn_line_is_left_for_the_next_time(run):
    step(run, 1)
    step(run, 2)
    with run.metrics.open("ab") as file:
        file.write(b'{"kind":"step","st')
    sync(run)
    with run.metrics.open("ab") as file:
        file.write(b'ep":3,"loss":7.0,"targets_total":300}\n')
    end(run)

    sync(run)

    assert [row["train/step"] for row in Mirrored(run).rows] == [1, 2, 3]


# online, against a server that speaks as much of W&B's protocol as a mirror needs


class FakeWandb(BaseHTTPRequestHandler):
    """Takes rows and files; the server object holds what arrived and how many rows it has already."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.requests.append((self.path, dict(self.headers), body))
        if self.path.endswith("/file_stream"):
            lines = json.loads(body).get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
            self.server.rows += [json.loads(line) for line in lines]
        self.answer(self.graphql(json.loads(body)) if self.path == "/graphql" else {})

    do_PUT = do_POST  # noqa: N815 - the library's name

    def graphql(self, body):
        entity = {"id": "e", "name": "us"}
        name = body["variables"].get("name")
        bucket = {"id": "b", "name": name, "config": "{}", "project": {"id": "p", "name": "mine", "entity": entity}}
        if "RunResumeStatus" in body["query"]:
            tail = [json.dumps({"_step": self.server.known - 1, "_runtime": 1})]
            known = {**bucket, "historyLineCount": self.server.known, "historyTail": json.dumps(tail)}
            known.update(
                summaryMetrics="{}", eventsTail="[]", logLineCount=0, eventsLineCount=0, wandbConfig='{"t": 1}'
            )
            return {
                "model": {"id": "p", "name": "mine", "entity": entity, "bucket": known if self.server.known else None}
            }
        if "UpsertBucket" in body["query"]:
            return {"upsertBucket": {"bucket": {**bucket, "historyLineCount": 0}, "inserted": True}}
        if "CreateRunFiles" in body["query"]:
            names = body["variables"]["files"]
            files = [{"name": name, "uploadUrl": f"{self.server.url}/up/{name}"} for name in names]
            return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
        return {}

    def answer(self, data):
        text = json.dumps({"data": data}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        """Stay quiet."""


class WandbServer(ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), FakeWandb)
        self.requests, self.rows, self.known, self.status = [], [], 0, 200
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """A client that hangs up is none."""


@pytest.fixture
def server():
    with WandbServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_with_a_key_the_mirror_is_online_and_its_link_an_address(run, server):
    for number in (1, 2):
        step(run, number)
    end(run)

    link = tracker(api_key=KEY, base_url=server.url).sync(run)

    assert link == f"{server.url}/us/mine/runs/{run.id}"
    assert [row["train/step"] for row in server.rows] == [1, 2]
    assert read_json(run.tracker_link("wandb"))["url"] == link


def test_a_thousand_fast_steps_are_a_few_requests(run, server):
    for number in range(1, 1001):
        step(run, number, seconds=0.001)
    end(run)

    sync(run, api_key=KEY, base_url=server.url)

    assert [row["train/step"] for row in server.rows] == list(range(1, 1001))
    assert len(server.requests) < 30


def test_the_key_travels_in_the_header_alone_and_nothing_of_this_process_travels_at_all(run, server, monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", PLANTED)
    monkeypatch.setattr(sys, "argv", ["track", f"--token={PLANTED}"])
    step(run, 1)
    end(run)

    sync(run, api_key=KEY, base_url=server.url)

    sent = b"".join(path.encode() + body for path, _, body in server.requests)
    kept = b"".join(path.read_bytes() for path in run.path.rglob("*") if path.is_file())
    assert server.rows
    for secret in (KEY, PLANTED, "MY_PASSWORD", socket.gethostname()):
        assert secret.encode() not in sent + kept, secret


def test_rows_that_never_arrived_are_sent_again_and_no_other(run, server):
    for number in range(1, 6):
        step(run, number)
    end(run)
    sync(run, api_key=KEY, base_url=server.url)
    server.rows.clear()
    server.known = 2
    end(run, "failed")
    step(run, 6)

    sync(run, api_key=KEY, base_url=server.url)

    assert [(row["train/step"], row["_step"]) for row in server.rows] == [(3, 2), (4, 3), (5, 4), (6, 5)]


def test_what_was_kept_offline_goes_online_as_a_whole_once_there_is_a_key(run, server):
    for number in (1, 2, 3):
        step(run, number)
    end(run)
    sync(run)

    sync(run, api_key=KEY, base_url=server.url)

    assert [row["train/step"] for row in server.rows] == [1, 2, 3]
    assert read_json(run.tracker_link("wandb"))["mode"] == "online"


def test_a_key_that_w_and_b_refuses_leaves_an_offline_mirror_that_says_so(run, server):
    server.status = 401
    step(run, 1)
    end(run)

    sync(run, api_key=KEY, base_url=server.url)

    assert len(Mirrored(run).rows) == 1
    assert "refused" in read_json(run.tracker_link("wandb"))["note"]


# bounded


@pytest.fixture
def deaf():
    """A server that takes a connection and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_is_not_there_costs_no_time_and_leaves_an_offline_mirror(run):
    step(run, 1)
    end(run)
    began = time.monotonic()

    sync(run, api_key=KEY, base_url="http://127.0.0.1:9")

    assert time.monotonic() - began < 5
    assert len(Mirrored(run).rows) == 1
    assert "does not answer" in read_json(run.tracker_link("wandb"))["note"]


def test_a_server_that_never_answers_costs_twenty_seconds_at_most(run, deaf):
    step(run, 1)
    end(run)
    began = time.monotonic()

    sync(run, api_key=KEY, base_url=deaf)

    assert time.monotonic() - began < 20
    assert len(Mirrored(run).rows) == 1
    assert "W&B refused" in read_json(run.tracker_link("wandb"))["note"]


def test_a_server_that_dies_during_the_run_costs_a_bounded_time_and_gets_the_rest_later(run, server):
    live = tracker(api_key=KEY, base_url=server.url)
    live.finish_seconds = 1.0
    for number in (1, 2):
        step(run, number)
    live.sync(run)
    server.status = 503
    end(run)
    began = time.monotonic()

    with pytest.raises(LabError, match="track"):
        live.sync(run)

    assert time.monotonic() - began < 5
    server.status = 200
    server.rows.clear()
    sync(run, api_key=KEY, base_url=server.url)
    assert [row["train/step"] for row in server.rows] == [1, 2]
    assert read_json(run.tracker_link("wandb"))["finished"]


def test_wandb_mode_offline_is_obeyed_even_with_a_key(run, monkeypatch):
    step(run, 1)
    end(run)

    sync(run, api_key=KEY, mode="offline")

    assert read_json(run.tracker_link("wandb"))["mode"] == "offline"


def test_wandb_mode_disabled_writes_nothing(run):
    step(run, 1)

    sync(run, mode="disabled")

    assert not (run.path / "wandb").exists()
    assert not run.tracker_link("wandb").exists()


def test_an_old_wandb_that_lacks_an_unstable_setting_still_works(run, monkeypatch):
    from lab_wandb import session

    monkeypatch.setitem(session.QUIET, "x_not_there_any_more", True)
    monkeypatch.setitem(session.QUIET, "x_disable_stats", "maybe")
    step(run, 1)
    end(run)

    sync(run)

    assert len(Mirrored(run).rows) == 1


LIVE = """
import sys, time
from pathlib import Path
from lab.runs.directory import RunDirectory
from lab_wandb.tracker import WandbTracker
run, tracker = RunDirectory(Path(sys.argv[1])), WandbTracker()
tracker.sync(run)
print("open", flush=True)
time.sleep(60)
"""


def test_a_process_that_is_asked_to_end_delivers_first_and_the_next_one_waits_for_it(run, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    for number in (1, 2, 3):
        step(run, number)
    live = subprocess.Popen([sys.executable, "-c", LIVE, str(run.path)], stdout=subprocess.PIPE)
    with live:
        assert live.stdout.readline() == b"open\n"
        end(run)
        live.terminate()

        sync(run, mode="offline")

    mirrored = Mirrored(run)
    assert live.returncode == 143
    assert sorted(row["train/step"] for row in mirrored.rows) == [1, 2, 3]
    assert mirrored.summary["summary/outcome"] == "completed"


def test_a_mirror_that_is_held_by_another_process_is_waited_for_and_then_left(run):
    from lab_wandb.alone import alone

    with alone(run), pytest.raises(LabError, match="another process"), alone(run, seconds=0.2):
        pass


# secrets


def test_no_argument_variable_key_or_host_reaches_wandb(run, tmp_path):
    step(run, 1)
    end(run)
    code = (
        "import sys; from pathlib import Path; from lab.runs.directory import RunDirectory;"
        "from lab_wandb.tracker import WandbTracker; WandbTracker().sync(RunDirectory(Path(sys.argv[1])))"
    )
    home = tmp_path / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "MY_PASSWORD": PLANTED, "WANDB_MODE": "offline"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))

    subprocess.run(
        [sys.executable, "-c", code, str(run.path), f"--token={PLANTED}"],
        env={**environment, "WANDB_API_KEY": KEY},
        check=True,
        cwd=run.path,
    )

    everything = b"".join(path.read_bytes() for path in (run.path / "wandb").rglob("*") if path.is_file())
    assert b"train/loss" in everything
    for secret in (KEY, PLANTED, socket.gethostname(), "MY_PASSWORD"):
        assert secret.encode() not in everything, secret
    assert list(home.rglob("*")) == []


def test_options_and_variables_decide_the_project_and_the_entity(run, monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    monkeypatch.setenv("WANDB_ENTITY", "us")
    step(run, 1)
    end(run)

    WandbTracker(WandbOptions(), read_settings()).sync(run)

    assert (read_json(run.tracker_link("wandb"))["project"], read_settings().entity) == ("mine", "us")


def test_what_travels_to_a_rented_machine_is_named_and_short():
    assert set(WandbOptions.forwards) == {"WANDB_API_KEY", "WANDB_ENTITY", "WANDB_PROJECT", "WANDB_BASE_URL"}


def test_the_version_that_was_tried_still_has_the_settings_that_keep_secrets_in():
    from lab_wandb.session import QUIET

    assert set(QUIET) <= set(wandb.Settings.model_fields)

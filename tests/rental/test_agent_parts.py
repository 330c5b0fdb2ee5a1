"""Parts of the agent by themselves: how long a machine may live, how it stops itself, what is installed."""

from __future__ import annotations

import json
import os
import sys
import threading
import venv
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from lab.rental import homecoming, requirements
from lab.rental.agent import durable, growth, install, planning
from lab.rental.agent.life import MOST_BOOTS, Life
from lab.rental.agent.paths import Places, pattern
from lab.rental.agent.selfstop import SelfStop
from lab.rental.agent_contract import Grown
from lab.runs.directory import RunDirectory

IDLE, LIMIT = 900.0, 3600.0


class Time:
    """A monotonic clock that is moved by hand."""

    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def boot(tmp_path, time):
    return lambda nonce="n": Life(tmp_path / "life.json", nonce, IDLE, LIMIT, time)


def pass_time(life, time, seconds, step=10.0, heard=True):
    for _ in range(int(seconds / step)):
        time.seconds += step
        if heard:
            life.renew()
        life.tick()


# how long a machine may live


def test_a_machine_that_nobody_speaks_to_ends_by_its_lease(boot, time):
    life = boot()

    time.seconds += IDLE - 1
    assert life.due(working=False) is None
    time.seconds += 2
    assert "nobody was heard for 901 s" in life.due(working=False)


def test_hearing_the_controller_renews_the_lease(boot, time):
    life = boot()

    pass_time(life, time, 3 * IDLE)

    assert life.due(working=False) is None


def test_at_the_limit_it_ends_though_it_is_heard_and_a_job_gets_time_to_save(boot, time):
    life = boot()
    life.set_limits(IDLE, 1000.0)

    pass_time(life, time, 870)
    assert life.due(working=True) is None
    pass_time(life, time, 20)
    assert "limit" in life.due(working=True)
    assert life.due(working=False) is None
    pass_time(life, time, 120)
    assert "limit" in life.due(working=False)


def test_a_restart_of_the_container_does_not_extend_the_limit(boot, time):
    life = boot()
    life.set_limits(IDLE, 1000.0)
    pass_time(life, time, 800)

    again = boot()
    again.set_contact = None
    pass_time(again, time, IDLE + 10)

    assert "limit" in again.due(working=False)


def test_a_machine_that_is_started_again_does_not_die_of_the_old_limit(boot, time):
    life = boot()
    life.set_limits(IDLE, 1000.0)
    pass_time(life, time, 2000)
    assert "limit" in life.due(working=False)

    again = boot()
    assert again.due(working=False) is None
    again.set_limits(IDLE, 5000.0)
    pass_time(again, time, 4000)

    assert again.due(working=False) is None


def test_another_machine_on_the_same_network_volume_has_its_own_limit(boot, time):
    life = boot("first")
    life.set_limits(IDLE, 100.0)
    pass_time(life, time, 200)

    other = boot("second")

    assert other.boots == 1
    pass_time(other, time, IDLE + 100)
    assert other.due(working=False) is None


def test_a_container_that_restarts_in_a_loop_gets_no_more_time(boot, time):
    boot().set_limits(IDLE, 100.0)
    for _ in range(MOST_BOOTS + 1):
        life = boot()
        time.seconds += 17
        life.tick()

    assert "limit" in boot().due(working=False)


def test_after_the_job_the_short_lease_counts_again(boot, time):
    life = boot()
    life.set_limits(100_000.0, 200_000.0)
    time.seconds += 50_000
    assert life.due(working=True) is None

    life.job_ended()
    time.seconds += IDLE - 1
    assert life.due(working=False) is None
    time.seconds += 2

    assert "nobody was heard" in life.due(working=False)


def test_a_full_disk_does_not_end_the_count(tmp_path, time):
    file = tmp_path / "file"
    file.write_text("in the way")
    life = Life(file / "life.json", "n", IDLE, LIMIT, time)
    life.set_limits(100_000.0, 1000.0)

    pass_time(life, time, 1010)

    assert "limit" in life.due(working=False)


def test_a_damaged_state_file_counts_as_none(tmp_path):
    for text in ("", "{", "[]", "\0"):
        (tmp_path / "x.json").write_text(text)
        assert durable.read(tmp_path / "x.json") == {}
    assert durable.read(tmp_path / "absent.json") == {}


# how it stops itself


class Cloud(BaseHTTPRequestHandler):
    """Answers 403 to everything and remembers what it was asked."""

    asked: ClassVar[list] = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, self.headers["Authorization"], body))
        self.send_response(403)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def cloud():
    Cloud.asked = []
    with HTTPServer(("127.0.0.1", 0), Cloud) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.fault(65, "every way is tried, then it serves on and says so")
def test_every_way_of_stopping_itself_is_tried_in_order_and_what_failed_is_said(cloud, tmp_path):
    slept = []
    headers = {"Authorization": "Bearer {KEY}"}
    touch = "import sys; open(sys.argv[1], 'w'); sys.exit('key {KEY}')"
    ways = [
        {"url": cloud + "/pods/{ID}/action", "headers": headers, "body": '{"action":"stop"}'},
        {"argv": ["no-such-program", "{ID}"]},
        {"argv": [sys.executable, "-c", touch, str(tmp_path / "{ID}")]},
        {"url": cloud + "/{ABSENT}"},
    ]  # fmt: skip
    stop = SelfStop(ways, {"KEY": "k" * 20, "ID": "pod1"}, slept.append)

    stop.attempt()

    assert Cloud.asked == [("/pods/pod1/action", "Bearer " + "k" * 20, b'{"action":"stop"}')]
    assert (tmp_path / "pod1").exists()
    assert slept == [60.0]
    assert [notice.partition(", way ")[2][:2] for notice in stop.notices] == ["1:", "2:", "3:", "4:"]
    assert "403" in stop.notices[0]
    assert "k" * 20 not in "".join(stop.notices)


# what it keeps where


def test_globs_cross_folders_only_where_they_say_so():
    cases = {
        "**": ["a", "a/b", "a/b.c"], "*.png": ["x.png"], "figures/**": ["figures/a", "figures/b/c"],
        "**/*.json": ["a.json", "x/a.json"], "a?c": ["abc"],
    }  # fmt: skip
    for glob, names in cases.items():
        assert all(pattern(glob).match(name) for name in names), glob
    for glob, name in (("*.png", "x/y.png"), ("a?c", "a/c"), ("figures/*", "figures/a/b"), ("a.c", "abc")):
        assert not pattern(glob).match(name), glob


def test_a_plan_is_filled_in_by_the_machine_that_knows_its_paths(tmp_path):
    places = Places(tmp_path, "run")
    plan = {
        "stages": [{"name": "train", "argv": ["{python}", "-m", "x", "{run}", "--to={store}/a"], "seconds": None}],
        "records": "{run}/stages.jsonl", "folder": "{code}", "environment": {"LAB_STORE": "{store}"},
    }  # fmt: skip
    request = {"plan": plan, "install": {"packages": ["a==1"]}}

    filled = planning.stage_plan(request, places, tmp_path / "code", {"PATH": "/bin", "PYTHONPATH": "/image"})

    install_stage, train = filled["stages"]
    assert train["argv"] == [str(places.venv / "bin/python"), "-m", "x", str(places.run), f"--to={places.store}/a"]
    assert install_stage["name"] == "install"
    order = json.loads((places.state / "install.json").read_text())
    assert (order["packages"], order["code"], order["venv"]) == (["a==1"], str(tmp_path / "code"), str(places.venv))
    assert filled["environment"]["LAB_STORE"] == str(places.store)
    path = filled["environment"]["PYTHONPATH"].split(":")
    assert path == [str(tmp_path / "code/src"), str(tmp_path / "code/plugins"), "/image"]


def test_a_log_longer_than_one_answer_comes_in_pieces(tmp_path):
    (tmp_path / "logs").mkdir()
    data = bytes(range(97, 123)) * 100_000
    (tmp_path / "logs" / "a.log").write_bytes(data)
    from rental.test_agent import cursor

    home = b""
    while pieces := growth.look(tmp_path, {"logs/a.log": vars(cursor(home))}, []):
        import base64

        piece = base64.b64decode(pieces[0]["data"])
        assert len(piece) <= growth.MOST_BYTES
        home += piece

    assert home == data


# what is installed


@pytest.fixture
def python(tmp_path):
    return install.make_venv(tmp_path / "venv")


def test_only_what_is_missing_is_installed(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(install, "_install", lambda python, missing, index: asked.append((missing, index)) or 0)
    monkeypatch.setattr(install, "make_venv", lambda venv: sys.executable)
    order = {
        "venv": "v", "code": str(tmp_path), "torch_index": "cu126",
        "packages": ["pytest", "pytest==0.0.1", "no-such-package-at-all"],
        "requirements": ["httpx>=0.1", "nothing; python_version < '3'", "httpx>999"],
    }  # fmt: skip

    assert install.main(order) == 0

    assert asked == [(["pytest==0.0.1", "no-such-package-at-all", "httpx>999"], "cu126")]


def test_plugins_of_the_bundle_are_found_by_its_entry_points(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "make_venv", lambda venv: sys.executable)
    described = requirements.bundled()

    assert install.main({"venv": "v", "code": str(tmp_path), "distributions": described}) == 0

    (folder,) = (tmp_path / "src").glob("*.dist-info")
    assert "[lab]" in (folder / "entry_points.txt").read_text()
    assert "local = lab_local" in (folder / "entry_points.txt").read_text()


@pytest.mark.fault(50, "the stage fails and says what to check")
def test_packages_that_cannot_be_installed_fail_the_stage(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(install, "make_venv", lambda venv: sys.executable)
    monkeypatch.setattr(install, "_install", lambda python, missing, index: 1)

    code = install.main({"venv": "v", "code": str(tmp_path), "packages": ["no-such-package-at-all"]})

    assert code == 1
    assert "is the index reachable" in capfd.readouterr().out


def test_the_index_for_torch_is_beside_the_usual_one(monkeypatch):
    commands = []
    monkeypatch.setattr(install.shutil, "which", lambda name: None)
    monkeypatch.setattr(install.subprocess, "run", lambda command, **_: commands.append(command) or Done())

    install._install("python", ["torch==2.14.1"], "cu126")

    assert commands == [
        [
            "python",
            "-m",
            "pip",
            "install",
            "--extra-index-url",
            "https://download.pytorch.org/whl/cu126",
            "torch==2.14.1",
        ]
    ]


class Done:
    returncode = 0


def test_the_requirements_of_lab_are_those_of_its_training_and_never_lab_itself():
    found = requirements.of_lab()

    assert any(line.startswith("torch") for line in found)
    assert any(line.startswith("pydantic") for line in found)
    assert not any(line.startswith(("llm-training-lab", "pytest", "ruff", "mlflow", "wandb")) for line in found)
    assert len(found) == len(set(found))


def third_party(name):
    return [{"distribution": name, "third_party": True}]


def test_a_strangers_plugin_comes_from_the_index_by_its_version(install_plugin):
    install_plugin("acme", "X = 1", version="2.5", requires=("numpy",))

    lines, carried = requirements.of_plugins([*third_party("lab-acme"), {"distribution": "x", "third_party": False}])

    assert (lines, carried) == (["lab-acme==2.5"], [])


def test_a_plugin_that_brought_the_backend_alone_stays_at_home(install_plugin):
    install_plugin("cloud", "X = 1")
    [record] = third_party("lab-cloud")

    assert requirements.of_plugins([{**record, "parts": {"backend": ["cloud"]}}]) == ([], [])
    assert requirements.of_plugins([{**record, "parts": {"backend": ["cloud"], "loss": ["x"]}}])[0] != []


def test_a_strangers_plugin_from_a_folder_is_carried_along_and_found_there(install_plugin, tmp_path, monkeypatch):
    source = json.dumps({"url": "file:///home/me/acme", "dir_info": {"editable": True}})
    info = {"lab_acme-1.0.dist-info/direct_url.json": source}
    install_plugin("acme", "ACME = 42", requires=("numpy>=1", "llm-training-lab", "x; extra == 'y'"), files=info)
    monkeypatch.setattr(install, "make_venv", lambda venv: sys.executable)

    lines, carried = requirements.of_plugins(third_party("lab-acme"))
    install.main({"venv": "v", "code": str(tmp_path / "code"), "distributions": carried})

    assert lines == ["numpy>=1"]
    assert (tmp_path / "code/src/lab_acme.py").read_text() == "ACME = 42"
    (folder,) = (tmp_path / "code/src").glob("*.dist-info")
    assert "acme = lab_acme" in (folder / "entry_points.txt").read_text()


@pytest.mark.parametrize("how", [{"dir_info": {}}, {"archive_info": {"hash": "sha256=00"}}])
def test_whatever_was_installed_from_this_machine_is_carried_with_all_its_files(
    install_plugin, tmp_path, monkeypatch, how
):
    source = json.dumps({"url": "file:///home/me/acme", **how})
    files = {
        "lab_acme-1.0.dist-info/direct_url.json": source,
        "acme_rest/__init__.py": "",
        "acme_rest/words.txt": "a\n",
    }
    site = install_plugin("acme", "ACME = 42", requires=("LLM_Training.Lab>=0.1",), files=files)
    (site / "acme_rest" / "table.bin").write_bytes(b"\xff\x00")
    monkeypatch.setattr(install, "make_venv", lambda venv: sys.executable)

    lines, carried = requirements.of_plugins(third_party("lab-acme"))
    install.main({"venv": "v", "code": str(tmp_path / "code"), "distributions": json.loads(json.dumps(carried))})

    arrived = {path.name: path.read_bytes() for path in (tmp_path / "code/src/acme_rest").iterdir()}
    assert lines == []
    assert arrived == {"__init__.py": b"", "words.txt": b"a\n", "table.bin": b"\xff\x00"}
    assert (tmp_path / "code/src/lab_acme.py").read_text() == "ACME = 42"


def test_the_installer_is_told_of_lab_before_it_is_asked_for_what_requires_lab(tmp_path, monkeypatch):
    told = []
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    monkeypatch.setattr(install, "make_venv", lambda venv: python)
    monkeypatch.setattr(install, "_install", lambda python, missing, index: told.append(dist_infos(python)) or 0)
    order = {"venv": "v", "code": str(tmp_path), "packages": ["no-such-package-at-all"]}

    for number in ("0.1", "0.2"):
        lab = {"name": "llm-training-lab", "version": number, "entry_points": ""}
        install.main({**order, "distributions": [lab]})

    assert told == [["llm_training_lab-0.1.dist-info"], ["llm_training_lab-0.2.dist-info"]]


def test_an_installed_lab_is_left_as_it_is(tmp_path):
    real = tmp_path / "llm_training_lab-0.1.dist-info"
    real.mkdir()
    (real / "RECORD").touch()

    install.announce(tmp_path, {"name": "llm-training-lab", "version": "0.2", "entry_points": ""})

    assert list(tmp_path.iterdir()) == [real]


def dist_infos(python):
    return sorted(path.name for path in install.site_of(python).glob("llm*.dist-info"))


def test_a_carried_file_cannot_leave_the_code(tmp_path):
    with pytest.raises(ValueError, match="leaves the folder"):
        install.describe(tmp_path, {"name": "x", "version": "1", "entry_points": "", "files": {"../escape.py": ""}})


# what is no file in a run directory


def test_a_pipe_among_records_and_logs_is_passed_by(tmp_path):
    (tmp_path / "logs").mkdir()
    for name in ("metrics.jsonl", "logs/train.log", "summary.json", "checkpoint.pt"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "stages.jsonl").write_bytes(b"{}\n")

    assert [one["path"] for one in growth.look(tmp_path, {}, [])] == ["stages.jsonl"]
    assert growth.replaced(tmp_path) == []


def test_at_home_too_a_pipe_is_passed_by_and_never_written_into(tmp_path):
    run = RunDirectory.create(tmp_path, "smoke")
    run.stages.write_bytes(b"{}\n")
    for path in (run.metrics, run.logs / "train.log"):
        os.mkfifo(path)

    found = homecoming.cursors(run)
    homecoming.append(run, Grown("metrics.jsonl", 0, b"{}\n"))

    assert list(found) == ["stages.jsonl"]
    assert run.metrics.is_fifo()

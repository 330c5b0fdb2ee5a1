"""The real agent: who may ask, what comes in, how stages run, what goes out, and what a restart leaves."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import httpx
import pytest

from lab.rental.agent_client import HttpAgent
from lab.rental.agent_contract import AgentRefused, Cursor
from rental.agent_process import BUNDLE, BUNDLE_SHA256, CLOUD_KEY, NONCE, TOKEN, Machine, archive, request, stage

FOREVER = "time.sleep(600)"
WAIT_FOR_TERM = """
signal.signal(signal.SIGTERM, lambda *_: (run.joinpath("saved").write_text("yes"), sys.exit(143)))
run.joinpath("ready").touch()
time.sleep(600)
"""


@pytest.fixture(scope="session")
def venv(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", folder], check=True)
    return folder


@pytest.fixture
def make(tmp_path, venv):
    made = []

    def machine(**environment):
        made.append(Machine(tmp_path / f"machine{len(made)}", venv, **environment))
        return made[-1]

    yield machine
    for one in made:
        one.close()


@pytest.fixture
def machine(make):
    return make().boot()


def cursor(data):
    return Cursor(len(data), hashlib.sha256(data[-4096:]).hexdigest())


# who may ask


def test_it_says_who_it_is(machine):
    hello = machine.agent.hello()

    assert (hello.nonce, hello.gpus, hello.boots, hello.job) == (NONCE, (), 1, None)
    assert hello.disk_free_bytes > 0


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", f"Basic {TOKEN}", "Bearer \u00fc"])
@pytest.mark.fault(56, "refused, and nothing is said")
def test_without_the_token_nobody_learns_anything(machine, header):
    headers = {"Authorization": header.encode()} if header else {}

    answer = httpx.get(f"http://127.0.0.1:{machine.port}/v1/hello", headers=headers, trust_env=False)

    assert answer.status_code == 401
    assert answer.json() == {
        "service": "lab-agent", "error": "unauthorized", "message": "this machine belongs to another run",
    }  # fmt: skip


def test_a_wrong_token_does_not_renew_the_lease(make):
    machine = make(LAB_LEASE_SECONDS="3").boot()
    stranger = HttpAgent(f"http://127.0.0.1:{machine.port}", "wrong")

    def stopped():
        with pytest.raises(AgentRefused):
            stranger.hello()
        return (machine.folder / CLOUD_KEY).exists()

    machine.wait(stopped)
    stranger.close()


def test_the_clouds_key_is_in_no_process_and_in_no_stage(machine):
    machine.start(stage('run.joinpath("seen").write_text(repr(dict(os.environ)))'))

    machine.ended()

    assert CLOUD_KEY not in (machine.home / "run" / "seen").read_text()
    assert "LAB_TOKEN_SHA256" not in (machine.home / "run" / "seen").read_text()
    assert CLOUD_KEY.encode() not in Path(f"/proc/{machine.process.pid}/environ").read_bytes()
    assert TOKEN.encode() not in Path(f"/proc/{machine.process.pid}/cmdline").read_bytes()


def test_an_agent_that_arrived_damaged_is_not_started(make):
    from lab.rental import bootstrap

    _, _, code, sha256, text = bootstrap.argv()
    ended = subprocess.run([sys.executable, "-c", code, sha256, text[:-4]], capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "the agent arrived damaged" in ended.stderr


def test_the_create_request_stays_small_and_the_agent_is_the_same_each_time():
    from lab.rental import bootstrap

    before = bootstrap.argv()
    bootstrap.archive.cache_clear()

    assert bootstrap.argv() == before
    assert sum(len(word) for word in before) < 60_000


# what comes in


@pytest.mark.fault(46, "each chunk counts once, changed ones are refused")
def test_chunks_come_twice_in_any_order_and_changed_ones_are_refused(machine):
    pieces = [BUNDLE[at : at + 500] for at in range(0, len(BUNDLE), 500)]
    order = [*reversed(range(len(pieces))), 0, 1]

    for index in order:
        machine.agent.put_chunk(BUNDLE_SHA256, index, pieces[index])
    with pytest.raises(AgentRefused) as changed:
        machine.agent.put_chunk(BUNDLE_SHA256, 0, b"other")
    assert machine.agent.present(BUNDLE_SHA256) == frozenset(range(len(pieces)))
    machine.agent.commit(BUNDLE_SHA256, len(BUNDLE))
    machine.agent.commit(BUNDLE_SHA256, len(BUNDLE))

    assert changed.value.code == "conflict"
    assert machine.agent.present(BUNDLE_SHA256) == frozenset(range(len(pieces)))
    assert (machine.home / "code" / BUNDLE_SHA256 / "src/lab/jobs/stages.py").is_file()
    assert not list((machine.home / "uploads").iterdir())


def test_a_chunk_with_another_hash_is_not_kept(machine):
    url = f"http://127.0.0.1:{machine.port}/v1/upload/{BUNDLE_SHA256}/0"
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Chunk-SHA256": "0" * 64}

    answer = httpx.put(url, content=b"data", headers=headers, trust_env=False)

    assert answer.json()["error"] == "damaged"
    assert machine.agent.present(BUNDLE_SHA256) == frozenset()


def test_a_bundle_with_another_hash_is_not_unpacked(machine):
    machine.agent.put_chunk(BUNDLE_SHA256, 0, BUNDLE[:-1] + b"?")

    with pytest.raises(AgentRefused, match="sha256") as refused:
        machine.agent.commit(BUNDLE_SHA256, len(BUNDLE))

    assert refused.value.code == "damaged"
    assert machine.agent.present(BUNDLE_SHA256) == frozenset()
    assert not (machine.home / "code").exists()


def hostile(*members):
    """An archive with members of any type."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.uid = kind, target, 12345
            member.size = 5 if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(b"data\n"))
    return content.getvalue()


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ([("d", tarfile.SYMTYPE, ".."), ("d/escape.txt", tarfile.REGTYPE, "")], "d"),
        ([("d", tarfile.SYMTYPE, "/tmp"), ("d/escape.txt", tarfile.REGTYPE, "")], "d"),
        ([("../escape.txt", tarfile.REGTYPE, "")], "../escape.txt"),
        ([("/tmp/escape.txt", tarfile.REGTYPE, "")], "/tmp/escape.txt"),
        ([("a/../../escape.txt", tarfile.REGTYPE, "")], "a/../../escape.txt"),
        ([("device", tarfile.CHRTYPE, "")], "device"),
        ([("pipe", tarfile.FIFOTYPE, "")], "pipe"),
        ([("a", tarfile.REGTYPE, ""), ("b", tarfile.LNKTYPE, "a")], "b"),
    ],
)
@pytest.mark.fault(54, "refused by name")
def test_a_bundle_that_would_leave_its_folder_is_refused_by_name(machine, members, named):
    with pytest.raises(AgentRefused) as refused:
        machine.send(hostile(*members))

    assert named in str(refused.value)
    assert not list(machine.folder.rglob("escape.txt"))
    assert not list((machine.home / "code").iterdir())


def test_owners_and_modes_of_an_archive_are_not_taken_over(machine):
    data = hostile(("file.txt", tarfile.REGTYPE, ""))
    machine.send(data)

    status = (machine.home / "code" / hashlib.sha256(data).hexdigest() / "file.txt").stat()
    assert (status.st_uid, status.st_mode & 0o777) == (os.getuid(), 0o644)


# stages


def test_a_job_runs_by_the_stage_runner_and_its_end_is_reported(machine):
    machine.start(stage('print("hello")', "prepare"), stage('run.joinpath("out.txt").write_text("done")'))

    report = machine.ended()

    assert (report.phase, report.exit_code, report.stage) == ("exited", 0, "train")
    assert (machine.home / "run" / "logs" / "prepare.log").read_text() == "hello\n"
    lines = [json.loads(line) for line in (machine.home / "run" / "stages.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in lines if line["event"] == "ended"] == ["install", "prepare", "train"]


@pytest.mark.parametrize(
    ("code", "exit_code", "reason"),
    [
        ("sys.exit(3)", 3, "exit code 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "probably out of memory"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139, "SIGSEGV"),
    ],
)
@pytest.mark.fault(51, "a reported fact")
def test_crashes_and_kills_become_facts(machine, code, exit_code, reason):
    machine.start(stage(code))

    report = machine.ended()

    assert (report.phase, report.exit_code) == ("exited", exit_code)
    assert reason in report.reason


@pytest.mark.fault(51, "stopped at its limit")
def test_a_hanging_stage_ends_at_its_limit(machine):
    machine.start(stage(FOREVER, seconds=0.5))

    report = machine.ended()

    assert report.exit_code == 143
    assert "limit of 0.5 s" in report.reason


@pytest.mark.fault(47, "one job")
def test_starting_twice_is_one_job_and_another_one_is_refused(machine):
    machine.start(stage('run.joinpath("count").open("a").write("x")\n' + FOREVER))
    again = machine.agent.start(request(stage('run.joinpath("count").open("a").write("x")\n' + FOREVER)))
    machine.wait(lambda: (machine.home / "run" / "count").exists())

    with pytest.raises(AgentRefused, match="another job was started under this id"):
        machine.agent.start(request(stage("other")))
    with pytest.raises(AgentRefused, match="job1 is running"):
        machine.agent.start(request(stage("other"), request_id="job2"))

    assert again.phase == "running"
    assert (machine.home / "run" / "count").read_text() == "x"


def test_a_job_without_its_bundle_is_refused(machine):
    with pytest.raises(AgentRefused, match="bundle of this job is not here"):
        machine.agent.start(request(stage("pass")))


def test_forwarded_variables_reach_their_stage_as_they_are_and_no_disk(machine):
    value = 'a"b\\c\n$(touch PWNED)\u00e9 and long enough'
    named = {"forwarded": ("SECRET_NAME",)}
    machine.send()
    with pytest.raises(AgentRefused) as forgotten:
        machine.agent.start(request(stage("pass", **named), **named))
    machine.agent.variables({"SECRET_NAME": value})
    code = 'import hashlib; run.joinpath("sha").write_text(hashlib.sha256(os.environb[b"SECRET_NAME"]).hexdigest())'
    machine.agent.start(
        request(stage(code, **named), stage('assert "SECRET_NAME" not in os.environ', "other"), **named)
    )

    report = machine.ended()

    assert forgotten.value.code == "variables"
    assert report.exit_code == 0
    assert (machine.home / "run" / "sha").read_text() == hashlib.sha256(value.encode()).hexdigest()
    for path in machine.folder.rglob("*"):
        assert not (path.is_file() and not path.is_symlink() and value.encode() in path.read_bytes()), path
    assert not list(machine.folder.rglob("PWNED"))


def test_asked_to_save_the_worker_saves(machine):
    machine.start(stage(WAIT_FOR_TERM))
    machine.wait((machine.home / "run" / "ready").exists)

    machine.agent.stop_job(30.0)
    report = machine.ended()

    assert report.exit_code == 143
    assert (machine.home / "run" / "saved").read_text() == "yes"


# what goes out


def test_records_and_logs_come_as_they_grow_and_anew_when_they_were_replaced(machine):
    machine.start(stage('run.joinpath("go").exists() or time.sleep(600)'))
    metrics = machine.home / "run" / "metrics.jsonl"
    metrics.write_bytes(b'{"step":1}\n')

    first = {one.path: one for one in machine.agent.poll({}).grown}["metrics.jsonl"]
    with metrics.open("ab") as file:
        file.write(b'{"step":2}\n')
    second = {one.path: one for one in machine.agent.poll({"metrics.jsonl": cursor(first.data)}).grown}["metrics.jsonl"]
    metrics.write_bytes(b'{"step":7}\n')
    third = {one.path: one for one in machine.agent.poll({"metrics.jsonl": cursor(first.data + second.data)}).grown}
    fourth = {one.path for one in machine.agent.poll({"metrics.jsonl": cursor(b'{"step":7}\n')}).grown}

    assert (first.offset, first.data) == (0, b'{"step":1}\n')
    assert (second.offset, second.data) == (11, b'{"step":2}\n')
    assert (third["metrics.jsonl"].offset, third["metrics.jsonl"].data) == (0, b'{"step":7}\n')
    assert "metrics.jsonl" not in fourth


def test_a_forwarded_value_that_a_stage_prints_does_not_travel(machine):
    named = {"forwarded": ("SECRET_NAME",)}
    machine.send()
    machine.agent.variables({"SECRET_NAME": "-----BEGIN KEY-----\na-secret-line\n"})
    code = (
        'print("it is", os.environ["SECRET_NAME"].split()[-1], flush=True); run.joinpath("ready").touch(); ' + FOREVER
    )
    machine.agent.start(request(stage(code, **named), **named))
    machine.wait((machine.home / "run" / "ready").exists)

    log = {one.path: one.data for one in machine.agent.poll({}).grown}["logs/train.log"]

    assert log == b"it is *************\n"


def test_links_pipes_odd_names_and_unfinished_files_stay_behind_by_name(machine):
    machine.start(stage("pass"))
    machine.ended()
    run = machine.home / "run"
    (run / "latest").symlink_to("step-9")
    (run / "up").symlink_to("../..")
    (run / "loop").symlink_to(".")
    (run / "secret").symlink_to("/etc/passwd")
    os.mkfifo(run / "pipe")
    (run / ".checkpoint.pt.x.part").write_bytes(b"half")
    Path(os.fsdecode(os.fsencode(run) + b"/b\xff.txt")).write_bytes(b"odd")
    for name in ("a b.txt", "file(01).txt", "x;touch PWNED", "$(id).log", "\u00fcn\u00ef.txt"):
        (run / name).write_bytes(name.encode())

    manifest = machine.manifest()

    listed = {file.path for file in manifest.files}
    assert {"a b.txt", "file(01).txt", "x;touch PWNED", "$(id).log", "\u00fcn\u00ef.txt", "config.json"} <= listed
    assert {item.path: item.why for item in manifest.skipped} == {
        "latest": "it is a link", "up": "it is a link", "loop": "it is a link", "secret": "it is a link",
        "pipe": "it is neither a file nor a folder", ".checkpoint.pt.x.part": "it was never finished",
        "b\\udcff.txt": "its name is not UTF-8",
    }  # fmt: skip


def test_only_results_that_were_asked_for_are_listed(machine):
    machine.start(
        stage('run.joinpath("figures").mkdir(); run.joinpath("figures", "a.png").touch(); run.joinpath("b").touch()')
    )
    machine.ended()

    assert {file.path for file in machine.manifest("figures/*").files} == {"figures/a.png"}
    assert {file.path for file in machine.manifest("**/*.png", "b").files} == {"figures/a.png", "b"}


@pytest.mark.fault(52, "refused: it is not what was listed")
@pytest.mark.fault(53, "refused: it is gone")
def test_a_file_is_sent_only_as_it_was_listed(machine):
    machine.start(stage('run.joinpath("big.bin").write_bytes(bytes(range(256)) * 40_000)'))
    machine.ended()
    files = {file.path: file for file in machine.manifest().files}
    big, data = files["big.bin"], bytes(range(256)) * 40_000

    assert b"".join(machine.agent.blob("big.bin", 100, 5000)) == data[100:5100]
    assert big.sha256 == hashlib.sha256(data).hexdigest()
    assert big.chunks == tuple(hashlib.sha256(data[at : at + 8 * 2**20]).hexdigest() for at in (0, 8 * 2**20))
    for path, code in (("../agent/job.json", "gone"), ("/etc/passwd", "gone"), ("nothing", "gone")):
        with pytest.raises(AgentRefused) as refused:
            list(machine.agent.blob(path, 0, 1))
        assert refused.value.code == code
    (machine.home / "run" / "big.bin").write_bytes(b"shorter")
    with pytest.raises(AgentRefused, match="changed since it was listed"):
        list(machine.agent.blob("big.bin", 0, 1))
    (machine.home / "run" / "big.bin").unlink()
    with pytest.raises(AgentRefused, match="not there any more"):
        list(machine.agent.blob("big.bin", 0, 1))


def test_a_checkpoint_is_held_while_the_job_replaces_it(machine):
    machine.start(stage(FOREVER))
    checkpoint = machine.home / "run" / "checkpoint.pt"
    checkpoint.write_bytes(b"step 1" * 1000)
    version = {one.path: one.version for one in machine.agent.poll({}).replaced}["checkpoint.pt"]

    held = machine.wait(lambda: machine.agent.pin("checkpoint.pt", version))
    replacement = checkpoint.with_name("new")
    replacement.write_bytes(b"step 2" * 1000)
    replacement.replace(checkpoint)

    assert b"".join(machine.agent.blob(held.path, 0, held.size)) == b"step 1" * 1000
    assert held.sha256 == hashlib.sha256(b"step 1" * 1000).hexdigest()
    with pytest.raises(AgentRefused, match="not there"):
        machine.agent.pin("absent.pt", "1")


def test_results_are_not_listed_while_the_job_writes_them(machine):
    machine.start(stage(FOREVER))

    with pytest.raises(AgentRefused, match="the job is running"):
        machine.agent.manifest(("**",), True)


# restarts and ends


@pytest.mark.fault(48, "interrupted: reported, not run again")
def test_after_a_restart_the_job_is_reported_as_interrupted_and_not_run_again(machine):
    machine.start(stage('run.joinpath("count").open("a").write("x"); run.joinpath("ready").touch(); ' + FOREVER))
    machine.wait((machine.home / "run" / "ready").exists)
    before = machine.agent.hello()

    machine.kill()
    machine.boot()
    after = machine.agent.hello()

    assert after.boot_id != before.boot_id
    assert after.boots == 2
    assert (after.job.phase, after.job.stage) == ("interrupted", "train")
    assert (machine.home / "run" / "count").read_text() == "x"
    assert "count" in {file.path for file in machine.manifest().files}


@pytest.mark.fault(48, "the upload goes on where it was")
def test_after_a_restart_the_upload_goes_on_where_it_was(machine):
    machine.agent.put_chunk(BUNDLE_SHA256, 0, BUNDLE[:1000])
    machine.kill()
    machine.boot()

    assert machine.agent.present(BUNDLE_SHA256) == {0}


@pytest.mark.fault(48, "the exit record is still there")
def test_after_a_restart_a_finished_job_is_still_finished(machine):
    machine.start(stage("sys.exit(3)"))
    machine.ended()
    machine.kill()
    machine.boot()

    assert (machine.agent.hello().job.phase, machine.agent.hello().job.exit_code) == ("exited", 3)


def test_when_nobody_is_heard_the_job_saves_and_the_machine_stops_itself(make):
    machine = make().boot()
    machine.start(stage(WAIT_FOR_TERM))
    machine.wait((machine.home / "run" / "ready").exists)
    machine.agent.limits(1.0, 3600.0)

    machine.wait((machine.folder / CLOUD_KEY).exists)

    assert (machine.home / "run" / "saved").read_text() == "yes"
    assert machine.process.poll() is None


def test_at_its_limit_the_machine_stops_itself_though_it_is_heard(make):
    machine = make().boot()
    machine.agent.limits(600.0, 1.0)

    def stopped():
        machine.agent.hello()
        return (machine.folder / CLOUD_KEY).exists()

    machine.wait(stopped)
    assert machine.process.poll() is None


BROKEN = [
    ("/v1/limits", b"no json"),
    ("/v1/job", b"[]"),
    ("/v1/job", b"{}"),
    ("/v1/poll", b'{"cursors":3}'),
    ("/v1/nothing", b"{}"),
    ("/v1/manifest", b'{"patterns":3,"fresh":1}'),
]


def test_a_broken_request_ends_nothing(machine):
    url = f"http://127.0.0.1:{machine.port}"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
        for path, body in BROKEN:
            assert client.post(path, content=body).json()["service"] == "lab-agent"
        assert client.get("/v1/blob?path=x").json()["error"] == "invalid"
        assert client.put("/v1/upload/nonsense/1", content=b"x").json()["error"] == "gone"

    assert machine.agent.hello().boots == 1


def test_a_client_that_leaves_in_the_middle_ends_nothing(machine):
    head = f"PUT /v1/upload/{BUNDLE_SHA256}/0 HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 999\r\n\r\n"
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", machine.port)) as connection:
            connection.sendall(head.encode() + b"half")

    assert machine.agent.present(BUNDLE_SHA256) == frozenset()
    assert machine.agent.hello().boots == 1


def test_the_agent_needs_nothing_but_an_old_python():
    import ast

    folder = Path(__file__).parent.parent.parent / "src" / "lab" / "rental" / "agent"
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert all(one.name.partition(".")[0] in sys.stdlib_module_names for one in node.names), path
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 1 or node.module.partition(".")[0] in sys.stdlib_module_names, path


def test_an_archive_that_is_none_is_refused(machine):
    with pytest.raises(AgentRefused, match="no archive"):
        machine.send(b"not a tar at all")
    with pytest.raises(AgentRefused, match="no archive"):
        machine.send(archive({"a": b"x" * 5000})[:-20])


def test_what_an_earlier_attempt_left_is_laid_into_the_run_directory(machine):
    (machine.home / "run").mkdir()
    (machine.home / "run" / "metrics.jsonl").write_text("old")
    data = archive({"metrics.jsonl": b"line", "attempts/1-summary.json": b"{}", "checkpoint.pt": b"weights"})
    sha256 = hashlib.sha256(data).hexdigest()

    machine.agent.put_chunk(sha256, 0, data)
    machine.agent.commit(sha256, len(data), "run")

    run = machine.home / "run"
    assert {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()} == {
        "metrics.jsonl": b"line", "attempts/1-summary.json": b"{}", "checkpoint.pt": b"weights",
    }  # fmt: skip

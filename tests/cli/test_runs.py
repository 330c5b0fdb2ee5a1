from __future__ import annotations

import json
import os
import signal

import pytest

from lab.cli import runs_tracking
from lab.launch.stops import Stops
from lab.runs import logs, records
from lab.runs.directory import RunDirectory, every
from lab.settings import read_settings

NO_FILES = {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.symlink("/dev/zero", path)}


def make(name, word="completed", **experiment):
    path = read_settings().runs_folder / name
    (path / "logs").mkdir(parents=True)
    run = RunDirectory(path)
    config = {"schema": 1, "backend": "local", "created": "2026-12-01", "experiment": {"name": "smoke", **experiment}}
    records.write_json(run.config, config)
    records.write_json(
        run.outcome, {"schema": 1, "status": word, "attempt": 1, "reason": "" if word == "completed" else "why"}
    )
    return run


@pytest.fixture
def run(project):
    run = make("smoke-20261201-0915-aaaa")
    measured = {"tokens_per_second": 1234.5, "targets": 1000, "steps": 4, "mfu": None, "mfu_reason": "no peak"}
    loss = {"first": 3.0, "last": 2.0, "evaluations": [{"step": 0, "loss": 4.0}, {"step": 6, "loss": 2.5}]}
    records.write_json(run.summary, {"steps": 6, "measured": measured, "loss": loss, "elapsed_seconds": 9.0})
    for stage in ("prepare", "train"):
        records.append_line(run.stages, {"stage": stage, "event": "started"})
        (run.logs / f"{stage}.log").write_text("".join(f"{stage} {number}\n" for number in range(5)))
        records.append_line(run.stages, {"stage": stage, "event": "ended", "exit_code": 0, "seconds": 2.0})
    return run


def test_the_bare_group_lists_the_newest_last(lab, run):
    make("smoke-20261202-0915-bbbb", "failed")

    lines = lab("runs").out.splitlines()

    assert [line.split()[0] for line in lines] == ["RUN", "smoke-20261201-0915-aaaa", "smoke-20261202-0915-bbbb"]
    assert lines[1].split()[1:] == ["✓", "completed", "6", "2.0000", "2.5000", "1,234", "9.0", "s"]


def test_only_the_newest_are_listed_and_the_others_counted(lab, run):
    for minute in range(3):
        make(f"smoke-20261202-091{minute}-bbbb")

    shown = lab("runs", "-n", "2").out

    assert len(shown.splitlines()) == 4
    assert "2 older" in shown
    assert len(lab("runs", "--all").out.splitlines()) == 5


def test_a_list_can_be_narrowed_to_a_status_or_a_tag(lab, run):
    make("smoke-20261202-0915-bbbb", "failed")
    lab("runs", "tag", "smoke-20261201", "baseline")

    by_tag = json.loads(lab("runs", "--tag", "baseline", "--json").out)
    by_status = json.loads(lab("runs", "--status", "failed", "--json").out)

    assert [row["id"] for row in by_tag] == ["smoke-20261201-0915-aaaa"]
    assert [row["id"] for row in by_status] == ["smoke-20261202-0915-bbbb"]


def test_without_runs_the_list_says_how_to_make_one(lab, project):
    assert lab("runs").out == "No runs. Make one with: lab run NAME\n"
    assert json.loads(lab("runs", "--json").out) == []


def test_one_run_is_shown_with_its_figures_stages_and_files(lab, run):
    shown = lab("runs", "show").out

    for words in ("completed", "3.0000 -> 2.0000", "4.0000 -> 2.5000", "1,234 tokens/s", "no peak", "logs/train.log"):
        assert words in shown


def test_json_shows_every_record(lab, run):
    record = json.loads(lab("runs", "show", "latest", "--json").out)

    assert record["status"]["word"] == "completed"
    assert record["summary"]["steps"] == 6
    assert record["config"]["experiment"]["name"] == "smoke"
    assert "config.json" in record["files"]


@pytest.mark.parametrize(
    "name", ["config.json", "outcome.json", "summary.json", "provenance.json", "metrics.jsonl", "tags.json"]
)
@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\x00", b"[" * 100_000])
@pytest.mark.parametrize("command", [("runs",), ("runs", "show"), ("runs", "logs"), ("runs", "show", "--json")])
def test_a_damaged_record_never_ends_in_a_traceback(lab, run, name, content, command):
    (run.path / name).write_bytes(content)

    done = lab(*command)

    assert "Traceback" not in done.err
    assert "bug" not in done.err
    assert done.code == 0


def test_links_in_a_run_are_named_and_never_followed(lab, run):
    (run.path / "up").symlink_to("../..")
    (run.path / "dangling").symlink_to("nowhere")

    files = json.loads(lab("runs", "show", "--json").out)["files"]

    assert "up" in files
    assert "dangling" in files
    assert not any(name.startswith("up/") for name in files)


def test_what_the_loop_noted_of_its_model_stands_before_every_figure(lab, run):
    records.write_json(run.environment, {"notes": {"model": "another model"}})
    records.write_json(run.summary, {"steps": 1, "loss": {"first": 3.0, "last": 2.0}})

    shown = lab("runs", "show").out

    assert 0 < shown.index("another model") < shown.index("loss ")


def test_logs_come_in_the_order_in_which_stages_started(lab, run):
    done = lab("runs", "logs")

    assert done.out.splitlines() == [*(f"prepare {n}" for n in range(5)), *(f"train {n}" for n in range(5))]
    assert done.err == "== prepare\n== train\n"


def test_one_stages_last_lines(lab, run):
    assert lab("runs", "logs", "latest", "--stage", "train", "-n", "2").out == "train 3\ntrain 4\n"
    assert json.loads(lab("runs", "logs", "--json", "-n", "1").out) == {"prepare": ["prepare 4"], "train": ["train 4"]}


def test_a_stage_that_has_no_log_is_a_usage_error(lab, run):
    done = lab("runs", "logs", "latest", "--stage", "trian")

    assert done.code == 2
    assert "Did you mean 'train'?" in done.err


def test_signs_that_could_repaint_the_terminal_are_not_printed(lab, run):
    (run.logs / "train.log").write_bytes(b"\x1b[2Jgone\xff\n")

    assert "\x1b" not in lab("runs", "logs", "latest", "--stage", "train").out


BAR = "loading\n 10%|#  |\r 60%|## |\r100%|###|\r\ndone\r\nnow 5%\rnow 7%\r"
SHOWN = "loading\n100%|###|\ndone\nnow 7%"


@pytest.mark.parametrize("block", [40, 1 << 20])
@pytest.mark.parametrize("options", [(), ("--follow",), ("-n", "9")], ids=str)
def test_of_a_progress_bar_only_the_last_state_is_printed(lab, run, monkeypatch, block, options):
    (run.logs / "train.log").write_text(BAR, newline="")
    monkeypatch.setattr(logs, "BLOCK_BYTES", block)

    assert lab("runs", "logs", "latest", "--stage", "train", *options).out == SHOWN
    assert json.loads(lab("runs", "logs", "--json").out)["train"] == SHOWN.splitlines()


def test_a_log_is_printed_raw_as_it_was_written(lab, run):
    (run.logs / "train.log").write_text(BAR, newline="")

    assert lab("runs", "logs", "latest", "--stage", "train", "--raw").out == BAR
    assert json.loads(lab("runs", "logs", "--json", "--raw").out)["train"] == BAR.split("\n")


def test_the_open_line_of_one_log_stands_before_the_next_log(lab, run):
    (run.logs / "prepare.log").write_text("no end")

    assert lab("runs", "logs").out.startswith("no endtrain 0\n")


def test_following_ends_with_the_run(lab, run):
    assert lab("runs", "logs", "latest", "--stage", "train", "--follow").out.endswith("train 4\n")


def test_a_log_larger_than_the_memory_is_read_from_its_end_and_what_is_left_out_is_said(lab, run):
    os.truncate(run.logs / "train.log", 30 << 30)
    with (run.logs / "train.log").open("ab") as log:
        log.write(b"\nalmost\nlast\n")

    short = lab("runs", "logs", "latest", "--stage", "train", "-n", "2")
    long = lab("runs", "logs", "latest", "--stage", "train", "-n", "3", "--json")

    assert (short.out, short.err) == ("almost\nlast\n", "")
    assert json.loads(long.out)["train"][1:] == ["almost", "last"]
    assert "logs/train.log: its first 30.00 GiB are left out." in long.err


def test_a_whole_log_is_printed_in_pieces_without_breaking_a_character(lab, run, monkeypatch):
    monkeypatch.setattr(logs, "BLOCK_BYTES", 3)
    (run.logs / "train.log").write_bytes("zwölf Bögen\nund mehr \U0001f600".encode() + b"\xf0\x9f")

    assert (
        lab("runs", "logs", "latest", "--stage", "train").out
        == "zwölf Bögen\nund mehr \U0001f600\N{REPLACEMENT CHARACTER}"
    )
    assert lab("runs", "logs", "latest", "--stage", "train", "-n", "1").out.startswith("und mehr")


@pytest.mark.parametrize("options", [(), ("--json",), ("--follow",), ("-n", "1")], ids=str)
@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_in_place_of_a_log_is_named_and_the_others_are_printed(lab, run, make, options):
    (run.logs / "prepare.log").unlink()
    make(run.logs / "prepare.log")

    done = lab("runs", "logs", *options)
    asked = lab("runs", "logs", "latest", "--stage", "prepare", *options)

    assert done.code == 0
    assert "train 4" in done.out
    assert done.err.count("logs/prepare.log: cannot be read: is not a regular file") == 1
    assert asked.code == 1
    assert "logs/prepare.log: cannot be read: is not a regular file" in asked.err


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_without_lines_of_the_stages_every_log_is_printed(lab, run, make):
    run.stages.unlink()
    make(run.stages)

    done = lab("runs", "logs")

    assert done.code == 0
    assert "prepare 4\ntrain 0" in done.out
    assert done.err.count("stages.jsonl: cannot be read: is not a regular file") == 1


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
@pytest.mark.parametrize("name", ["metrics.jsonl", "stages.jsonl", "tracking.jsonl", "summary.json", "outcome.json"])
def test_what_is_no_file_in_a_run_is_named_and_the_run_is_shown(lab, run, name, make):
    (run.path / name).unlink(missing_ok=True)
    make(run.path / name)

    done = lab("runs", "show")
    listed = lab("runs")

    assert (done.code, listed.code) == (0, 0)
    assert f"{name}: " in done.out
    assert "is not a regular file" in done.out
    assert run.id in listed.out


def test_tags_and_a_note_are_put_on_and_taken_off(lab, run):
    lab("runs", "tag", "latest", "a", "b", "--note", "first try")
    done = lab("runs", "tag", "latest", "--remove", "a", "--json")

    assert json.loads(done.out) == {"run_id": run.id, "tags": ["b"], "note": "first try"}


def test_a_run_is_deleted_with_all_its_files_and_no_others(lab, run, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (run.path / "link").symlink_to(outside)

    done = lab("runs", "rm", run.id, "--yes")

    assert done.code == 0
    assert list(run.path.parent.iterdir()) == []
    assert (outside / "kept").exists()


def test_a_run_that_may_not_be_deleted_is_where_it_was(lab, run, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("lab.cli.runs_removing.os.rename", refused)

    answer = lab("runs", "rm", run.id, "--yes")

    assert (answer.code, run.config.is_file()) == (1, True)
    assert "Nothing of it was." in answer.err


def test_deleting_needs_a_yes(lab, run):
    done = lab("runs", "rm", run.id)

    assert done.code == 2
    assert run.config.is_file()


def test_a_run_at_work_is_not_deleted(lab, run):
    records.write_json(run.outcome, {"status": "running", "attempt": 1})

    done = lab("runs", "rm", run.id, "--yes")

    assert done.code == 2
    assert "is running" in done.err
    assert run.config.is_file()


def test_a_run_that_is_just_being_started_is_not_deleted(lab, run):
    records.write_json(run.outcome, {"status": "created", "attempt": 1})

    done = lab("runs", "rm", run.id, "--yes")

    assert (done.code, "being started" in done.err) == (2, True)
    assert run.config.is_file()


def test_a_linked_run_is_not_deleted(lab, run, tmp_path):
    run.path.rename(tmp_path / "elsewhere")
    run.path.symlink_to(tmp_path / "elsewhere")

    done = lab("runs", "rm", run.id, "--yes")

    assert (done.code, "is a link" in done.err) == (2, True)
    assert run.path.is_symlink()


def test_a_tracker_without_a_name_is_a_usage_error(lab, run):
    assert lab("runs", "track", run.id, "--to", "").code == 2


def test_when_one_of_several_cannot_be_found_none_is_deleted(lab, run):
    assert lab("runs", "rm", run.id, "nothing", "--yes").code == 2
    assert every(read_settings().runs_folder) == [run]


def test_a_run_that_has_ended_cannot_be_stopped(lab, run):
    done = lab("runs", "stop", run.id)

    assert done.code == 2
    assert "is not running: it is completed" in done.err


TRACKER = """
import os
from lab import Part, hookimpl

class Mirror:
    def __init__(self, options): pass
    def sync(self, run):
        print("noise")
        if (run.path / "signal").exists():
            number, after = (run.path / "signal").read_text().split()
            try:
                os.kill(os.getpid(), int(number))
            except KeyboardInterrupt:
                if after == "raises":
                    raise
                if after == "fails":
                    raise ValueError("interrupted")
        if (run.path / "broken").exists():
            raise ValueError("the server said no")
        return "http://mirror/" + run.id

@hookimpl
def trackers():
    return [Part("mirror", target="lab_mirror:Mirror")]
"""


@pytest.fixture
def mirrored(run, install_plugin):
    install_plugin("mirror", TRACKER)
    stages = [{"name": "a", "run": ["true"]}]
    records.write_json(run.config, {"schema": 1, "backend": "local", "experiment": {"name": "x", "stages": stages}})
    return run


def test_a_run_is_mirrored_and_only_the_link_is_printed(lab, mirrored):
    done = lab("runs", "track", "latest", "--to", "mirror", "--json")

    assert json.loads(done.out) == {"tracker": "mirror", "link": f"http://mirror/{mirrored.id}"}
    assert "noise" in done.err


@pytest.mark.parametrize("after", ["raises", "swallows", "fails"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_mirror_says_what_is_left_whatever_its_tracker_does_with_it(lab, mirrored, number, code, after):
    (mirrored.path / "signal").write_text(f"{number.value} {after}")
    before = signal.getsignal(number)

    done = lab("runs", "track", "latest", "--to", "mirror", "--live")

    assert (done.code, done.out) == (code, "")
    assert "not all of it is mirrored into mirror.\n" in done.err
    assert f"lab runs track {mirrored.id} --to mirror" in done.err
    assert signal.getsignal(number) is before


def test_an_unknown_tracker_is_a_usage_error(lab, mirrored):
    done = lab("runs", "track", "latest", "--to", "mirrow")

    assert done.code == 2
    assert "Did you mean 'mirror'?" in done.err


def test_live_it_syncs_until_the_run_has_ended(run, monkeypatch):
    synced = []
    waits = []

    class Mirror:
        def sync(self, run):
            synced.append(records.read_json(run.outcome)["status"])
            return "link"

    def ended(seconds):
        waits.append(seconds)
        records.write_json(run.outcome, {"status": "completed", "attempt": 1})

    records.write_json(run.outcome, {"status": "running", "attempt": 1})
    monkeypatch.setattr(runs_tracking.time, "sleep", ended)

    link = runs_tracking._synced(Mirror(), run, Stops(), live=True)

    assert (synced, len(waits), link) == (["running", "completed"], 1, "link")

from __future__ import annotations

import os
import zipfile

import pytest

from lab.errors import LabError, Refused, UsageError
from lab.experiment import PartChoice
from lab.jobs.bundle import Bundle, BundledFile
from lab.launch import plan as planning
from lab.launch import recording, resume
from lab.launch.plan import plan
from lab.plugins import Plugins
from lab.runs import records
from lab.runs.status import boot_id, status
from lab.settings import read_settings

PLUGINS = Plugins()
FILES = {"src/lab/x.py": b"x", "plugins/lab_x/y.py": b"y", "experiments/smoke.toml": b"t", "README.md": b"r"}


class Code:
    """The files that a bundle would hold now."""

    def __init__(self, monkeypatch):
        self.files = dict(FILES)
        monkeypatch.setattr(planning.bundle, "collect", lambda *_, **__: self.bundle())

    def bundle(self):
        return Bundle(tuple(BundledFile(path, content) for path, content in sorted(self.files.items())))


@pytest.fixture
def code(project, monkeypatch):
    return Code(monkeypatch)


@pytest.fixture
def run(code):
    planned = plan("smoke", ["train.steps=4"], read_settings(), PLUGINS, PartChoice(name="local"))
    run, _ = recording.create(planned)
    recording.set_outcome(run, "running")
    recording.set_outcome(run, "stopped", exit_code=143, ended="then")
    with zipfile.ZipFile(run.checkpoint, "w") as archive:
        archive.writestr("archive/data/0", b"weights")
    return run


def prepare(run, as_recorded=False):
    return resume.prepare(run, read_settings(), PLUGINS, as_recorded=as_recorded)


def edit(project, before, after):
    path = project / "experiments" / "smoke.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_the_next_attempt_is_the_same_job_on_the_same_bundle(run):
    ready = prepare(run)

    assert ready.job.attempt == 2
    assert ready.job.bundle_sha256 == records.read_json(run.provenance)["bundle_sha256"]
    assert ready.experiment.train.steps == 4
    assert ready.from_checkpoint
    assert resume.described(ready) == f"{run.id}: attempt 2, from its checkpoint"


def test_preparing_writes_nothing(run):
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}

    prepare(run)

    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("word", "told"), [("completed", "lab run smoke$"), ("running", "is still running")])
def test_a_run_that_needs_no_resume_is_a_usage_error(run, word, told):
    recording.set_outcome(run, word)

    with pytest.raises(UsageError, match=told):
        prepare(run)


def test_a_changed_experiment_is_refused_naming_each_key(run, project):
    edit(project, "learning_rate = 3e-4", "learning_rate = 1e-4")

    with pytest.raises(Refused, match=r"experiment: optimizer\.learning_rate: 0\.0003 -> 0\.0001") as caught:
        prepare(run)

    assert "--as-recorded" in caught.value.do


def test_what_decides_nothing_may_change_and_takes_effect(run, project):
    edit(project, "hours = 1.0", "hours = 2.5")

    ready = prepare(run)
    resume.begin(ready)

    assert ready.job.seconds == 9000
    assert records.read_json(run.config)["experiment"]["limits"]["hours"] == 2.5
    assert records.read_json(run.earlier(1, run.config))["experiment"]["limits"]["hours"] == 1.0


def test_an_experiment_that_is_gone_is_refused(run, project):
    (project / "experiments" / "smoke.toml").rename(project / "other.toml")

    with pytest.raises(Refused, match="can no longer be loaded"):
        prepare(run)


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [("src/lab/x.py", b"edited", "code: src/lab/x.py changed"), ("src/lab/new.py", b"", "code: src/lab/new.py is new"),
     ("plugins/lab_x/y.py", None, "code: plugins/lab_x/y.py is gone")],
)  # fmt: skip
def test_changed_code_is_refused_naming_each_file(run, code, path, content, told):
    code.files[path] = content
    code.files = {name: text for name, text in code.files.items() if text is not None}

    with pytest.raises(Refused, match=told):
        prepare(run)


def test_other_experiments_and_texts_are_no_code(run, code):
    code.files |= {"experiments/other.toml": b"new", "README.md": b"edited"}

    assert prepare(run).job.attempt == 2


def test_as_recorded_goes_on_whatever_changed(run, code, project):
    code.files["src/lab/x.py"] = b"edited"
    edit(project, "learning_rate = 3e-4", "learning_rate = 1e-4")

    ready = prepare(run, as_recorded=True)

    assert ready.experiment.optimizer.learning_rate == 3e-4
    assert ready.job.bundle_sha256 == records.read_json(run.provenance)["bundle_sha256"]


def test_many_differences_are_counted_and_not_all_listed(run, code):
    code.files |= {f"src/{number:03}.py": b"" for number in range(50)}

    with pytest.raises(Refused) as caught:
        prepare(run)

    assert "and 30 more" in caught.value.what


def test_beginning_puts_the_attempt_before_aside(run):
    records.write_json(run.summary, {"status": "stopped"})
    records.append_line(run.metrics, {"kind": "step", "step": 1})

    resume.begin(prepare(run))

    assert not run.summary.exists()
    assert records.read_json(run.earlier(1, run.summary)) == {"status": "stopped"}
    assert records.read_json(run.earlier(1, run.outcome))["status"] == "stopped"
    assert (status(run).word, status(run).attempt) == ("created", 2)
    assert len(list(records.read_lines(run.metrics))) == 1  # the worker knows where its checkpoint stands


def test_of_two_that_resume_at_once_one_is_told(run):
    resumed = pytest.raises(UsageError, match="is being resumed by another command")
    with resume.claim(run), resumed, resume.claim(run):
        pass

    with resume.claim(run):
        resume.begin(prepare(run))
    assert status(run).attempt == 2


def test_a_run_that_went_on_since_it_was_looked_at_is_left_alone(run):
    ready = prepare(run)
    recording.set_outcome(run, "completed", 2)

    with pytest.raises(UsageError, match="went on meanwhile"):
        resume.begin(ready)


@pytest.mark.parametrize("content", [None, b"", b"torn"])
def test_a_damaged_bundle_costs_no_attempt(run, content):
    run.bundle.unlink()
    if content is not None:
        run.bundle.write_bytes(content)

    with pytest.raises(LabError, match=r"bundle\.tar\.gz: (is damaged|cannot be read)"):
        prepare(run)

    assert status(run).attempt == 1


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            lambda content: content.replace(b"weights", b"weighty"),
            "is damaged: archive/data/0 does not have",
        ),
        (lambda content: content[:-40], "is not a checkpoint that can be loaded"),
        (lambda content: b"", "is not a checkpoint that can be loaded"),
    ],
)
def test_a_damaged_checkpoint_costs_no_attempt(run, damage, told):
    run.checkpoint.write_bytes(damage(run.checkpoint.read_bytes()))
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}

    with pytest.raises(LabError, match=told) as caught:
        prepare(run)

    assert "move it away" in caught.value.do
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def test_without_a_checkpoint_it_starts_over_and_keeps_what_was(run):
    run.checkpoint.unlink()
    records.append_line(run.metrics, {"kind": "step", "step": 1})

    ready = prepare(run)
    resume.begin(ready)

    assert "from the start" in resume.described(ready)
    assert run.metrics.read_bytes() == b""
    assert len(list(records.read_lines(run.earlier_metrics(1)))) == 1


@pytest.mark.parametrize("name", ["config.json", "provenance.json"])
@pytest.mark.parametrize("content", [None, "{", "[]", '{"experiment": {"name": 5}}', "{}"])
def test_a_run_whose_records_are_damaged_is_an_error_and_no_traceback(run, name, content):
    (run.path / name).unlink()
    if content is not None:
        (run.path / name).write_text(content)

    for as_recorded in (False, True):
        with pytest.raises(LabError):
            prepare(run, as_recorded)


@pytest.mark.parametrize("backend", [None, "", 3])
def test_a_run_whose_record_names_no_backend_is_an_error_and_no_traceback(run, backend):
    records.write_json(run.config, {**records.read_json(run.config), "backend": backend})

    with pytest.raises(LabError, match=f"The config of run {run.id} names no backend"):
        prepare(run, as_recorded=True)


def test_an_attempt_whose_controller_and_runner_were_killed_is_written_down_before_the_next(run):
    recording.set_outcome(run, "running")
    runner = {"event": "entered", "attempt": 1, "pid": 1, "host": "x", "boot": boot_id() or "", "deadline": 0}
    records.append_line(run.stages, runner)
    records.append_line(run.metrics, {"kind": "step", "step": 1, "loss": 2.0})

    resume.begin(prepare(run))

    outcome = records.read_json(run.earlier(1, run.outcome))
    assert (outcome["status"], outcome["attempt"]) == ("lost", 1)
    assert records.read_json(run.earlier(1, run.summary))["rebuilt"]


NO_FILES = {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.symlink("/dev/zero", path)}


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
@pytest.mark.parametrize(
    "name",
    ["logs/train.log", "logs/runner.log", "metrics.jsonl", "stages.jsonl", "checkpoint.pt", "summary.json",
     "bundle.tar.gz"],
)  # fmt: skip
def test_what_is_no_file_is_named_and_uses_up_no_attempt(run, name, make):
    (run.path / name).unlink(missing_ok=True)
    make(run.path / name)

    with pytest.raises(LabError, match=rf"{name}: cannot be read: is not a regular file"):
        prepare(run)

    assert status(run).attempt == 1

"""A stranger's plugin from its installation to its removal, on the real command line.

The stages of a run are processes of their own, so the plugin is installed in an environment of its own. The tests are
the chapters of one story and share its runs.
"""

from __future__ import annotations

import json

import pytest
from installed import Environment

from lab.runs import records
from lab.runs.directory import every

HOOKS = """
from lab import Part, hookimpl

@hookimpl
def loops():
    return [Part("acme-loop", target="acme_parts:Loop", summary="Eight vectors that learn one label.")]

@hookimpl
def losses():
    return [Part("acme", target="acme_parts:Loss", summary="Cross-entropy.")]

@hookimpl
def observers():
    return [Part("acme-watch", target="acme_parts:Watch", summary="Draws nothing.")]
"""
PARTS = """
import torch
from torch.nn.functional import cross_entropy, linear
from lab.contracts import Observer, Step

class Loss:
    def __init__(self, options):
        self.calls = 0

    def __call__(self, hidden, head, targets):
        self.calls += hidden.shape[0] == 8
        if self.calls > {calls}:
            raise RuntimeError("the kernel broke")
        return cross_entropy(linear(hidden, head).float(), targets, ignore_index=-100, reduction="sum")

class Watch(Observer):
    def __init__(self, options):
        pass

    def step_finished(self, step, line):
        raise ValueError("cannot draw")

class Loop:
    def __init__(self, context):
        self.context = context
        self.hidden = torch.ones(8, 4, requires_grad=True)
        self.head = torch.eye(5, 4)
        self.optimizer = torch.optim.SGD([self.hidden], lr=0.1)

    def steps(self):
        targets = torch.zeros(8, dtype=torch.long)
        while True:
            self.optimizer.zero_grad()
            loss = self.context.loss(self.hidden, self.head, targets)
            loss.backward()
            self.optimizer.step()
            yield Step(loss=loss.detach() / 8, targets=8, gradient_norm=self.hidden.grad.norm(), tokens=8)

    def evaluate(self):
        return None

    def weights(self):
        return "ones"

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass
"""
EXPERIMENT = """
loop = "acme-loop"
loss = "acme"
[observers]
acme-watch = true
[trackers]
mlflow = false
[train]
steps = 2
precision = "fp32"
"""


class Story:
    """A project, an environment, and what is installed in it."""

    def __init__(self, folder):
        self.environment = Environment.create(folder / "environment")
        self.project = folder / "project"
        (self.project / "experiments").mkdir(parents=True)
        (self.project / ".lab").mkdir()
        (self.project / "experiments" / "mine.toml").write_text(EXPERIMENT)
        (self.project / "experiments" / "plain.toml").write_text('loop = "chapter02"\ntrain = { steps = 1 }\n')

    def install(self, version, calls=100):
        files = {"acme_parts.py": PARTS.replace("{calls}", str(calls)) + f"# {version}\n"}
        self.environment.install("acme", HOOKS, version=version, files=files)

    def lab(self, *arguments, **variables):
        return self.environment.lab(*arguments, project=self.project, **variables)

    def runs(self):
        return every(self.project / ".runs")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Two runs: with 1.0, and with 3.0, whose loss raises in the second step; then it is removed."""
    told = Story(tmp_path_factory.mktemp("life"))
    told.ended = {}
    for version, calls in (("1.0", 100), ("3.0", 1)):
        told.install(version, calls)
        told.ended[version] = told.lab("run", "mine")
    told.environment.remove("lab-acme")
    return told


@pytest.fixture
def installed(story):
    """The plugin is there for one test."""
    story.install("3.0", 1)
    yield story
    story.environment.remove("lab-acme")


def run_with(story, version):
    [found] = [run for run in story.runs() if records.read_json(run.provenance)["plugins"][-1]["version"] == version]
    return found


def test_a_strangers_plugin_runs_and_is_in_the_provenance(story):
    assert story.ended["1.0"].returncode == 0
    [ours, acme] = records.read_json(run_with(story, "1.0").provenance)["plugins"]
    assert (ours["name"], ours["parts"]) == ("local", {"backend": ["local"]})
    assert len(acme.pop("files_sha256")) == 64
    assert acme == {
        "name": "acme",
        "distribution": "lab-acme",
        "version": "1.0",
        "requirement": "lab-acme==1.0",
        "installed_from": None,
        "third_party": True,
        "parts": {"loop": ["acme-loop"], "loss": ["acme"], "observer": ["acme-watch"]},
    }


def test_an_observer_that_raises_ends_nothing_and_is_told_at_the_end_with_its_plugin(story):
    lines = story.ended["1.0"].stdout.splitlines()

    [told] = [line for line in lines if "switched off" in line]
    assert told.startswith("observer acme-watch was switched off: step_finished: ValueError: cannot draw")
    assert told.endswith("(in plugin acme (lab-acme 1.0), acme_parts.py:21)")


def test_an_upgrade_is_named_when_its_runs_are_compared(story):
    shown = story.lab("compare", run_with(story, "1.0").id, run_with(story, "3.0").id, "--json")

    [pair] = json.loads(shown.stdout)["pairs"]
    [found] = [one for one in pair["differences"] if one["key"].startswith("plugin ")]
    assert (found["kind"], found["key"], found["declared"]) == ("code", "plugin acme", False)
    assert found["a"].startswith("lab-acme 1.0, files ")
    assert found["b"].startswith("lab-acme 3.0, files ")
    assert [check["name"] for check in pair["checks"] if not check["passed"] and "acme" in check["note"]] == ["code"]


def test_a_loss_that_raises_in_a_step_ends_the_run_with_1_and_names_its_plugin(story):
    ended, run = story.ended["3.0"], run_with(story, "3.0")

    assert ended.returncode == 1
    assert "Error: RuntimeError: the kernel broke (in plugin acme (lab-acme 3.0), acme_parts.py:13" in ended.stdout
    assert [line["step"] for line in records.read_lines(run.metrics)] == [1]
    assert records.read_json(run.outcome)["status"] == "failed"
    assert records.read_json(run.summary)["reason"].startswith("RuntimeError: the kernel broke (in plugin acme")
    assert run.report.is_file()


def test_a_mended_plugin_is_another_one_so_a_run_does_not_go_on_with_it(story):
    story.install("3.1")

    refused = story.lab("resume", run_with(story, "3.0").id)
    story.environment.remove("lab-acme")

    assert refused.returncode == 3
    assert "  plugin: acme 3.0 -> 3.1, with other files" in refused.stderr.splitlines()


@pytest.mark.parametrize("command", [["check", "mine"], ["run", "mine"]])
def test_an_experiment_without_its_plugin_names_it_and_how_to_install_it(story, command):
    refused = story.lab(*command)

    newest = run_with(story, "3.0").id
    told = f"Run {newest} had it from lab-acme 3.0. Run: pip install 'lab-acme==3.0'"
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.splitlines() == [
        f"Error: experiments/mine.toml: loop: no loop is called 'acme-loop'. {told}",
        f"experiments/mine.toml: loss: no loss is called 'acme'. {told}",
        f"experiments/mine.toml: observers.acme-watch: no observer is called 'acme-watch'. {told}",
    ]
    assert len(story.runs()) == 2


def test_a_run_without_its_plugin_is_not_resumed_but_shown_compared_and_reported(story):
    run = run_with(story, "3.0").id

    refused = story.lab("resume", run, "--as-recorded")

    assert refused.returncode == 2
    assert "Run: pip install 'lab-acme==3.0'" in refused.stderr
    for command in (["runs"], ["runs", "show", run], ["report", run], ["compare", run, run_with(story, "1.0").id]):
        shown = story.lab(*command)
        assert (shown.returncode, shown.stderr) == (0, "")


def test_a_blocked_plugin_is_named_as_what_the_experiment_needs(installed):
    refused = installed.lab("check", "mine", LAB_BLOCKED_PLUGINS="acme")

    assert refused.returncode == 2
    assert "had it from lab-acme 3.0, which is blocked: blocked by LAB_BLOCKED_PLUGINS." in refused.stderr
    assert installed.lab("check", "mine").returncode == 0


def test_a_plugin_for_a_newer_lab_is_refused_with_both_versions_and_what_mends_it(installed):
    installed.environment.install("acme", HOOKS, version="4.0", requires=("llm-training-lab>=99",))

    refused = installed.lab("check", "mine")
    others = installed.lab("check", "plain")

    told = (
        "Warning: plugin acme (lab-acme 4.0) is incompatible: needs llm-training-lab >=99, but 0.1.0 is installed. "
        "Run: pip install 'llm-training-lab>=99', or install another version of lab-acme."
    )
    assert refused.returncode == 2
    assert told in refused.stderr.splitlines()
    assert "had it from lab-acme 3.0, which is incompatible: needs llm-training-lab >=99" in refused.stderr
    assert (others.returncode, others.stderr.splitlines()) == (0, [told])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise ImportError('libcuda.so.1')", "ImportError: libcuda.so.1"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        (HOOKS.replace('return [Part("acme",', 'return 1 / 0, [Part("acme",'), "ZeroDivisionError: division by zero"),
    ],
    ids=["at import", "exits", "in a hook"],
)
def test_a_plugin_that_raises_is_one_line_and_hurts_only_who_needs_it(installed, code, reason):
    installed.environment.install("acme", code, version="6.0")
    warning = f"Warning: plugin acme (lab-acme 6.0) is broken: {reason}"

    for command in (["--help"], ["runs", "show", run_with(installed, "1.0").id]):
        shown = installed.lab(*command)
        assert (shown.returncode, shown.stderr) == (0, "")
    plain = installed.lab("check", "plain")
    refused = installed.lab("check", "mine")

    assert (plain.returncode, plain.stderr.splitlines()) == (0, [warning])
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[0] == warning
    assert f"had it from lab-acme 3.0, which is broken: {reason}." in refused.stderr


def test_two_plugins_of_one_name_hurt_only_the_experiment_that_uses_it(installed):
    installed.environment.install("copy", HOOKS, distribution="copied", version="0.2")

    refused = installed.lab("check", "mine", "--set", "loss=cross-entropy")
    mended = installed.lab("check", "mine", LAB_BLOCKED_PLUGINS="copy")
    other = installed.lab("check", "plain")
    installed.environment.remove("copied")

    assert refused.returncode == 2
    assert (
        "loop: two plugins offer a loop called 'acme-loop': acme (lab-acme 3.0) and copy (copied 0.2). "
        "Uninstall one, or block one: LAB_BLOCKED_PLUGINS=copy"
    ) in refused.stderr
    assert (mended.returncode, other.returncode, other.stderr) == (0, 0, "")


def test_each_hook_is_traced_once_on_standard_error_and_json_stays_json(installed):
    traced = installed.lab("plugins", "--json", LAB_TRACE_PLUGINS="1")

    calls = [line.partition("(")[0] for line in traced.stderr.splitlines()]
    assert [call for call in calls if call.startswith("lab_acme.")] == [
        "lab_acme.losses",
        "lab_acme.observers",
        "lab_acme.loops",
    ]
    assert len(calls) == len(set(calls))
    assert {plugin["name"] for plugin in json.loads(traced.stdout)["plugins"]} >= {"acme", "torch"}


@pytest.mark.parametrize("code", ["raise SystemExit('it ran')", "print('it ran')"])
def test_a_command_of_a_plugin_neither_runs_nor_speaks_before_it_is_called(installed, code):
    commands = {"check": "acme_commands:run", "greet": "acme_commands:run"}
    installed.environment.install("acme", HOOKS, version="5.0", commands=commands, files={"acme_commands.py": code})
    plain = installed.lab("--help", LAB_BLOCKED_PLUGINS="acme")

    shown = installed.lab("--help")
    own = installed.lab("check", "--help")
    called = installed.lab("greet", "--loud", "you")

    assert (shown.returncode, shown.stdout, shown.stderr) == (0, plain.stdout, "")
    assert "Check an experiment and show what it resolves to." in own.stdout
    assert called.returncode == 1
    assert "the command 'greet' of lab-acme 5.0 cannot be loaded: " in called.stderr

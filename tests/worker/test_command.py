"""How the worker ends when a plugin's part raises: which plugin it was, an exit code, and records that are whole."""

from __future__ import annotations

import re
import sys

import pytest
from tiny_run import metric_lines, tiny_experiment, tiny_run

from lab.runs import records
from lab.worker import __main__ as worker
from lab.worker import preflight
from lab.worker.command import run_command

ACME = """
from lab import Part, hookimpl
from lab_torch.cross_entropy import CrossEntropy

class Loss(CrossEntropy):
    def __init__(self, options):
        super().__init__(options)
        self.calls = 0
        {building}

    def __call__(self, hidden, head, targets):
        self.calls += 1
        if self.calls > {calls}:
            {training}
        return super().__call__(hidden, head, targets)

@hookimpl
def losses():
    return [Part("acme", target="lab_acme:Loss")]
"""
PLUGIN = re.compile(
    r"\(in plugin acme \(lab-acme 3\.0\), lab_acme\.py:14, called by plugin pretrain \(.+\), loop\.py:\d+\)$"
)
CALLS_OF_TWO_STEPS = 4


@pytest.fixture
def train(project, install_plugin, monkeypatch, capfd):
    """Train with a loss of a plugin, as the stage does; give the exit code, the run and the end of its log."""

    def run(building="pass", training="pass", calls=CALLS_OF_TWO_STEPS, stage=worker.main):
        install_plugin("acme", ACME.format(building=building, training=training, calls=calls), version="3.0")
        made = tiny_run(project, tiny_experiment(loss="acme", evaluate=None))
        monkeypatch.setattr(sys, "argv", ["worker", str(made.path)])
        code = stage()
        return code, made, capfd.readouterr().err

    return run


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        ("raise RuntimeError('the kernel broke')", "RuntimeError: the kernel broke"),
        ("json = __import__('json').loads('{')", "JSONDecodeError: Expecting property name"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("raise BaseException('x')", "BaseException: x"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (of its own: nobody pressed Ctrl-C)"),
    ],
)
def test_a_loss_that_raises_while_it_trains_names_its_plugin_and_leaves_whole_records(train, training, reason):
    code, run, said = train(training=training)

    assert code == 1
    assert said.splitlines()[-1].startswith(f"Error: {reason}")
    assert PLUGIN.search(said.splitlines()[-1])
    assert "Traceback (most recent call last)" in said
    summary = records.read_json(run.summary)
    assert (summary["status"], summary["steps"]) == ("failed", 2)
    assert PLUGIN.search(summary["reason"])
    assert [line["step"] for line in metric_lines(run)] == [1, 2]


def test_a_part_that_cannot_be_built_ends_with_its_traceback_and_then_its_plugin(train):
    code, _, said = train(building="1 / 0")

    assert code == 1
    assert "ZeroDivisionError" in said.partition("Error: the loss")[0]
    assert said.splitlines()[-2] == (
        "Error: the loss 'acme' of plugin acme (lab-acme 3.0) cannot be built: ZeroDivisionError: division by zero"
    )


def test_kernel_checks_that_fail_name_the_plugins_of_what_was_checked(train):
    code, _, said = train(
        training="raise RuntimeError('no kernel')",
        calls=0,
        stage=lambda: run_command("Check.", preflight.preflight),
    )

    assert code == 1
    assert "and the loss 'acme' of plugin acme (lab-acme 3.0):\n" in said
    assert "FAILED  loss equals plain math: RuntimeError: no kernel" in said


def test_what_is_wrong_with_a_run_shows_no_traceback(train, capfd):
    code, run, _ = train()
    run.data_manifest.unlink()
    run.checkpoint.unlink()

    ended = worker.main()

    said = capfd.readouterr().err
    assert (code, ended) == (0, 1)
    assert f"Error: {run.data_manifest} is missing: no data was prepared." in said.splitlines()

"""Every tracker that is installed only mirrors, and the check fails for trackers that do more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.conformance import ContractBroken
from lab.experiment import PartChoice
from lab.plugins import Plugins
from lab.runs.records import read_lines

PLUGINS = Plugins()


@pytest.mark.parametrize("name", PLUGINS.parts("tracker"))
def test_a_tracker(check_tracker, project, tmp_path, name):
    check_tracker(name, lambda: PLUGINS.build("tracker", PartChoice(name=name)), tmp_path / "mirrored")


class Right:
    """Mirrors the whole lines of metrics.jsonl into one file of the store."""

    store = Path(".lab")

    def sync(self, run):
        target = self.store / "mirror.json"
        steps = {line["step"]: repr(line["loss"]) for line in read_lines(run.metrics) if line["kind"] == "step"}
        target.write_text(json.dumps(self.mirrored(target, steps)))
        run.tracker_link("right").write_text(json.dumps({"link": str(target)}))
        return f"file://{run.id}"

    def mirrored(self, target, steps):
        return steps


def read():
    return json.loads(Path(".lab/mirror.json").read_text())


class AppendsAgain(Right):
    def mirrored(self, target, steps):
        before = json.loads(target.read_text()) if target.exists() else []
        return [*before, *steps.values()]


class SkipsWhatCameLater(Right):
    def mirrored(self, target, steps):
        return json.loads(target.read_text()) if target.exists() else steps


class ReadsTheExperiment(Right):
    def sync(self, run):
        Path("experiments/sample.toml").read_text()
        return super().sync(run)


class RewritesTheRecords(Right):
    def sync(self, run):
        run.outcome.write_text(json.dumps({"status": "tracked"}))
        return super().sync(run)


class LeavesAFile(Right):
    def sync(self, run):
        (run.path / "state.db").write_bytes(b"x")
        return super().sync(run)


class ChangesItsLink(Right):
    syncs = 0

    def sync(self, run):
        super().sync(run)
        ChangesItsLink.syncs += 1
        return f"file://{ChangesItsLink.syncs}"


class AnswersWithAnObject(Right):
    def sync(self, run):
        super().sync(run)
        return run


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (AppendsAgain, "a second sync of the same directory changes the mirror"),
        (SkipsWhatCameLater, "does not lead where one sync at the end leads"),
        (ReadsTheExperiment, "sample.toml, but a tracker reads the run directory alone"),
        (RewritesTheRecords, "the tracker changes outcome.json"),
        (LeavesAFile, "the tracker changes state.db"),
        (ChangesItsLink, "the link of one run changes"),
        (AnswersWithAnObject, "not a link or None"),
    ],
)
def test_a_tracker_that_breaks_its_contract_is_found(check_tracker, tmp_path, broken, why):
    with pytest.raises(ContractBroken, match=why):
        check_tracker("right", broken, tmp_path, read=read)


def test_the_broken_trackers_are_right_but_for_what_they_break(check_tracker, tmp_path):
    check_tracker("right", Right, tmp_path, read=read)

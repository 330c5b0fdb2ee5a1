"""The plugin that docs/plugins.md shows is one that works."""

from __future__ import annotations

import re

import pytest
import torch
from documents import REPOSITORY, blocks

from lab.experiment import Experiment, PartChoice
from lab.hookspecs import HOOKS
from lab.plugins import Plugins

PAGE = "docs/plugins.md"
PACKAGE = "lab-smooth/"
FILES = {
    block.file.removeprefix(PACKAGE): block.text for block in blocks(PAGE) if (block.file or "").startswith(PACKAGE)
}


@pytest.mark.parametrize("hook", HOOKS.values())
def test_every_hook_is_documented(hook):
    assert f"| `{hook}` |" in (REPOSITORY / PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("loop", "column"), [("lab_pretrain", 1), ("lab_chapter01", 2), ("lab_chapter02", 2)], ids=lambda value: str(value)
)
def test_the_phases_that_observers_hear_are_those_that_the_loop_opens(loop, column):
    source = (REPOSITORY / "plugins" / loop / "loop.py").read_text(encoding="utf-8")
    shown = (REPOSITORY / PAGE).read_text(encoding="utf-8").partition("| phase |")[2].partition("\n\n")[0]
    table = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", shown, re.MULTILINE)
    opened = re.findall(r"with (?:self\.context\.)?phase\(\"(\w+)\"\)", source)

    assert [row[0] for row in table if row[column] != "-"] == list(dict.fromkeys(opened))


@pytest.fixture
def smooth(install_plugin):
    files = {path: code for path, code in FILES.items() if path.startswith("lab_smooth/")}
    assert set(files) == {"lab_smooth/__init__.py", "lab_smooth/options.py", "lab_smooth/loss.py"}
    install_plugin("smooth", "", files=files)
    return Plugins()


def test_the_plugin_in_the_document_works_and_keeps_the_contract(smooth, check_loss):
    experiment = Experiment.model_validate(
        {"name": "x", "loop": "chapter02", "loss": {"name": "smooth"}, "train": {"steps": 1}}
    )

    assert smooth.check(experiment).loss.options == {"amount": 0.0}
    check_loss(smooth.build("loss", PartChoice(name="smooth")))


def test_its_option_does_what_it_says(smooth):
    hidden, head, targets = torch.ones(1, 2), torch.eye(3, 2), torch.tensor([0])

    plain, smoothed = (
        smooth.build("loss", PartChoice(name="smooth", amount=amount))(hidden, head, targets) for amount in (0.0, 0.5)
    )

    assert smoothed > plain


def test_the_test_in_the_document_passes(smooth, check_loss):
    scope: dict[str, object] = {}
    exec(FILES["tests/test_smooth.py"], scope)

    scope["test_it_is_a_sum_over_targets_with_its_gradients"](check_loss)

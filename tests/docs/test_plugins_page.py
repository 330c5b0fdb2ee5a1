"""The plugin that docs/plugins.md shows is one that works."""

from __future__ import annotations

import re

import pytest
import torch
from documents import REPOSITORY, blocks

from lab.experiment import PartChoice, load
from lab.hookspecs import HOOKS
from lab.plugins import Plugins

PAGE = "docs/plugins.md"


def shown(package: str) -> dict[str, str]:
    """The files of a package that the page shows, by their path in it."""
    written = [block for block in blocks(PAGE) if (block.file or "").startswith(package)]
    return {str(block.file).removeprefix(package): block.text for block in written}


FILES = shown("lab-smooth/")


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
    experiment = load("smoke", REPOSITORY / "experiments", ["loss=smooth"]).experiment

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


def test_the_observer_in_the_document_draws_a_figure_and_passes_its_tests(install_plugin, check_observer, tmp_path):
    files = {"lab_layer_sizes/__init__.py": "", **shown("lab-layer-sizes/")}
    install_plugin("layer-sizes", "", files=files)
    scope: dict[str, object] = {}
    exec(files["tests/test_lab_layer_sizes.py"], scope)
    (tmp_path / "contract").mkdir()
    (tmp_path / "figure").mkdir()

    scope["test_it_keeps_the_contract"](check_observer, tmp_path / "contract")
    scope["test_the_report_gets_a_figure_of_the_first_step"](tmp_path / "figure")

    assert (tmp_path / "figure" / "layer-sizes.svg").is_file()

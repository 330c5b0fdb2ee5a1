"""Chapter 2 as a reader meets it: the commands of docs/chapters.md in a real repository, and the README's answers."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from lab.contracts import LoopContext
from lab.experiment import load
from lab.plugins import Plugins
from lab_chapter02.loop import UnequalMicroBatches

REPOSITORY = Path(__file__).parents[2]
COPIED = ("src", "plugins", "experiments", "pyproject.toml", "README.md", "LICENSE", "constraints.txt", ".gitignore")
LOOP = Path("plugins/lab_chapter02/loop.py")


def shell(folder: Path, command: str) -> str:
    """One command of a document, typed in `folder`; what it printed on both streams."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAB_", "MLFLOW_", "WANDB_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**kept, **identity, "PATH": path, "GIT_CONFIG_GLOBAL": os.devnull, "COLUMNS": "200"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def blocks(document: str) -> list[list[str]]:
    """The commands of each block of a document, without their comments."""
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    found = re.findall(r"^ *```sh\n(.*?)^ *```$", text, flags=re.MULTILINE | re.DOTALL)
    return [[line.partition(" # ")[0].strip() for line in block.splitlines()] for block in found]


@dataclass(frozen=True)
class Published:
    """A repository in which chapter 2 was published and changed, and whose code of the article was found again."""

    folder: Path
    run: Path
    said: str
    """What `lab run chapter02` printed."""
    tags: str
    found: dict[str, Any]
    """The provenance of a run that was planned from the code found, and not made again."""

    def record(self, name: str) -> dict[str, Any]:
        return json.loads((self.run / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    folder = tmp_path_factory.mktemp("repository")
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    shell(folder, "git init -q -b main && git add -A && git commit -q -m 'Write chapter 2'")
    [unsaved, tag, run, publish], [listing, switch, again, back] = blocks("docs/chapters.md")
    assert shell(folder, unsaved) == ""
    shell(folder, tag)
    # The mirror takes seconds and has tests of its own.
    said = shell(folder, f"{run} --set trackers.mlflow=false")
    shell(folder, publish)
    loop = folder / LOOP
    loop.write_text(loop.read_text(encoding="utf-8").replace("self.options.clip", "0.5 * self.options.clip"))
    shell(folder, "git add -A && git commit -q -m 'Change the loop after the article'")
    tags = shell(folder, listing)
    shell(folder, switch)
    found = json.loads(shell(folder, f"{again} --dry-run --json"))["provenance"]
    shell(folder, back)
    [made] = (folder / ".runs").iterdir()
    return Published(folder, made, said, tags, found)


def test_the_run_of_an_article_says_which_tag_it_is(published: Published) -> None:
    [code] = [line for line in published.said.splitlines() if line.startswith("code ")]

    assert ", tag chapter02-v1," in code
    assert "changed" not in code
    assert published.record("provenance.json")["repository"]["tags"] == ["chapter02-v1"]


def test_what_is_published_names_commit_and_tag(published: Published) -> None:
    readme = (published.folder / "reports" / "chapter02-v1" / "README.md").read_text(encoding="utf-8")

    commit = published.record("provenance.json")["repository"]["commit"]
    assert f"{commit}, tag chapter02-v1" in readme


def test_the_code_found_by_the_tag_is_the_code_that_ran_though_the_branch_has_moved_on(published: Published) -> None:
    ran = published.record("provenance.json")

    assert published.tags == "chapter02-v1\n"
    assert "0.5 * self.options.clip" in (published.folder / LOOP).read_text(encoding="utf-8")
    assert (published.found["code_sha256"], published.found["files"]) == (ran["code_sha256"], ran["files"])
    assert published.found["repository"]["tags"] == ["chapter02-v1"]


def test_a_run_shows_its_tag(published: Published) -> None:
    shown = shell(published.folder, f"lab runs show {published.run.name}")

    assert re.search(r"^code +[0-9a-f]{12} +tag chapter02-v1$", shown, flags=re.MULTILINE)


def test_the_readme_answers_what_the_run_shows(published: Published) -> None:
    readme = " ".join((REPOSITORY / "plugins" / "lab_chapter02" / "README.md").read_text(encoding="utf-8").split())
    record = published.record("chapter02.json")
    steps, counts = record["steps"], record["targets_of_each_micro_batch"]

    assert f"micro-batches, of {counts[0]}, {counts[1]} and {counts[2]} targets" in readme
    assert f"divided once by {sum(counts)}" in readme
    assert f"By {100 * steps[0]['wrong_gradient_error']:.0f} % in the first step" in readme
    assert f"to {steps[-1]['wrong_gradient_error']:.0f} times that length after {len(steps)} steps" in readme
    assert max(step["right_gradient_error"] for step in steps) < 1e-5
    assert f"{100 * counts[0] / sum(counts):.1f} % and {100 / len(counts):.1f} %" in readme


def test_the_readmes_second_command_makes_both_ways_agree(tmp_path: Path) -> None:
    [_, [command]] = blocks("plugins/lab_chapter02/README.md")
    _, _, _, flag, change = shlex.split(command)
    experiment = load("chapter02", REPOSITORY / "experiments", [change]).experiment

    loop = UnequalMicroBatches(
        LoopContext(
            experiment=experiment,
            options=Plugins().options("loop", experiment.loop),
            device=torch.device("cpu"),
            attention=None,
            loss=None,
            tokens=None,
            folder=tmp_path,
            phase=lambda name: nullcontext(),
            add_artifact=lambda path, kind, title: None,
            note=lambda key, value: None,
        )
    )

    assert flag == "--set"
    assert next(loop.steps()).values["wrong_gradient_error"] < 1e-5


def test_the_page_shows_what_each_micro_batch_weighs_in_both_ways(published: Published) -> None:
    page = (published.run / "report.html").read_text(encoding="utf-8")
    [address] = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)" alt="A mean of means', page)
    shown = [element.text for element in ElementTree.fromstring(base64.b64decode(address)).iter() if element.text]

    for text in ("2 targets", "55 targets", "203 targets", "0.8%", "21.2%", "78.1%", "sum, divided once"):
        assert text in shown
    assert shown.count("33.3%") == 3

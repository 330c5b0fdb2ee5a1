"""Reads a document as its reader does: writes the files it says, types its commands, in its order, in a new project.

The project is a folder as a clone has it, but for three things that spare time and no command: its environment is made
already, so that `make smoke` installs nothing; `smoke` is smaller; what comes from a network comes from this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from documents import REPOSITORY, Block, blocks
from installed import FOREIGN, Environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COPIED = (
    ".env.example", ".gitignore", "Makefile", "README.md", "constraints.txt", "docs", "experiments", "pyproject.toml",
)  # fmt: skip
PERSON = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": f"reader@{who}.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
"""Who commits and tags, whatever this machine's git is told."""
SCRIPTS = {"lab": "lab.__main__:main", "pip": "pip._internal.cli.main:main", "pytest": "pytest:console_main"}
OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_BUILD_ISOLATION": "0",  # pip takes a false value of this variable for --no-build-isolation
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_CONFIG_FILE": os.devnull,
}
"""What pip needs is installed here: a package of the reader's own is built without a network."""
SMALLER = {
    "train_tokens": "40_000",
    "validation_tokens": "4_000",
    "context": "512",
    "layers": "1",
    "width": "32",
    "heads": "2",
    "tokens": "512",
}
SECONDS = 300


@dataclass
class Walk:
    """How one document went: each block that was executed, and the first one that failed."""

    executed: list[Block] = field(default_factory=list)
    failed: Block | None = None
    output: str = ""


def new_project(folder: Path) -> Path:
    """A project with an environment of its own in `.venv`, as the README's first command leaves it."""
    folder.mkdir(parents=True)
    for name in COPIED:
        source = REPOSITORY / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    smoke = folder / "experiments" / "smoke.toml"
    text = smoke.read_text(encoding="utf-8")
    for key, value in SMALLER.items():
        text, found = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
        assert found, f"the experiment smoke has no {key} any more"
    smoke.write_text(text, encoding="utf-8")
    environment = Environment.create(folder / ".venv")
    for name, target in SCRIPTS.items():
        environment.script(name, target)
    (folder / ".venv" / "installed-pinned").touch()  # newer than pyproject.toml: make finds nothing to install
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "As cloned")):
        subprocess.run(["git", *command], cwd=folder, env={**os.environ, **PERSON}, check=True)
    return folder


def walk(document: str, project: Path, variables: Mapping[str, str]) -> Walk:
    """Write and type what the document says, until a command fails."""
    done = Walk()
    known = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    path = os.pathsep.join((str(project / ".venv" / "bin"), os.environ["PATH"]))
    environment = {**known, **PERSON, **OFFLINE, "PATH": path, **variables}
    for block in blocks(document):
        if block.file is not None:
            (project / block.file).parent.mkdir(parents=True, exist_ok=True)
            (project / block.file).write_text(block.text, encoding="utf-8")
        elif block.runs:
            command = ["bash", "-euo", "pipefail", "-c", block.text]
            ended = subprocess.run(
                command, cwd=project, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
            done.executed.append(block)
            if ended.returncode:
                done.failed, done.output = block, ended.stdout
                break
    return done

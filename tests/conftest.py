"""Fixtures for every room: an isolated project folder, and plugins installed for one test."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = Path(__file__).parent.parent
FOREIGN = ("LAB_", "WANDB_", "MLFLOW_", "RUNPOD_", "HF_")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own: experiments/ copied, working directory inside, no variable of this machine's lab."""
    folder = tmp_path / "project"
    shutil.copytree(REPOSITORY / "experiments", folder / "experiments")
    (folder / ".lab").mkdir()
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    return folder


@dataclass(frozen=True)
class Outcome:
    """What one command line left: its exit code and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def lab(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run one command line in the project, as a shell would: `lab("check", "smoke", "--json").out`."""
    from lab.cli import main

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["lab", *map(str, arguments)])
        monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer replaces it
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0 if code is None else 1, printed.out, printed.err)

    return run


@pytest.fixture
def install_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Install a one-module plugin for one test: `install_plugin("acme", code)` gives the entry point `acme`.

    Keywords: `module` (default lab_<name>), `distribution`, `version`, `requires` (requirement lines),
    `commands` (entry points of lab.commands: name to "module:attribute"), `files` (more files, by relative path).
    Returns the folder that stands for its site-packages.
    """
    before = set(sys.modules)

    def install(
        name: str,
        code: str,
        *,
        module: str | None = None,
        distribution: str | None = None,
        version: str = "1.0",
        requires: tuple[str, ...] = (),
        commands: dict[str, str] | None = None,
        files: dict[str, str] | None = None,
    ) -> Path:
        module = module or "lab_" + name.replace("-", "_")
        distribution = distribution or f"lab-{name}"
        site = tmp_path / "site" / distribution
        info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        sources = {f"{module}.py": code, **(files or {})}
        for path, text in sources.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text, encoding="utf-8")
        lines = [f"Requires-Dist: {line}\n" for line in requires]
        head = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(head + "".join(lines), encoding="utf-8")
        entries = f"[lab]\n{name} = {module}\n"
        if commands:
            entries += "[lab.commands]\n" + "".join(f"{key} = {value}\n" for key, value in commands.items())
        (info / "entry_points.txt").write_text(entries, encoding="utf-8")
        (info / "RECORD").write_text("".join(f"{path},,\n" for path in sources), encoding="utf-8")
        monkeypatch.syspath_prepend(site)
        importlib.invalidate_caches()
        return site

    yield install

    for added in set(sys.modules) - before:
        origin = getattr(sys.modules[added], "__file__", None) or ""
        if origin.startswith(str(tmp_path)):
            del sys.modules[added]

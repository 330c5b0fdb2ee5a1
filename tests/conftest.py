"""Fixtures for every room: an isolated project folder, and plugins installed for one test."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from installed import FOREIGN, write_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = Path(__file__).parent.parent


def pytest_configure() -> None:
    """Hear signals as from a terminal, also where the tests run in the background and would pass on deaf ears."""
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGHUP else signal.default_int_handler)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of its own: experiments/ copied, working directory inside, no variable of this machine's lab."""
    known = dict(os.environ)
    folder = tmp_path / "project"
    shutil.copytree(REPOSITORY / "experiments", folder / "experiments")
    (folder / ".lab").mkdir()
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    yield folder
    os.environ.clear()  # a command puts what only `.env` has into its own process
    os.environ.update(known)


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

    Takes the keywords of `installed.write_plugin`. Returns the folder that stands for its site-packages.
    """
    before = set(sys.modules)

    def install(name: str, code: str, **keywords: Any) -> Path:
        folder = tmp_path / "site" / (keywords.get("distribution") or f"lab-{name}")
        write_plugin(folder, name, code, **keywords)
        monkeypatch.syspath_prepend(folder)
        importlib.invalidate_caches()
        return folder

    yield install

    for added in set(sys.modules) - before:
        origin = getattr(sys.modules[added], "__file__", None) or ""
        if origin.startswith(str(tmp_path)):
            del sys.modules[added]

"""Breaks the code on purpose: each patch in this folder must turn the test that it names red.

    python tests/mutants/run.py [PART OF A NAME ...]

A mutant is a unified diff, `<room>-<what>.patch`, that begins with two lines:

    # test: tests/data/test_segments.py::test_positions_restart
    # why: one sentence that says what would go wrong unnoticed

It is applied to a copy of the tree, and the test is run there. It must fail, not break: a test that cannot be imported
or found proves nothing. Every named test must pass in the copy without a patch. Torch is imported once; each mutant is
a fork of this process, so that it costs little more than its test.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
COPIED = (
    "src",
    "plugins",
    "tests",
    "experiments",
    "docs",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    ".env.example",
)
PROCESSES = 2
LIMIT_SECONDS = 180
"""Of one mutant."""
LIMIT_SECONDS_OF_ALL = 1800
"""Of the control, which runs the tests of every mutant."""
HEADER = re.compile(r"^# (test|why): (.+)$", re.MULTILINE)
WORDS = {0: "survived: the test still passes", 4: "no test of that name", 5: "no test of that name"}
WORDS |= {2: "breaks the import or the collection, so it proves nothing", 3: "breaks pytest itself"}


@dataclass(frozen=True)
class Mutant:
    """One patch; without one it is the control, which must pass."""

    name: str
    tests: tuple[str, ...]
    why: str = ""
    patch: Path | None = None


@dataclass
class Attempt:
    """A mutant that is being tried in a process of its own."""

    mutant: Mutant
    folder: Path
    started: float

    @property
    def limit_seconds(self) -> float:
        """After which it is killed, and is no proof."""
        return LIMIT_SECONDS_OF_ALL if self.mutant.patch is None else LIMIT_SECONDS


def read(patch: Path) -> Mutant:
    found = HEADER.findall(patch.read_text(encoding="utf-8"))
    tests = tuple(text.strip() for key, text in found if key == "test")
    reasons = [text.strip() for key, text in found if key == "why"]
    if not tests or len(reasons) != 1:
        raise SystemExit(f"{patch.name}: must begin with '# test: ...' and one '# why: ...'")
    return Mutant(patch.stem, tests, reasons[0], patch)


def copy(folder: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache")
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        elif source.exists():
            shutil.copy2(source, folder / name)


def applied(patch: Path, folder: Path) -> str:
    """Apply the patch in the copy; return why it does not apply."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = ["git", "apply", "--whitespace=nowarn", str(patch)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


def test(mutant: Mutant, folder: Path) -> int:
    """Run the named tests against the copy; this process is a fork and ends afterwards."""
    log = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.setsid()
    os.chdir(folder)
    paths = [str(folder / name) for name in ("src", "plugins", "tests")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:0] = paths
    # Only the plugins that our tests use: finding and importing all others takes longer than most tests.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options = ["-q", "-p", "lab.conformance.plugin", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    return int(pytest.main([*options, *([] if mutant.patch is None else ["-x"]), *mutant.tests]))


def verdict(attempt: Attempt, status: int) -> str:
    """Why the attempt proves nothing; empty when it does."""
    code = os.waitstatus_to_exitcode(status)
    control = attempt.mutant.patch is None
    if code == (0 if control else 1):
        return ""
    tail = "\n".join((attempt.folder / "output.txt").read_text(errors="replace").splitlines()[-25:])
    if control:
        return f"the tests do not pass without a mutant\n{tail}"
    return WORDS.get(code, f"ended with {code}") + (f"\n{tail}" if code else "")


class Trials:
    """Tries every mutant, two at a time, and tells each one's fate as it is known."""

    def __init__(self, mutants: list[Mutant], place: Path) -> None:
        self.waiting, self.place = list(mutants), place
        self.running: dict[int, Attempt] = {}
        self.bad: list[Mutant] = []

    def run(self) -> list[Mutant]:
        while self.waiting or self.running:
            while self.waiting and len(self.running) < PROCESSES:
                self.begin(self.waiting.pop(0))
            if not self.end_one():
                self.kill_overdue()
                time.sleep(0.02)
        return self.bad

    def begin(self, mutant: Mutant) -> None:
        folder = Path(tempfile.mkdtemp(dir=self.place))
        copy(folder)
        if mutant.patch is not None and (reason := applied(mutant.patch, folder)):
            self.tell(mutant, f"no longer applies: {reason}", 0.0)
            return
        started = time.monotonic()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            code = 3
            try:
                code = test(mutant, folder)
            finally:
                os._exit(code)
        self.running[child] = Attempt(mutant, folder, started)

    def end_one(self) -> bool:
        child, status = os.waitpid(-1, os.WNOHANG) if self.running else (0, 0)
        if child == 0:
            return False
        attempt = self.running.pop(child)
        self.tell(attempt.mutant, verdict(attempt, status), time.monotonic() - attempt.started)
        shutil.rmtree(attempt.folder, ignore_errors=True)
        return True

    def kill_overdue(self) -> None:
        for child, attempt in self.running.items():
            if time.monotonic() - attempt.started > attempt.limit_seconds:
                os.killpg(child, signal.SIGKILL)

    def tell(self, mutant: Mutant, fault: str, seconds: float) -> None:
        word = "FAULT" if fault else "found" if mutant.patch else "ok   "
        sys.stdout.write(f"{word}  {mutant.name}  ({seconds:.1f} s)\n")
        sys.stdout.write("".join(f"       {line}\n" for line in fault.splitlines()))
        if fault:
            self.bad.append(mutant)


def main(wanted: list[str]) -> int:
    patches = sorted(HERE.glob("*.patch"))
    mutants = [read(patch) for patch in patches if not wanted or any(part in patch.name for part in wanted)]
    if not mutants:
        raise SystemExit(f"no mutant is called {' or '.join(wanted)}; there are: {', '.join(p.stem for p in patches)}")
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    sys.dont_write_bytecode = True
    for name in ("numpy", "pydantic_settings", "torch", "torch._dynamo"):  # shared by all forks
        importlib.import_module(name)
    begun = time.monotonic()
    control = Mutant("without a mutant", tuple(dict.fromkeys(test for mutant in mutants for test in mutant.tests)))
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        bad = Trials([control, *mutants], Path(place)).run()
    seconds = time.monotonic() - begun
    found = len(mutants) - sum(mutant.patch is not None for mutant in bad)
    sys.stdout.write(f"{found} of {len(mutants)} mutants found by their tests, in {seconds:.0f} s\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What the doctor looks at. Nothing heavy is imported and nothing is changed on this machine."""

from __future__ import annotations

import os
import shutil
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import typer

from lab.cli.output import plain, print_json, table
from lab.cli.output import show as output
from lab.compare.formats import size
from lab.errors import LabError, UsageError
from lab.experiment import PartChoice
from lab.rental.provider import CheckResult, NotAuthorized

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lab.settings import Settings

LITTLE_DISK_BYTES = 5 * 2**30
MARKS = {True: ("ok", "green"), False: ("FAIL", "bold red"), None: ("-", "dim")}
KEYS = {
    "RUNPOD_API_KEY": "only renting on RunPod needs it",
    "WANDB_API_KEY": "without it W&B is written offline",
    "HF_TOKEN": "only private downloads need it",
}


def local(settings: Settings) -> list[CheckResult]:
    """Everything that can be known here, without a network and for nothing."""
    return [*_python(), *_disk(settings), *_keys(settings), *_plugins(settings)]


def _python() -> Iterator[CheckResult]:
    yield CheckResult("Python", sys.version_info >= (3, 11), sys.version.split()[0])
    try:
        yield CheckResult("torch", True, version("torch"))
    except PackageNotFoundError:
        told = (
            "not installed: this machine can rent, compare and report; pip install 'llm-training-lab[train]' to train"
        )
        yield CheckResult("torch", None, told)


def _disk(settings: Settings) -> Iterator[CheckResult]:
    for name, folder in (("runs", settings.runs_folder), ("store", settings.store_folder)):
        existing = _existing(folder)
        free = shutil.disk_usage(existing).free
        writable = os.access(existing, os.W_OK)
        enough = free >= LITTLE_DISK_BYTES
        faults = f"{'' if enough else f', less than {size(LITTLE_DISK_BYTES)}'}{'' if writable else ', not writable'}"
        yield CheckResult(f"{name} folder", writable and enough, f"{folder}: {size(free)} free{faults}")


def _existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _keys(settings: Settings) -> Iterator[CheckResult]:
    """Whether a key is set, never what it is; none is needed to train here."""
    from lab.launch.variables import variables

    known = variables(settings)
    for name, without in KEYS.items():
        there = bool(known.get(name))
        yield CheckResult(name, True if there else None, "set" if there else f"not set; {without}")


def _plugins(settings: Settings) -> Iterator[CheckResult]:
    from lab.plugins import load

    installed = load(settings).installed
    unusable = [plugin for plugin in installed if plugin.state not in ("loaded", "blocked")]
    for plugin in unusable:
        yield CheckResult(f"plugin {plugin.name}", False, str(plugin.error))
    states = [plugin.state for plugin in installed]
    blocked = f", {states.count('blocked')} blocked" if "blocked" in states else ""
    yield CheckResult("plugins", not unusable, f"{states.count('loaded')} of {len(installed)} loaded{blocked}")


def live(name: str, settings: Settings, *, yes: bool) -> Sequence[CheckResult]:
    """Hand over to the backend's own live check, after a question, because it spends money."""
    from lab.cli.rentals_finding import say
    from lab.plugins import load
    from lab.rental.backend import RentedBackend
    from lab.rental.provider import LiveCheck

    plugins = load(settings)
    plugins.find("backend", name)  # an unknown or empty name is told as one
    backend = plugins.build("backend", PartChoice(name=name))
    if not isinstance(backend, RentedBackend) or not isinstance(backend.provider, LiveCheck):
        raise UsageError(f"Backend '{name}' has no live check.", "Leave out --backend to check this machine.")
    try:
        backend.provider.account()
    except NotAuthorized as error:
        raise LabError(f"{name} cannot be asked: {error.message}", "Then call this again.") from error
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("A live check costs a few cents, and nobody is here to say yes.", "Say it with --yes.")
        typer.confirm(f"This rents a cheap machine on {name} for a few minutes, for a few cents. Start?", abort=True)
    folder = settings.store_folder / "doctor" / time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    folder.mkdir(parents=True)
    say(f"answers are saved in {folder}")
    return backend.provider.live_check(folder, say)


def show(checks: Sequence[CheckResult], *, as_json: bool) -> int:
    """Print every check; 1 when one failed."""
    passed = all(check.passed is not False for check in checks)
    if as_json:
        print_json({"checks": checks, "passed": passed})
    else:
        listing = table("CHECK", "", "", whole=("CHECK", ""))
        for check in checks:
            listing.add_row(plain(check.name), plain(*MARKS[check.passed]), plain(check.detail))
        output(listing)
    return 0 if passed else 1

"""What earlier attempts left at home, for a new machine to go on from: checkpoint, metrics, records, logs."""

from __future__ import annotations

import hashlib
import tarfile
from typing import TYPE_CHECKING

from lab.rental import paths, transfer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.rental.agent_contract import Agent
    from lab.rental.rental import Rental
    from lab.runs.directory import RunDirectory

SLOWEST_BYTES_PER_SECOND = 100_000
LEAST_SECONDS = 1800.0


def send(rental: Rental, agent: Agent) -> None:
    """Lay the run directory as it is at home, launch's own files aside, into the machine's."""
    packed = rental.journal.folder / "earlier.tar"
    try:
        pack(rental.run, packed)
        with packed.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        seconds = max(LEAST_SECONDS, packed.stat().st_size / SLOWEST_BYTES_PER_SECOND)
        rental.say(f"sending what earlier attempts left: {packed.stat().st_size / 1e6:.1f} MB")
        transfer.upload(rental, agent, packed, sha256, seconds, into="run")
    finally:
        packed.unlink(missing_ok=True)


def pack(run: RunDirectory, archive: Path) -> None:
    """Write the files of earlier attempts into one archive."""
    with tarfile.open(archive, "w") as tar:
        for name in files(run):
            tar.add(run.path / name, arcname=name, recursive=False)


def files(run: RunDirectory) -> Iterator[str]:
    """The run's own files: no link, nothing unfinished, none of launch's."""
    for path in sorted(run.path.rglob("*")):
        name = path.relative_to(run.path).as_posix()
        plain = path.is_file() and not path.is_symlink()
        if plain and not path.name.startswith(".") and name not in paths.reserved(run) and paths.fault(name) is None:
            yield name

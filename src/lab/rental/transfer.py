"""Moving what a job needs and makes: the bundle out in hashed chunks, every result home, several files at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lab.rental import paths
from lab.rental.agent_contract import CHUNK_BYTES, AgentRefused, Skipped
from lab.rental.fetching import DAMAGED_TRIES, Damaged, Errand, fetch
from lab.rental.rental import GiveUp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from lab.rental.agent_contract import Agent, Manifest, RemoteFile
    from lab.rental.rental import Rental

SLOWEST_BYTES_PER_SECOND = 100_000
LEAST_SECONDS = 600.0


def upload(
    rental: Rental, agent: Agent, archive: Path, sha256: str, seconds: float, into: Literal["code", "run"] = "code"
) -> None:
    """Bring an archive to the machine, without what is there already, and have it checked and unpacked."""
    until = rental.clock.monotonic() + seconds
    for _ in range(DAMAGED_TRIES):
        present = rental.talk(lambda: agent.present(sha256), seconds)
        _put_missing(rental, agent, archive, sha256, present, until)
        try:
            rental.talk(lambda: agent.commit(sha256, archive.stat().st_size, into), _left(rental, until))
        except AgentRefused as error:
            if error.code != "damaged":
                raise
        else:
            return
    raise GiveUp(f"{archive.name} arrives damaged every time")


def _put_missing(
    rental: Rental, agent: Agent, archive: Path, sha256: str, present: frozenset[int], until: float
) -> None:
    count = max(1, -(-archive.stat().st_size // CHUNK_BYTES))
    with archive.open("rb") as file:
        for index in range(count):
            if index not in present:
                file.seek(index * CHUNK_BYTES)
                _put(rental, agent, sha256, index, file.read(CHUNK_BYTES), until)


def _put(rental: Rental, agent: Agent, sha256: str, index: int, data: bytes, until: float) -> None:
    for attempt in range(DAMAGED_TRIES):
        try:
            rental.talk(lambda: agent.put_chunk(sha256, index, data), _left(rental, until))
            return
        except AgentRefused as error:
            if error.code != "damaged" or attempt == DAMAGED_TRIES - 1:
                raise


def _left(rental: Rental, until: float) -> float:
    return max(1.0, until - rental.clock.monotonic())


@dataclass
class Collected:
    """What came of a download: nothing in `failures` means that every result is home."""

    files: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    received_bytes: int = 0


def download(rental: Rental, agent: Agent, manifest: Manifest) -> Collected:
    """Bring every file home and say by name what failed; what is here already is not sent again."""
    collected = Collected()
    wanted = [file for file in manifest.files if _acceptable(rental, file.path, collected)]
    seconds = max(LEAST_SECONDS, sum(file.size for file in wanted) / SLOWEST_BYTES_PER_SECOND)
    errand = Errand(rental, agent, rental.clock.monotonic() + seconds)
    if rental.streams > 1:
        with ThreadPoolExecutor(rental.streams, thread_name_prefix="collect") as pool:
            _bring(errand, wanted, collected, pool)
    else:
        _bring(errand, wanted, collected, None)
    collected.files = len(wanted)
    collected.received_bytes = errand.received_bytes
    return collected


def _acceptable(rental: Rental, path: str, collected: Collected) -> bool:
    if path in paths.reserved(rental.run):
        return False
    fault = paths.fault(path)
    if fault is None and paths.inside(rental.run.path, path) is None:
        fault = "a link here would lead it out of the run directory"
    if fault is not None:
        collected.skipped.append(Skipped(path, fault))
    return fault is None


def _bring(errand: Errand, files: Sequence[RemoteFile], collected: Collected, pool: Executor | None) -> None:
    """Small files side by side, then each large one with its chunks side by side."""
    small = [file for file in files if len(file.chunks) <= 1]
    for file, fault in zip(small, _all(errand, small, pool), strict=True):
        if fault is not None:
            collected.failures.append((file.path, fault))
    for file in files:
        if len(file.chunks) > 1:
            fault = _one(errand, file, pool)
            if fault is not None:
                collected.failures.append((file.path, fault))


def _all(errand: Errand, files: Sequence[RemoteFile], pool: Executor | None) -> Sequence[str | None]:
    if pool is None:
        return [_one(errand, file, None) for file in files]
    return list(pool.map(lambda file: _one(errand, file, None), files))


def _one(errand: Errand, file: RemoteFile, pool: Executor | None) -> str | None:
    """Fetch one file; return what went wrong with it, so that the others still come."""
    try:
        fetch(errand, file, errand.rental.run.path.joinpath(*file.path.split("/")), pool)
    except (Damaged, AgentRefused) as error:
        return str(error)
    return None

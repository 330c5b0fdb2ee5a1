"""The bundle: the code and experiments that a job carries, chosen by an allowlist and hashed file by file."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.jobs import allowed, archive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lab.runs.secrets import Secrets

LIMIT_BYTES = 50_000_000
_SHOWN = 5


@dataclass(frozen=True)
class BundledFile:
    """One file as it was when the bundle was made."""

    path: str
    """Relative to the bundle's top, with forward slashes."""
    content: bytes
    executable: bool = False

    @cached_property
    def sha256(self) -> str:
        """Of its content (hex)."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class Skipped:
    """Something below an allowed name that does not travel, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Bundle:
    """The files of one job, in order, and what was left out."""

    files: tuple[BundledFile, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 (hex) of each file by its path."""
        return {file.path: file.sha256 for file in self.files}

    @cached_property
    def code_sha256(self) -> str:
        """SHA-256 (hex) over names and contents: the same for the same code, however it is packed."""
        digest = hashlib.sha256()
        for path, sha256 in sorted(self.hashes.items()):
            digest.update(f"{path}\0{sha256}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    @cached_property
    def archive(self) -> bytes:
        """The packed files: the same bytes whenever the files are the same."""
        return archive.pack((file.path, file.content, file.executable) for file in self.files)

    @cached_property
    def sha256(self) -> str:
        """Of the archive (hex)."""
        return hashlib.sha256(self.archive).hexdigest()

    @property
    def size_bytes(self) -> int:
        """Of all files, unpacked."""
        return sum(len(file.content) for file in self.files)


def collect(project: Path, experiments: Iterable[Path] = (), limit_bytes: int = LIMIT_BYTES) -> Bundle:
    """Read the bundle of a project: its own allowed files, and lab's code from its checkout or its installation.

    `experiments` are the files that the experiment was read from: those inside the project travel, no others do.
    Raises `LabError` when the files are larger than the limit or one of them cannot be read.
    """
    found: dict[str, Path] = {}
    skipped: list[Skipped] = []
    experiment_names = [file.relative_to(project).as_posix() for file in experiments if file.is_relative_to(project)]
    for folder, prefix, names in allowed.origins(project, experiment_names):
        for name in allowed.listed(folder, names):
            path = f"{prefix}{name}"
            reason = allowed.reason_to_skip(folder, name)
            if reason is None:
                found.setdefault(path, folder / name)
            elif reason:
                skipped.append(Skipped(path, reason))
    return read(found, skipped, limit_bytes)


def read(
    found: Mapping[str, Path], skipped: Iterable[Skipped], limit_bytes: float, beside: Iterable[BundledFile] = ()
) -> Bundle:
    """Read what was found. Raises `LabError` when it is larger than the limit, together with what it travels beside."""
    sizes = {path: place.lstat().st_size for path, place in found.items()}
    _check_size({**sizes, **{file.path: len(file.content) for file in beside}}, limit_bytes)
    files = tuple(_read(path, place) for path, place in sorted(found.items()))
    return Bundle(files, tuple(sorted(skipped, key=lambda one: one.path)))


def refuse_secrets(bundle: Bundle, secrets: Secrets) -> None:
    """Raise `LabError` naming file and line when a file of the bundle contains a secret of this machine, or a token."""
    for file in bundle.files:
        for number, what in secrets.in_lines(file.content.decode("utf-8", "replace")):
            raise LabError(
                f"{file.path}, line {number}: contains {what}, and would travel in the bundle.",
                "Move it to .env and read it from the environment; "
                "when it only looks like a token, say 'not a secret' in a comment on that line.",
            )


def _check_size(sizes: Mapping[str, int], limit_bytes: float) -> None:
    total = sum(sizes.values())
    if total <= limit_bytes:
        return
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:_SHOWN]
    listed = "\n".join(f"  {size / 1e6:10,.1f} MB  {path}" for path, size in largest)
    raise LabError(
        f"The bundle would hold {total / 1e6:,.1f} MB in {len(sizes)} files; the limit is {limit_bytes / 1e6:,.1f} MB."
        f" The largest:\n{listed}",
        "Let git ignore what is not code, move it out of a plugin's package, or allow more with --bundle-mb.",
    )


def _read(path: str, place: Path) -> BundledFile:
    try:
        executable = bool(place.stat().st_mode & stat.S_IXUSR)
        return BundledFile(path, place.read_bytes(), executable)
    except OSError as error:
        raise LabError(f"{place}: cannot be read for the bundle: {error.strerror}") from error

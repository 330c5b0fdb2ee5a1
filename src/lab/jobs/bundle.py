"""The bundle: the code and experiments that a job carries, chosen by an allowlist and hashed file by file."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.jobs import archive
from lab.runs import repository
from lab.runs.provenance import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.runs.secrets import Secrets

CODE_NAMES = ("src", "plugins", "scripts")
TOP_NAMES = ("pyproject.toml", "README.md", "LICENSE", "constraints.txt", "requirements.txt")
ALLOWED = (*CODE_NAMES, *TOP_NAMES)
"""What may travel from a project folder, beside the experiment's own files; everything else stays at home."""
LIMIT_BYTES = 50_000_000
_NEVER = ("__pycache__", "node_modules")
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
    own = [file.relative_to(project).as_posix() for file in experiments if file.is_relative_to(project)]
    for folder, prefix, names in _origins(project, own):
        for name in _listed(folder, names):
            path = f"{prefix}{name}"
            reason = _reason_to_skip(folder, name)
            if reason is None:
                found.setdefault(path, folder / name)
            elif reason:
                skipped.append(Skipped(path, reason))
    _check_size(found, limit_bytes)
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


def checkout_of(project: Path) -> Path | None:
    """The checkout whose code of lab runs: the project itself, or where lab was installed from; None for a wheel."""
    if _is_checkout(project):
        return project
    source = _package_folder().parent
    return source.parent if source.name == "src" and _is_checkout(source.parent) else None


def _origins(project: Path, experiments: Sequence[str]) -> Iterator[tuple[Path, str, Sequence[str]]]:
    """Yield each folder to read from, what its files' paths start with, and the allowed names in it."""
    yield project, "", (*ALLOWED, *experiments)
    checkout = checkout_of(project)
    if checkout == project:
        return
    if checkout is not None:
        yield checkout, "", ("src", "plugins", *TOP_NAMES)
        return
    yield _package_folder(), "src/lab/", (".",)
    for name in _plugin_modules():
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(place), f"plugins/{name}/", (".",)


def _is_checkout(folder: Path) -> bool:
    return (folder / "src" / "lab" / "__init__.py").is_file() and (folder / "pyproject.toml").is_file()


def _package_folder() -> Path:
    return Path(__file__).resolve().parent.parent


def _plugin_modules() -> list[str]:
    """The top-level modules of the plugins that come with lab."""
    entries = importlib.metadata.distribution(DISTRIBUTION).entry_points
    return sorted({entry.module.partition(".")[0] for entry in entries if entry.group == "lab"})


def _listed(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield the files that git tracks or would track; all of them where git has nothing to say."""
    known = repository.listed(folder, names) or _walked(folder, names)
    for name in known:
        inner = folder / name
        if inner.is_dir() and not inner.is_symlink():  # a submodule, or a repository inside this one
            yield from (f"{name.rstrip('/')}/{deeper}" for deeper in _listed(inner, (".",)))
        else:
            yield name


def _walked(folder: Path, names: Sequence[str]) -> Iterable[str]:
    for name in names:
        top = folder / name
        if top.is_symlink() or not top.is_dir():
            if os.path.lexists(top):
                yield name
            continue
        for place, folders, files in os.walk(top):
            links = [inner for inner in folders if os.path.islink(os.path.join(place, inner))]
            folders[:] = sorted(set(folders) - set(links) - set(_NEVER))
            for file in sorted((*files, *links)):
                yield os.path.relpath(os.path.join(place, file), folder)


def _reason_to_skip(folder: Path, name: str) -> str | None:
    """Why the file does not travel: None when it does, and an empty reason when nobody needs to hear of it."""
    parts = name.split("/")
    if any(part in _NEVER for part in parts) or name.endswith((".pyc", ".pyo")):
        return ""
    if any(part.startswith(".") for part in parts):
        return "hidden"
    if any((folder / Path(*parts[:depth])).is_symlink() for depth in range(1, len(parts) + 1)):
        return "a link: links are never followed"
    try:
        mode = (folder / name).lstat().st_mode
    except OSError:
        return ""  # git still tracks it, but it was deleted
    return None if stat.S_ISREG(mode) else "not a regular file"


def _check_size(found: dict[str, Path], limit_bytes: int) -> None:
    sizes = {path: place.lstat().st_size for path, place in found.items()}
    total = sum(sizes.values())
    if total <= limit_bytes:
        return
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:_SHOWN]
    listed = "\n".join(f"  {size / 1e6:10,.1f} MB  {path}" for path, size in largest)
    raise LabError(
        f"The bundle would hold {total / 1e6:,.1f} MB in {len(sizes)} files; the limit is {limit_bytes / 1e6:,.1f} MB."
        f" The largest:\n{listed}",
        "Let git ignore what is not code, or allow more with --bundle-mb.",
    )


def _read(path: str, place: Path) -> BundledFile:
    try:
        executable = bool(place.stat().st_mode & stat.S_IXUSR)
        return BundledFile(path, place.read_bytes(), executable)
    except OSError as error:
        raise LabError(f"{place}: cannot be read for the bundle: {error.strerror}") from error

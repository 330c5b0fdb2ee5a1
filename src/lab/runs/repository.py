"""What git says about a folder's code, in every situation that git knows, and in those where it refuses to speak."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.runs.secrets import Secrets

LISTED = 200
PATCH_FILES = 500
PATCH_FILE_BYTES = 1_000_000
PATCH_BYTES = 4_000_000
_TIMEOUT_SECONDS = 60
_SAFE = ("--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.quotepath=off")
_REDIRECTING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")


class GitFailed(Exception):
    """Git gave no answer; its reason is one of the words that `Repository.state` may hold."""


@dataclass(frozen=True)
class Repository:
    """A checkout, or the reason why there is none to speak of."""

    state: str
    """clean, dirty, no commit yet, no repository, git missing, dubious ownership, or git's own complaint."""
    kind: str | None = None
    """checkout, worktree or submodule."""
    commit: str | None = None
    branch: str | None = None
    """None when the head is detached."""
    tags: tuple[str, ...] = ()
    """The tags of that commit, by which a published article names its code."""
    remote: str | None = None
    """Where it was cloned from, without user names, passwords and queries."""
    tracked_changes: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    not_listed: int = 0
    """How many more names there are than the two lists hold."""


def describe(folder: Path, secrets: Secrets) -> Repository:
    """Ask git about the checkout that `folder` belongs to; never raises."""
    try:
        head, tracked, untracked = _status(folder)
        kind = _kind(folder)
        remote = _remote(folder)
        tags = _tags(folder)
    except GitFailed as failure:
        return Repository(state=str(failure))
    commit = head.get("oid")
    state = "no commit yet" if commit in (None, "(initial)") else "dirty" if tracked else "clean"
    branch = head.get("head")
    return Repository(
        state=state,
        kind=kind,
        commit=None if commit == "(initial)" else commit,
        branch=None if branch == "(detached)" else branch,
        tags=tuple(map(secrets.hidden, tags[:LISTED])),
        remote=None if remote is None else secrets.hidden(remote),
        tracked_changes=tuple(tracked[:LISTED]),
        untracked=tuple(untracked[:LISTED]),
        not_listed=max(0, len(tracked) - LISTED) + max(0, len(untracked) - LISTED),
    )


def patch(folder: Path, names: Sequence[str], secrets: Secrets) -> tuple[bytes, tuple[str, ...]]:
    """What tracked files below `names` changed since the commit, secrets covered; and the files too large for it."""
    try:
        changed = _split(_git(folder, "diff", "HEAD", "--name-only", "--relative", "-z", "--", *names))
        sizes = {name: _size(folder / name) for name in changed}
        kept = [name for name in changed if sizes[name] <= PATCH_FILE_BYTES][:PATCH_FILES]
        omitted = [f"{name} ({sizes[name]:,} bytes)" for name in changed if name not in kept]
        options = ("--relative", "--no-ext-diff", "--no-textconv")
        text = _git(folder, "diff", "HEAD", *options, "--", *kept) if kept else b""
    except GitFailed:
        return b"", ()
    if len(text) > PATCH_BYTES:
        return b"", (f"the whole patch ({len(text):,} bytes)", *omitted)
    covered = secrets.hidden(text.decode("utf-8", "surrogateescape"))
    return covered.encode("utf-8", "surrogateescape"), tuple(omitted)


def listed(folder: Path, names: Sequence[str]) -> list[str] | None:
    """The files below `names` that git tracks or would track, relative to `folder`; None when git cannot say."""
    try:
        output = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *names)
    except GitFailed:
        return None
    return sorted(set(_split(output)))


def untracked(folder: Path, names: Sequence[str]) -> list[str]:
    """The files below `names` that git does not track and does not ignore, relative to `folder`."""
    try:
        output = _git(folder, "ls-files", "-z", "--others", "--exclude-standard", "--", *names)
    except GitFailed:
        return []
    return sorted(_split(output))


def without_credentials(address: str) -> str:
    """A remote's address without what may let somebody in."""
    if "://" not in address:
        user, at, rest = address.partition("@")
        return rest if at and user != "git" and "/" not in user else address
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that cannot be read"
    return urlunsplit((parts.scheme, f"{host}{port}", parts.path, "", ""))


def without_place(address: str) -> str:
    """A folder's address, as of a clone on the same machine, by the folder's name alone: no record says where it is."""
    path = address.removeprefix("file://")
    local = path != address or path.startswith(("/", "./", "../", "~")) or path in (".", "..")
    return f"folder {PurePosixPath(path).name or path}" if local else address


def _status(folder: Path) -> tuple[dict[str, str], list[str], list[str]]:
    """The head's facts, and the names of tracked changes and untracked files; staging changes nothing here."""
    output = _git(folder, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
    head: dict[str, str] = {}
    tracked: list[str] = []
    untracked: list[str] = []
    entries = iter(_split(output))
    for entry in entries:
        kind, _, rest = entry.partition(" ")
        if kind == "#":
            key, _, value = rest.partition(" ")
            head[key.removeprefix("branch.")] = value
        elif kind == "?":
            untracked.append(rest)
        elif kind in ("1", "2", "u"):
            tracked.append(rest.split(" ", {"1": 7, "2": 8, "u": 9}[kind])[-1])
            if kind == "2":
                next(entries, None)  # the name that it had before
    return head, tracked, untracked


def _kind(folder: Path) -> str:
    answer = _git(
        folder, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir",
        "--show-superproject-working-tree",
    )  # fmt: skip
    lines = answer.decode("utf-8", "surrogateescape").splitlines()
    if len(lines) > 2:
        return "submodule"
    return "checkout" if lines[0] == lines[1] else "worktree"


def _tags(folder: Path) -> list[str]:
    """The tags of the head's commit, by name; a clone may have been made without them."""
    try:
        return sorted(_git(folder, "tag", "--points-at", "HEAD").decode("utf-8", "replace").splitlines())
    except GitFailed:  # also before the first commit
        return []


def _remote(folder: Path) -> str | None:
    """The address as it was configured: git's own answer may have a token inserted by `insteadOf`."""
    try:
        names = _git(folder, "remote").decode("utf-8", "surrogateescape").split()
        if not names:
            return None
        name = "origin" if "origin" in names else names[0]
        address = _git(folder, "config", "--get", f"remote.{name}.url").decode("utf-8", "surrogateescape").strip()
    except GitFailed:
        return None
    return without_place(without_credentials(address))


def _git(folder: Path, *arguments: str) -> bytes:
    program = shutil.which("git")
    if program is None:
        raise GitFailed("git missing")
    kept = {name: value for name, value in os.environ.items() if name not in _REDIRECTING}
    environment = {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    command = [program, "-C", str(folder), *_SAFE, *arguments]
    try:
        answer = subprocess.run(command, env=environment, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git did not answer within {_TIMEOUT_SECONDS} s") from error
    except OSError as error:
        raise GitFailed(f"git cannot be run: {error.strerror}") from error
    if answer.returncode:
        raise GitFailed(_complaint(answer.stderr.decode("utf-8", "replace")))
    return answer.stdout


def _complaint(text: str) -> str:
    for sign, state in (("not a git repository", "no repository"), ("dubious ownership", "dubious ownership")):
        if sign in text:
            return state
    lines = text.strip().splitlines()
    return f"git: {lines[0] if lines else 'failed without a word'}"


def _split(output: bytes) -> list[str]:
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0

"""Which paths of a machine may become files here: nothing that leaves the run directory, and none of launch's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from lab.runs.directory import RunDirectory

LONGEST_NAME_BYTES = 200
"""Leaves room for the marks of a file that is still arriving."""


def fault(path: str) -> str | None:
    """Why this relative path cannot be used, or None when it can."""
    if not path or path.startswith("/"):
        return "it is not a relative path"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "it leaves the folder or is not in its simplest form"
    if not path.isprintable():
        return "its name holds control characters"
    try:
        longest = max(len(part.encode("utf-8")) for part in parts)
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return "its name is too long" if longest > LONGEST_NAME_BYTES else None


def reserved(run: RunDirectory) -> frozenset[str]:
    """The names that only launch writes: collection never overwrites them."""
    own = (
        run.config, run.provenance, run.patch, run.bundle, run.job, run.outcome, run.resource, run.cost, run.report,
        run.receipt, run.tags, run.stage_plan,
    )  # fmt: skip
    return frozenset(path.name for path in own)


def inside(folder: Path, path: str) -> Path | None:
    """The file in `folder`, or None when a link on the way would lead out of it."""
    target = folder.joinpath(*path.split("/"))
    root = folder.resolve()
    return target if target.parent.resolve().is_relative_to(root) and not target.is_symlink() else None

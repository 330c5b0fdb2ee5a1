"""Where everything lies on the machine: all on the disk that survives a stop, and a run's files apart from others'."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SAFE_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,150}$")
SHA256 = re.compile(r"^[0-9a-f]{64}$")


@dataclass(frozen=True)
class Places:
    """The folders of one run below the workspace; caches are shared with other runs on a network volume."""

    workspace: Path
    run_id: str

    @property
    def home(self) -> Path:
        """This run's own folder."""
        return self.workspace / "runs" / self.run_id

    @property
    def state(self) -> Path:
        """What the agent remembers."""
        return self.home / "agent"

    @property
    def uploads(self) -> Path:
        """Chunks that have arrived."""
        return self.home / "uploads"

    @property
    def held(self) -> Path:
        """Links that hold a file while the job replaces it."""
        return self.home / "held"

    @property
    def run(self) -> Path:
        """The run directory that the stages write."""
        return self.home / "run"

    @property
    def venv(self) -> Path:
        """The environment that the install stage makes."""
        return self.home / "venv"

    @property
    def store(self) -> Path:
        """Token, hub and package caches."""
        return self.workspace / "store"

    def code(self, sha256: str) -> Path:
        """Where the bundle with this hash is unpacked."""
        return self.home / "code" / sha256


def fault(path: str) -> str | None:
    """Why a relative path cannot be used, or None when it can."""
    if not path or path.startswith("/") or "\0" in path:
        return "it is not a relative path"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "it leaves the folder or is not in its simplest form"
    return None


def pattern(glob: str) -> re.Pattern[str]:
    """A glob below the run directory as a regular expression: `**` crosses folders, `*` and `?` do not."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    spelled = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(spelled.get(part, re.escape(part)) for part in parts) + r"\Z", re.DOTALL)

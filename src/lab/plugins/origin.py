"""Where an installed distribution came from: the line that brings this very version to another machine."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lab.runs.repository import without_credentials

if TYPE_CHECKING:
    from importlib.metadata import Distribution
    from typing import Any

HERE = "file:"


def requirement(name: str) -> str | None:
    """What pip is to be asked for, as `lab-acme==1.0`; None when a folder or a file of this machine was installed.

    A commit of a repository is named as such, without the credentials that its address may hold.
    """
    try:
        found = distribution(name)
        source = _source(found)
    except (PackageNotFoundError, ValueError):
        return None
    if "url" not in source:
        return f"{found.metadata['Name']}=={found.version}"
    url = str(source["url"])
    if url.startswith(HERE):
        return None
    repository = source.get("vcs_info") or {}
    address = without_credentials(url)
    if "commit_id" in repository:
        address = f"{repository.get('vcs', 'git')}+{address}@{repository['commit_id']}"
    return f"{found.metadata['Name']} @ {address}"


def place(name: str) -> str | None:
    """The name, without the path, of the folder or file of this machine that it was installed from; None for others."""
    try:
        url = str(_source(distribution(name)).get("url") or "")
    except (PackageNotFoundError, ValueError):
        return None
    return PurePosixPath(unquote(url)).name or None if url.startswith(HERE) else None


def is_installed(name: str) -> bool:
    """Whether a distribution of this name is here."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _source(found: Distribution) -> dict[str, Any]:
    """What pip wrote about where it came from; empty for an index. Raises `ValueError` for what is damaged."""
    source = json.loads(found.read_text("direct_url.json") or "{}")
    return source if isinstance(source, dict) else {}

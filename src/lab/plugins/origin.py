"""Where an installed distribution came from: the line that brings this very version to another machine."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING

from lab.runs.repository import without_credentials

if TYPE_CHECKING:
    from typing import Any


def requirement(name: str) -> str | None:
    """What pip is to be asked for, as `lab-acme==1.0`; None when a folder or a file of this machine was installed.

    A commit of a repository is named as such, without the credentials that its address may hold.
    """
    try:
        found = distribution(name)
        source: Any = json.loads(found.read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    if not isinstance(source, dict) or "url" not in source:
        return f"{found.metadata['Name']}=={found.version}"
    url = str(source["url"])
    if url.startswith("file:"):
        return None
    repository = source.get("vcs_info") or {}
    address = without_credentials(url)
    if "commit_id" in repository:
        address = f"{repository.get('vcs', 'git')}+{address}@{repository['commit_id']}"
    return f"{found.metadata['Name']} @ {address}"


def is_installed(name: str) -> bool:
    """Whether a distribution of this name is here."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True

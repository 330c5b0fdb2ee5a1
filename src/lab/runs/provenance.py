"""Which code ran: the commit as far as git knows it, and the hash of every file whatever git knows."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from lab.runs import repository

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lab.runs.secrets import Secrets

DISTRIBUTION = "llm-training-lab"


def provenance(
    project: Path,
    lab_folder: Path | None,
    files: Mapping[str, str],
    hashes: Mapping[str, str],
    plugins: Sequence[Mapping[str, object]],
    secrets: Secrets,
) -> dict[str, object]:
    """The record of what runs: `files` maps each file of the bundle to its SHA-256, `hashes` names code and bundle.

    `lab_folder` is the checkout that lab itself comes from when that is not the project; None for an installed wheel.
    """
    own = repository.describe(project, secrets)
    roots = sorted({file.partition("/")[0] for file in files})
    untracked_code = [name for name in repository.untracked(project, roots) if name in files]
    lab = None if lab_folder is None else asdict(repository.describe(lab_folder, secrets))
    return {
        "schema": 1,
        "repository": {**asdict(own), "untracked_code": untracked_code},
        "lab_repository": lab,
        "files": dict(sorted(files.items())),
        **hashes,
        "lab_version": lab_version(),
        "plugins": list(plugins),
    }


def lab_version() -> str:
    """The version of lab that plans the run."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"

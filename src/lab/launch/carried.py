"""Strangers' plugins that no index has travel as files beside the bundle: they are judged as the bundle itself is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lab.jobs import bundle
from lab.jobs.bundle import Bundle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.contracts import Backend
    from lab.jobs.bundle import BundledFile
    from lab.runs.secrets import Secrets


def checked(
    backend: Backend,
    plugins: object,
    secrets: Secrets,
    limit_bytes: float = math.inf,
    beside: Iterable[BundledFile] = (),
) -> Bundle:
    """The files that travel for these plugins; none to a backend that rents no machine.

    `plugins` are those of a run's provenance, of which an unreadable one is left out.
    Raises `LabError` for a secret in one of them, and when they are too large together with the files `beside` them.
    """
    from lab.rental import RentedBackend, requirements

    if not isinstance(backend, RentedBackend):
        return Bundle(())
    known = [one for one in plugins if isinstance(one, dict)] if isinstance(plugins, (list, tuple)) else []
    found, skipped = requirements.carried_places([one for one in known if "distribution" in one])
    files = bundle.read(found, skipped, limit_bytes, beside)
    bundle.refuse_secrets(files, secrets)
    return files

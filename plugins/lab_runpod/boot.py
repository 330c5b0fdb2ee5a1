"""Why a Pod can never start, read from what its host wrote: the only place where that is said."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FATAL = (
    (r"unsatisfied condition: cuda", "the host's driver is older than the image's CUDA"),
    (r"nvidia-container-cli: (?!.*unsatisfied condition)", "the host's GPU runtime failed"),
    (r"manifest (for \S+ )?(not found|unknown)|manifest unknown", "the image does not exist in its registry"),
    (r"pull access denied|unauthorized: authentication required", "the registry does not give out the image"),
    (r"invalid reference format", "the image's name is not valid"),
    (r"layer does not exist", "the host's image store is broken"),
    (r"no space left on device", "the host has no space for the image"),
    (r"exec format error", "the image is for another processor"),
    (r"executable file not found|no such file or directory: unknown", "the image lacks the program to run"),
    (r"OCI runtime create failed", "the container could not be created"),
)
THROTTLED = re.compile(r"toomanyrequests|429 Too Many Requests", re.IGNORECASE)
PATIENCE = 3
"""A registry that refuses a pull so often will not give it to this host in time."""


def failure(lines: Sequence[str]) -> str | None:
    """The first fatal thing, with the host's own words; None while it may still start."""
    for pattern, meaning in FATAL:
        for line in lines:
            if re.search(pattern, line, re.IGNORECASE):
                return f"{meaning}: {line.strip()[:200]}"
    throttled = [line for line in lines if THROTTLED.search(line)]
    if len(throttled) >= PATIENCE:
        return f"the registry limits pulls from this host (toomanyrequests): {throttled[-1].strip()[:200]}"
    return None

"""What the agent says no with: a code that the controller knows, and a sentence for a person."""

from __future__ import annotations

import errno

STATUS = {
    "unauthorized": 401,
    "gone": 404,
    "conflict": 409,
    "too-large": 413,
    "damaged": 422,
    "invalid": 422,
    "variables": 428,
    "no-space": 507,
}
FULL = (errno.ENOSPC, errno.EDQUOT)


class Refused(Exception):
    """The request cannot be done, and asking again would not help."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code]


def refused_by_disk(error: OSError) -> Refused:
    """A full disk or an exceeded quota by its name; any other trouble of the disk as it is."""
    if error.errno in FULL:
        return Refused("no-space", "the machine's disk is full or its quota is used up")
    return Refused("invalid", f"the machine's disk: {error}")

"""How a machine says whose it is: a name of its own and stamps in its environment. No other machine is ever touched."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from typing import TYPE_CHECKING

from lab.rental.journal import PRIVATE_FILE, PRIVATE_FOLDER

if TYPE_CHECKING:
    from pathlib import Path

    from lab.rental.provider import Machine

RUN = "LAB_RUN_ID"
OWNER = "LAB_OWNER"
NONCE = "LAB_NONCE"
TOKEN_HASH = "LAB_TOKEN_SHA256"
NAME = re.compile(r"^lab-[0-9a-f]{8}-\d+-(?P<epoch>\d+)-[0-9a-f]{6}$")


def machine_name(run_id: str, attempt: int, now: float, end: str) -> str:
    """A name like `lab-1c0f9a2e-1-1796112000-7f3a2b`: the run, the attempt, the time, a random end."""
    return f"lab-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}-{attempt}-{int(now)}-{end}"


def is_ours(machine: Machine, owner: str) -> bool:
    """Whether this project made the machine: its name and its stamp say so."""
    return bool(NAME.match(machine.name)) and machine.environment.get(OWNER) == owner


def looks_like_lab(machine: Machine) -> bool:
    """Whether some project of lab made it, perhaps another one."""
    return bool(NAME.match(machine.name)) and OWNER in machine.environment


def owner_of(store: Path) -> str:
    """The stamp of this project's store, made on first use."""
    path = rentals_folder(store) / "owner"
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        write_private(path, secrets.token_hex(6))
        return path.read_text(encoding="ascii").strip()


def rentals_folder(store: Path) -> Path:
    """Where the journals and tokens of all rentals are."""
    return store / "rentals"


def write_private(path: Path, text: str) -> None:
    """Write a secret so that at no moment anybody but its owner can read it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

"""What the agent can tell about its machine: GPUs, free disk, and processes that the kernel killed for memory."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

QUERY = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
LITTLE_DISK_BYTES = 512 * 1024 * 1024
MEMORY_EVENTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


def gpus() -> list[str]:
    """The names of the GPUs that this machine really has now; none when the driver shows none."""
    try:
        answer = subprocess.run(QUERY, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if answer.returncode != 0:
        return []
    return [line.strip() for line in answer.stdout.splitlines() if line.strip()]


def disk_free(folder: Path) -> int:
    """Bytes that can still be written; a quota may allow less than this says."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def memory_kills() -> int:
    """How many processes of this machine the kernel has killed because memory ran out."""
    for path in MEMORY_EVENTS:
        try:
            words = [line.split() for line in path.read_text().splitlines()]
        except OSError:
            continue
        return sum(int(pair[1]) for pair in words if len(pair) == 2 and pair[0] == "oom_kill")
    return 0


def notices(folder: Path, kills_before: int) -> list[str]:
    """What a person should know about the machine's state."""
    found = []
    free, kills = disk_free(folder), memory_kills() - kills_before
    if free < LITTLE_DISK_BYTES:
        found.append(f"only {free // 1024**2} MiB are free on the machine's disk")
    if kills > 0:
        found.append(f"the kernel killed {kills} processes because memory ran out")
    return found

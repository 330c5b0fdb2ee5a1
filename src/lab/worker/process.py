"""How this process uses a CPU machine: nothing here changes a number, only how long it takes."""

from __future__ import annotations

import ctypes
import os
import platform

M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
LARGEST = 2**31 - 1


def let_threads_sleep() -> None:
    """Let OpenMP's idle threads sleep instead of spin, unless the environment says otherwise; before torch is imported.

    Where anything else runs, a spinning thread holds the core that the thread it waits for needs: on two busy cores a
    step took more than three times as long.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def keep_large_buffers() -> bool:
    """Let glibc map no buffer and trim nothing in this process; False where another library allocates.

    It would return every buffer above 32 MiB to the system at once, so that each logits chunk and each gradient is
    mapped and zeroed anew: up to three times the work of the operation that fills it.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    return bool(libc.mallopt(M_MMAP_MAX, 0) and libc.mallopt(M_TRIM_THRESHOLD, LARGEST))

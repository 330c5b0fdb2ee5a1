"""On a CPU, keep the memory of large temporary tensors instead of giving it back to the system after each use.

glibc returns every buffer above 32 MiB at once, so each logits chunk and each gradient would be mapped and zeroed anew:
up to three times the work of the operation that fills it.
"""

from __future__ import annotations

import ctypes
import platform

M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
LARGEST = 2**31 - 1


def keep_large_buffers() -> bool:
    """Let glibc map no buffer and trim nothing in this process; False where another library allocates."""
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    return bool(libc.mallopt(M_MMAP_MAX, 0) and libc.mallopt(M_TRIM_THRESHOLD, LARGEST))

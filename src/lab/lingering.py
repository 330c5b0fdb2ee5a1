"""A stage ends when its work is done: threads and exit handlers that a part left keep its process a minute at most.

Python waits at its exit for every thread that is no daemon. On a rented machine that wait is paid for, up to the limit.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import NoReturn

GRACE_SECONDS = 60.0
STAGE = "LAB_STAGE"
"""Set by the stage runner in the environment of each stage."""


def exit_soon(code: int) -> NoReturn:
    """`sys.exit(code)`, except that the process is ended with the same code if it is still there after the grace."""
    timer = threading.Timer(GRACE_SECONDS, _leave, (code,))
    timer.daemon = True
    timer.start()
    sys.exit(code)


def _leave(code: int) -> None:
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    kept = ", ".join(thread.name for thread in others if not thread.daemon)
    what = f"of {kept}, still at work" if kept else "of an exit handler that does not return"
    said = f"ended {GRACE_SECONDS:g} s after its work was done, in spite {what}\n"
    with contextlib.suppress(OSError):  # sys.stderr, and what is below it, may have been closed by a part
        os.write(2, said.encode(errors="backslashreplace"))
    os._exit(code)

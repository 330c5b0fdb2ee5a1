"""Runs a command where it meets a terminal of a chosen width."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios


def in_a_terminal(columns: int, *arguments: str) -> str:
    """What a terminal of this width would show of a command."""
    reader, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "lab", *arguments]
    with subprocess.Popen(command, stdout=terminal, env={**environment, "TERM": "xterm"}) as process:
        os.close(terminal)
        written = b""
        while piece := _read(reader):
            written += piece
    os.close(reader)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", written.decode()).replace("\r\n", "\n")


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 1 << 16)
    except OSError:  # how Linux says that nobody holds the other end any more
        return b""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import psutil
import pytest
from typer.testing import CliRunner

from lab.cli import app, ui_server
from lab.errors import LabError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def lab(*arguments: str) -> None:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception


def test_there_is_nothing_to_see_before_the_first_run(project: Path) -> None:
    with pytest.raises(LabError, match="There is no MLflow store yet") as error:
        lab("ui", "--no-open")

    assert error.value.do == "It is made by the first `lab run NAME`."


def test_a_port_in_use_is_said_with_the_command_that_works(project: Path) -> None:
    (project / ".lab" / "mlflow").mkdir()
    with closing(sqlite3.connect(project / ".lab" / "mlflow" / "mlflow.db")) as connection:
        connection.execute("CREATE TABLE something (a)")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match="is in use") as error:
            lab("ui", "--no-open", "--port", str(port))

    assert error.value.do == f"Another one: lab ui --port {port + 1}"


def test_a_server_that_ends_at_once_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])

    with pytest.raises(LabError, match="ended with exit code 3"):
        ui_server.wait_for(port, process)


def test_a_run_that_does_not_exist_is_said_before_a_server_starts(project: Path) -> None:
    with pytest.raises(UsageError, match="There is no run in"):
        lab("ui", "smoke", "--no-open")


VIEWER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started deaf to it
from types import SimpleNamespace
import lab.plugins
from lab.cli import ui_server

serving = "import socketserver, sys; socketserver.TCPServer(('127.0.0.1', int(sys.argv[1])), None).serve_forever()"
server = [sys.executable, "-c", serving, sys.argv[1]]
tracker = SimpleNamespace(viewer=lambda port, run: (server, {}, "its page"))
lab.plugins.load = lambda settings: SimpleNamespace(build=lambda *_: tracker)
ui_server.serve(int(sys.argv[1]), None, open_page=False)
"""


def started(errors: int) -> tuple[subprocess.Popen[str], psutil.Process]:
    """The command in a group of its own, as a terminal has it, and its server, which answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", VIEWER, str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, process_group=0)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("its page")
    [viewer] = psutil.Process(process.pid).children()
    return process, viewer


def test_ctrl_c_in_a_terminal_ends_the_viewer_without_its_traceback() -> None:
    process, viewer = started(subprocess.PIPE)

    os.killpg(process.pid, signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()

    assert (process.returncode, "KeyboardInterrupt" in errors) == (0, False)
    viewer.wait(timeout=30)


def test_a_viewer_does_not_outlive_the_command_that_was_killed() -> None:
    process, viewer = started(subprocess.DEVNULL)

    process.kill()
    process.communicate()

    viewer.wait(timeout=30)  # psutil raises when it is still there

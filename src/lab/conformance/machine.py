"""A rented machine played by processes of this computer, for the fake cloud of whoever tests a `Provider`."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import venv
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lab.conformance import container
from lab.rental.agent.paths import Places
from lab.rental.agent.selfstop import SelfStop as AgentsWays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.rental import SelfStop

NVIDIA_SMI = """#!/bin/sh
printf '%s\\n' {names}
"""


class StandIn:
    """Its disk is a folder, its image this Python with all that is installed here, its GPUs are names.

    A fake cloud boots it with what the create request brought, and answers with its `address` where the provider's
    `agent_url` asks for the machine's port. Nothing of it lives on when this process ends, however that ends.
    """

    def __init__(self, folder: Path, gpus: Sequence[str]) -> None:
        self.folder, self.gpus = folder, tuple(gpus)
        self.address = ""
        self._environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Whether its main process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What its main process has written: what a cloud shows as the container's log."""
        file = self.folder / "container.log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def boot(self, argv: Sequence[str], environment: Mapping[str, str], *, port: int, mount_path: str) -> None:
        """Start its main process; on the disk of an earlier boot when there was one.

        `environment` is what the request asked for, with the cloud's own variables added. What stands there for the
        port and for a place below `mount_path` is replaced by the real ones, because all machines share this computer.
        """
        self.halt()
        disk = self.folder / "disk"
        real_port = _free_port()
        real = {name: _real(value, port, real_port, mount_path, disk) for name, value in environment.items()}
        self._furnish(Places(Path(real["LAB_WORKSPACE"]), real["LAB_RUN_ID"]).venv)
        self._environment = {**self._image(), **real}
        order = {
            "argv": list(argv),
            "env": self._environment,
            "cwd": str(self.folder),
            "log": str(self.folder / "container.log"),
        }
        command = [sys.executable, "-I", str(Path(container.__file__))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        self.address = f"http://127.0.0.1:{real_port}"

    def stop_itself(self, ways: Sequence[SelfStop]) -> list[str]:
        """Do what its agent does when its time is over: try each way in turn. Returns what came of each."""
        agent = AgentsWays([asdict(way) for way in ways], self._environment, sleep=lambda seconds: None)
        agent.attempt()
        return agent.notices

    def halt(self) -> None:
        """Stop it: every process of it is gone, its disk stays."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    def discard(self) -> None:
        """Stop it and delete its disk."""
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _furnish(self, environment: Path) -> None:
        """Lay the programs of an image on it, and the environment that its install stage would take seconds to make."""
        programs = self.folder / "bin"
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        programs.mkdir(exist_ok=True)
        names = " ".join(f"'{gpu}'" for gpu in self.gpus)
        _program(programs / "nvidia-smi", NVIDIA_SMI.format(names=names) if self.gpus else "#!/bin/sh\nexit 6\n")
        for name in ("python", "python3"):
            _program(programs / name, f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        if not environment.exists():
            venv.EnvBuilder(system_site_packages=True, with_pip=False, symlinks=True).create(environment)

    def _image(self) -> dict[str, str]:
        """Nothing of this process's environment but where its packages are."""
        packages = [place for place in sys.path if Path(place).name in ("site-packages", "dist-packages")]
        return {
            "PATH": os.pathsep.join([str(self.folder / "bin"), os.defpath]),
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(packages),
        }


def _real(value: str, port: int, real_port: int, mount_path: str, disk: Path) -> str:
    if value == str(port):
        return str(real_port)
    if value == mount_path or value.startswith(mount_path.rstrip("/") + "/"):
        return str(disk) + value[len(mount_path) :]
    return value


def _program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])

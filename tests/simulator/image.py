"""What a container finds when it starts: its folders, its programs and its environment."""

from __future__ import annotations

import shlex
import shutil
import stat
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from .pod import Pod

IDLE = ["sleep", "1000000"]
"""What an official image does when nothing else is asked for."""
NVIDIA_SMI = """#!{python} -IS
import sys
GPUS = {gpus!r}
FIELDS = {{"index": 0, "name": 1, "gpu_name": 1, "uuid": 2, "gpu_uuid": 2, "memory.total": 3, "driver_version": 4}}
query = next((a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--query-gpu=")), None)
nounits = any("nounits" in a for a in sys.argv)
if not GPUS:
    print("No devices were found")
    sys.exit(6)
for gpu in GPUS:
    if "-L" in sys.argv[1:]:
        print(f"GPU {{gpu[0]}}: {{gpu[1]}} (UUID: {{gpu[2]}})")
    elif query is None:
        print(gpu[1], "CUDA Version: {cuda}")
    else:
        cells = [str(gpu[FIELDS[f]]) if f in FIELDS else "[N/A]" for f in query.split(",")]
        print(", ".join(c.removesuffix(" MiB") if nounits else c for c in cells))
"""
RUNPODCTL = """#!{python} -I
import json, os, sys, urllib.request
# The preinstalled program is an old one: the verb comes first.
if sys.argv[1:3] not in (["stop", "pod"], ["remove", "pod"]):
    sys.exit("Error: unknown command")
action = "stop" if sys.argv[1] == "stop" else "terminate"
request = urllib.request.Request(
    "{api}/pods/" + sys.argv[3] + "/action",
    json.dumps({{"action": action}}).encode(),
    {{"Authorization": "Bearer " + os.environ["RUNPOD_API_KEY"], "User-Agent": "runpodctl",
      "Content-Type": "application/json"}},
)
try:
    urllib.request.urlopen(request, timeout=30).close()
except OSError as error:
    sys.exit(f"Error: {{error}}")
"""


def prepare(folder: Path, pod: Pod, api_url: str, packages: Path | None) -> None:
    """Make a fresh container disk, and the Pod's volume where there is none yet."""
    disk = folder / "container"
    shutil.rmtree(disk, ignore_errors=True)
    for name in ("root", "tmp", "bin"):
        (disk / name).mkdir(parents=True)
    if pod.volume_folder is not None:
        pod.volume_folder.mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3"):
        _program(disk / "bin" / name, f'#!/bin/sh\nexec {shlex.quote(_system_python(packages))} "$@"\n')
    gpus = [
        (index, pod.gpu.id, f"GPU-{pod.host.id}-{index}", f"{pod.gpu.memory * 1024} MiB", "570.86.15")
        for index in range(pod.gpus_seen)
    ]
    text = NVIDIA_SMI.format(python=sys.executable, gpus=gpus, cuda=pod.host.cuda)
    _program(disk / "bin" / "nvidia-smi", text)
    _program(disk / "bin" / "runpodctl", RUNPODCTL.format(python=sys.executable, api=api_url))


def environment(folder: Path, pod: Pod, packages: Path | None) -> dict[str, str]:
    """Nothing of the simulator's own process: the image's variables, the cloud's, then the request's."""
    disk = folder / "container"
    image = {
        "PATH": f"{disk / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(disk / "root"),
        "TMPDIR": str(disk / "tmp"),
        "PWD": str(disk),
        "LANG": "C.UTF-8",
        "CUDA_VERSION": "12.8.1",
    }
    if packages is not None:
        image["PYTHONPATH"] = str(packages)
    cloud = {
        "RUNPOD_POD_ID": pod.id,
        "RUNPOD_API_KEY": pod.key,
        "RUNPOD_DC_ID": pod.host.data_center,
        "RUNPOD_POD_HOSTNAME": f"{pod.id}-{pod.host.id}",
        "RUNPOD_GPU_COUNT": str(pod.gpus_seen),
        "RUNPOD_CPU_COUNT": "16",
        "RUNPOD_PUBLIC_IP": "203.0.113.7",
        "RUNPOD_VOLUME_ID": f"volume-{pod.id}",
    }
    asked = {name: _inside(value, pod) for name, value in pod.request.get("env", {}).items()}
    return {**image, **asked, **cloud}


def command(pod: Pod) -> list[str]:
    """The container's argument list: exec-form fields, `args` as JSON, or `args` split as a shell would."""
    request: dict[str, Any] = pod.request
    entrypoint, cmd = request.get("entrypoint", []), request.get("cmd", [])
    text = request.get("args", "")
    if text.lstrip().startswith("{"):
        import json

        parsed = json.loads(text)
        entrypoint, cmd = parsed.get("entrypoint", entrypoint), parsed.get("cmd", cmd)
    elif text:
        cmd = shlex.split(text)
    return [_inside(word, pod) for word in (*entrypoint, *cmd)] or IDLE


def _inside(text: str, pod: Pod) -> str:
    """The real place of a path below the mount, and the real number of a declared port.

    Containers here share the machine's file system and ports, so a Pod that takes both from its environment or its
    argument list, alone in a value, gets its own.
    """
    mount = pod.mount_path
    if mount and pod.volume_folder is not None and (text == mount or text.startswith(mount + "/")):
        return str(pod.volume_folder) + text[len(mount) :]
    return str(pod.ports[int(text)]) if text.isdigit() and int(text) in pod.ports else text


def _system_python(packages: Path | None) -> str:
    """The interpreter of the image: not that of a virtual environment, whose packages come by PYTHONPATH."""
    return str(getattr(sys, "_base_executable", sys.executable)) if packages is not None else sys.executable


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)

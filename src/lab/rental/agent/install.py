"""The install stage: an environment on the disk that survives, with what the image lacks and nothing it has already.

    agent install ORDER.json

The image's own packages stay visible, because its torch fits its CUDA; only what is missing or asked for in another
version is installed. The job's code itself comes from the bundle by PYTHONPATH and is never installed from an index.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from .paths import fault

TORCH_INDEX = "https://download.pytorch.org/whl/"
SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"
MISSING = """
import importlib.metadata as metadata, json, sys
try:
    from packaging.requirements import Requirement
except ImportError:
    from pip._vendor.packaging.requirements import Requirement
def lacks(line):
    wanted = Requirement(line)
    if wanted.marker and not wanted.marker.evaluate():
        return False
    try:
        version = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return True
    return bool(wanted.url) or not wanted.specifier.contains(version, prereleases=True)
print(json.dumps([line for line in json.load(sys.stdin) if lacks(line)]))
"""


def main(order: dict[str, Any]) -> int:
    """Make the environment; repeating it is quick."""
    python = make_venv(Path(order["venv"]))
    for distribution in order.get("distributions", ()):
        if not distribution.get("files"):
            announce(site_of(python), distribution)
    missing = lacking(python, [*order.get("packages", ()), *order.get("requirements", ())])
    if missing:
        _say(f"installing {', '.join(missing)}")
        code = _install(python, missing, order.get("torch_index"))
        if code:
            _say("the packages could not be installed: is the index reachable, and do the versions exist?")
            return code
    else:
        _say("everything that the job needs is there")
    for distribution in order.get("distributions", ()):
        describe(Path(order["code"]), distribution)
    return 0


def make_venv(venv: Path) -> Path:
    """A virtual environment that sees all that this Python sees, a surrounding environment's packages included."""
    python = venv / "bin" / "python"
    if not python.exists():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(venv)], check=True)
    if sys.prefix != sys.base_prefix:
        site_of(python).joinpath("surrounding.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def site_of(python: Path) -> Path:
    """Where the environment keeps its own packages."""
    answer = subprocess.run([str(python), "-c", SITE], capture_output=True, text=True, check=True)
    return Path(answer.stdout.strip())


def lacking(python: Path, required: list[str]) -> list[str]:
    """Which of these requirements the environment does not meet; all of them when that cannot be found out."""
    answer = subprocess.run(
        [str(python), "-c", MISSING], input=json.dumps(required), capture_output=True, text=True, check=False
    )
    if answer.returncode:
        _say(answer.stderr.strip())
        return required
    missing: list[str] = json.loads(answer.stdout)
    return missing


def _install(python: Path, missing: list[str], index: str | None) -> int:
    uv = shutil.which("uv")
    command = [uv, "pip", "install", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
    if index:
        command += ["--extra-index-url", index if "://" in index else TORCH_INDEX + index]
        command += ["--index-strategy", "unsafe-best-match"] if uv else []
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    return subprocess.run([*command, *missing], env=environment, check=False).returncode


def announce(site: Path, distribution: dict[str, Any]) -> None:
    """Let the installer know what the bundle brings: what requires it would else ask an index for it, in vain."""
    found = list(site.glob(f"{distribution['name'].replace('-', '_')}-*.dist-info"))
    if any((folder / "RECORD").exists() for folder in found):
        return  # a real installation knows better
    for older in found:
        shutil.rmtree(older)
    _metadata(site, distribution)


def describe(code: Path, distribution: dict[str, Any]) -> None:
    """Let the entry points of code that came along be found, as those of an installed package are."""
    _metadata(code / "src", distribution)
    contents = {path: text.encode("utf-8") for path, text in distribution.get("files", {}).items()}
    contents |= {path: base64.b64decode(text) for path, text in distribution.get("binary", {}).items()}
    for path, content in contents.items():
        if fault(path) is not None:
            raise ValueError(f"{path!r} leaves the folder of the code")
        (code / "src" / path).parent.mkdir(parents=True, exist_ok=True)
        (code / "src" / path).write_bytes(content)


def _metadata(folder: Path, distribution: dict[str, Any]) -> None:
    name, version = distribution["name"], distribution["version"]
    folder = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / "METADATA").write_text(text, encoding="utf-8")
    (folder / "entry_points.txt").write_text(distribution["entry_points"], encoding="utf-8")


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a stage's log

"""Plugins as pip leaves them: a module with its dist-info, on this process's path or in an environment of its own."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import venv
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOREIGN = ("LAB_", "WANDB_", "MLFLOW_", "RUNPOD_", "HF_")
"""What variables of this machine's lab begin with: no test may see them."""


def write_plugin(
    folder: Path,
    name: str,
    code: str,
    *,
    module: str | None = None,
    distribution: str | None = None,
    version: str = "1.0",
    requires: tuple[str, ...] = (),
    commands: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write a plugin of one module into a folder that is on the module search path; return its dist-info.

    It is a package instead, and `code` unused, when `files` holds its `__init__.py`.
    `module` is lab_<name> by default, `distribution` lab-<name>; `requires` holds requirement lines, `commands` the
    entry points of lab.commands (name to "module:attribute"), `files` more files by their relative path.
    """
    module = module or "lab_" + name.replace("-", "_")
    distribution = distribution or f"lab-{name}"
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    sources = dict(files or {})
    if f"{module}/__init__.py" not in sources:
        sources[f"{module}.py"] = code
    for path, text in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    lines = [f"Requires-Dist: {line}\n" for line in requires]
    head = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    (info / "METADATA").write_text(head + "".join(lines), encoding="utf-8")
    entries = f"[lab]\n{name} = {module}\n"
    if commands:
        entries += "[lab.commands]\n" + "".join(f"{key} = {value}\n" for key, value in commands.items())
    (info / "entry_points.txt").write_text(entries, encoding="utf-8")
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in sources), encoding="utf-8")
    return info


@dataclass(frozen=True)
class Environment:
    """A Python environment of its own that borrows lab and its libraries from this one; plugins go into it alone."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Environment:
        """An environment without a plugin of a stranger."""
        venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
        made = cls(folder)
        here = [place for place in site.getsitepackages() if os.path.isdir(place)]
        borrowed = "".join(f"import site; site.addsitedir({place!r})\n" for place in here)
        (made.packages / "borrowed.pth").write_text(borrowed, encoding="utf-8")
        return made

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        [found] = self.folder.glob("lib/python*/site-packages")
        return found

    def script(self, name: str, target: str) -> None:
        """A command as pip would install it: `target` is the entry point, "module:function"."""
        module, _, function = target.partition(":")
        path = self.python.parent / name
        path.write_text(f"#!{self.python}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
        path.chmod(0o755)

    def install(self, name: str, code: str, **keywords: object) -> None:
        """Install a plugin, or upgrade it: what was installed under this name goes first."""
        self.remove(str(keywords.get("distribution") or f"lab-{name}"))
        write_plugin(self.packages, name, code, **keywords)  # type: ignore[arg-type]

    def pip(self, *arguments: object) -> None:
        """What its person asks of pip, without a network: what builds packages is borrowed too."""
        offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "--python", self.python, *arguments, *offline, "--quiet"]
        variables = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
        subprocess.run([*map(str, command)], env={**variables, "PIP_CONFIG_FILE": os.devnull}, check=True)

    def remove(self, distribution: str) -> None:
        """Uninstall a distribution, if it is there."""
        for info in self.packages.glob(f"{distribution.replace('-', '_')}-*.dist-info"):
            for line in (info / "RECORD").read_text(encoding="utf-8").splitlines():
                (self.packages / line.partition(",")[0]).unlink()
            shutil.rmtree(info)

    def lab(self, *arguments: object, project: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """One command line in the project, as its person types it."""
        known = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
        return subprocess.run(
            [self.python, "-m", "lab", *map(str, arguments)],
            cwd=project,
            env={**known, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

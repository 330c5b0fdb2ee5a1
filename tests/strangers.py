"""The packages of strangers below tests/plugins, built and installed by pip as their users do it."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from installed import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent / "plugins"
PAGE = HERE.parents[1] / "docs" / "plugins.md"
NAMES = ("zloss", "fenland", "activation_sizes")
IMAGE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel@sha256:" + "a7" * 32
TINY = f"""
description = "Small enough for a test"
seed = 7
loop = "pretrain"
attention = "sdpa"
loss = "cross-entropy"
[data]
source = "embedded"
context = 64
split_seed = 1
validation_fraction = 0.2
train_tokens = 4000
validation_tokens = 500
max_documents = 500
[model]
layers = 2
width = 16
heads = 2
[batch]
tokens = 256
micro_batches = 1
buffer = 8
[optimizer]
learning_rate = 1e-2
[train]
steps = 3
warmup_steps = 1
precision = "fp32"
[trackers]
mlflow = false
[environment]
image = "{IMAGE}"
volume_gb = 20
"""


def copied(folder: Path) -> list[Path]:
    """Their sources somewhere else, as a stranger has them."""
    ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    return [Path(shutil.copytree(HERE / name, folder / name, ignore=ignored)) for name in NAMES]


def installed(folder: Path, sources: list[Path]) -> Environment:
    """An environment into which the wheels of these sources are installed."""
    environment = Environment.create(folder / "environment")
    environment.pip("wheel", "--wheel-dir", folder / "wheels", *sources)
    environment.pip("install", *sorted((folder / "wheels").glob("*.whl")))
    return environment


def project(folder: Path) -> Path:
    """A project with one experiment, `tiny`."""
    (folder / "experiments").mkdir(parents=True)
    (folder / ".lab").mkdir()
    (folder / "experiments" / "tiny.toml").write_text(TINY, encoding="utf-8")
    return folder


def own_tests(environment: Environment, sources: list[Path]) -> subprocess.Popen[str]:
    """Their own tests, untouched, against what is installed; a warning is an error."""
    command = [environment.python, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-rA", *sources]
    known = {key: value for key, value in os.environ.items() if not key.startswith(("LAB_", "PYTEST"))}
    return subprocess.Popen(
        list(map(str, command)), cwd=sources[0].parent, env=known, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def fake_fenland() -> object:
    """The module of the package's own tests that plays its cloud."""
    spec = importlib.util.spec_from_file_location("fake_fenland", HERE / "fenland" / "tests" / "fake_fenland.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def public_places() -> set[str]:
    """The modules of lab that docs/plugins.md tells a stranger to import from."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## What to import\n")
    return set(re.findall(r"^\| `(lab[\w.]*)` \|", section.partition("\n## ")[0], re.MULTILINE))


def imports_of_lab(source: str) -> Iterator[str]:
    """Each module of lab that the code imports from."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            names = []
        yield from (name for name in names if name.partition(".")[0] == "lab")

"""A new plugin from a template: a package whose one part works and keeps its contract from the start."""

from __future__ import annotations

import re
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from lab.errors import UsageError
from lab.hookspecs import HOOKS

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Kind(NamedTuple):
    """What the templates of one kind of part say."""

    summary: str
    option: str
    type: str
    default: str
    meaning: str
    use: str


KINDS = {
    "attention": Kind(
        "Attends to one segment after the other.", "in_fp32", "StrictBool", "False",
        "Compute in FP32, whatever the model's precision.", 'attention = "{}"',
    ),
    "loss": Kind(
        "Cross-entropy over some rows at a time.", "rows", "PositiveInt", "4096",
        "How many rows' logits exist at once.", 'loss = "{}"',
    ),
    "loop": Kind(
        "Fits a line.", "numbers", "PositiveInt", "16", "How many numbers a step draws.", 'loop = "{}"',
    ),
    "observer": Kind(
        "Writes the losses that it hears into a file.", "every", "PositiveInt", "1",
        "Of how many steps one is written.", "[observers] {} = true",
    ),
    "source": Kind(
        "Counts.", "count", "PositiveInt", "1000", "How many documents there are.", 'data.source = "{}"',
    ),
    "tracker": Kind(
        "Keeps each run's steps in a CSV file.", "folder", "StrictStr", '"csv"',
        "Where the files are, below lab's store.", "[trackers] {} = true",
    ),
}  # fmt: skip


def create(name: str, kind: str, target: Path) -> list[Path]:
    """Write the package into the new folder `target`, whole or not at all; return its files."""
    if not NAME.fullmatch(name):
        raise UsageError(f"'{name}' cannot name a plugin", "Use small letters, digits and dashes, as in my-loss.")
    if target.exists():
        raise UsageError(f"{target} exists already", "Choose another name, or move it away.")
    files = _files(name, kind)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for path, text in files.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return [target / path for path in files]


def _files(name: str, kind: str) -> dict[str, str]:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("lab.cli", "new_plugin"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    module = "lab_" + name.replace("-", "_")
    words = "".join(word.capitalize() for word in name.split("-"))
    told = KINDS[kind]
    values = {
        **told._asdict(),
        "name": name,
        "kind": kind,
        "module": module,
        "hook": HOOKS[kind],
        "class": words.removesuffix(kind.capitalize()) + kind.capitalize(),
        "options": f"{words}Options",
        "article": "an" if kind[0] in "aeiou" else "a",
        "version": version("llm-training-lab"),
        "use": told.use.format(name),
    }
    templates = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{module}/__init__.py": "init.py",
        f"{module}/options.py": "options.py",
        f"{module}/{kind}.py": f"{kind}.py",
        f"tests/test_{module}.py": "test.py",
    }
    return {path: environment.get_template(f"{file}.jinja").render(values) for path, file in templates.items()}

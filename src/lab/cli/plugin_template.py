"""A new plugin from a template: a package whose one part works and keeps its contract from the start."""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from lab.errors import UsageError
from lab.hookspecs import HOOKS
from lab.runs.new_folder import new_folder

if TYPE_CHECKING:
    from pathlib import Path

    from lab.plugins import Plugins

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
    "backend": Kind(
        "Rents machines of a cloud that is yet to be told.", "region", "str | None", "None",
        "Only machines there; everywhere when it is not said.", "--backend {}",
    ),
    "loss": Kind(
        "Cross-entropy over some rows at a time.", "rows", "PositiveInt", "4096",
        "How many rows' logits exist at once.", 'loss = "{}"',
    ),
    "loop": Kind(
        "Fits a line.", "numbers", "PositiveInt", "16", "How many numbers a step draws.", 'loop = "{}"',
    ),
    "observer": Kind(
        "Draws the losses that it hears.", "every", "PositiveInt", "1",
        "Of how many steps one is drawn.", "[observers] {} = true",
    ),
    "source": Kind(
        "Counts.", "count", "PositiveInt", "1000", "How many documents there are.", 'data.source = "{}"',
    ),
    "tracker": Kind(
        "Keeps each run's steps in a CSV file.", "folder", "StrictStr", '"csv"',
        "Where the files are, below lab's store.", "[trackers] {} = true",
    ),
}  # fmt: skip


def create(name: str, kind: str, target: Path, plugins: Plugins) -> list[Path]:
    """Write the package into the new folder `target`, whole or not at all; return its files."""
    if not NAME.fullmatch(name):
        raise UsageError(f"'{name}' cannot name a plugin", "Use small letters, digits and dashes, as in my-loss.")
    _refuse_taken(name, kind, plugins)
    files = _files(name, kind)
    with new_folder(target, "a plugin begins in a folder of its own", "Choose another name, or move it away.") as fresh:
        for path, text in files.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_text(text, encoding="utf-8")
    return [target / path for path in files]


def _refuse_taken(name: str, kind: str, plugins: Plugins) -> None:
    """Two of one name exclude each other once they are installed, so it is said before there is a second one."""
    module = _module_of(name)
    plugin = next((one for one in plugins.installed if name == one.name or module == one.module.split(".")[0]), None)
    part = next((offers[0][0] for offered, offers in plugins.offers(kind).items() if offered == name), None)
    if plugin is not None:
        taken = f"a plugin '{plugin.name}' is installed ({plugin.owner})"
    elif part is not None:
        taken = f"plugin {part.name} ({part.owner}) offers {_article(kind)} {kind} '{name}'"
    elif find_spec(module) is not None:
        taken = f"a module {module} is installed"
    else:
        return
    raise UsageError(f"'{name}' is taken: {taken}", f"Choose another name, as in my-{name}.")


def _article(kind: str) -> str:
    return "an" if kind[0] in "aeiou" else "a"


def _module_of(name: str) -> str:
    """The import name of a plugin's package."""
    return "lab_" + name.replace("-", "_")


def _files(name: str, kind: str) -> dict[str, str]:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("lab.cli", "new_plugin"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    told = KINDS[kind]
    module = _module_of(name)
    words = "".join(word.capitalize() for word in name.split("-"))
    stem = words.removesuffix(kind.capitalize())
    values = {
        **told._asdict(),
        "name": name,
        "kind": kind,
        "module": module,
        "hook": HOOKS[kind],
        "class": stem + kind.capitalize(),
        "provider": f"{stem}Provider",
        "prefix": name.replace("-", "_").upper(),
        "options": f"{words}Options",
        "article": _article(kind),
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
    if kind == "backend":
        templates |= {
            f"{module}/options.py": "backend/options.py",
            f"{module}/provider.py": "backend/provider.py",
            f"{module}/client.py": "backend/client.py",
            f"tests/test_{module}.py": "backend/test.py",
            "tests/fake_cloud.py": "backend/fake_cloud.py",
        }
    return {path: environment.get_template(f"{file}.jinja").render(values) for path, file in templates.items()}

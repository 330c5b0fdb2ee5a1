"""The project's documents as a reader meets them: fenced blocks in order, each a command, a file, a fragment or output.

```sh                     commands: executed, in the folder of the project, in the order of the page
```sh needs-runpod        commands that need a key and money (needs-gpu: a device): counted, not executed
```toml, ```python        a file when its first line is `# path/of/the/file`, else a fragment of one
```text                   what a command prints, or a drawing
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parent.parent
READING_ORDER = ("README.md", "docs/tutorial.md", "docs/runpod.md", "docs/measuring.md", "docs/plugins.md")
PLACES = ("README.md", "docs/*.md", "plugins/README.md", "plugins/*/README.md", "experiments/README.md",
          "benchmarks/README.md")  # fmt: skip
COMMANDS, FILES, OUTPUT = "sh", ("toml", "python"), "text"
MARKS = ("needs-runpod", "needs-gpu")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<path>[\w.-]+(/[\w.-]+)*\.\w+)\n")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    document: str
    line: int
    language: str
    marks: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def runs(self) -> bool:
        """Whether it holds commands that can be executed anywhere."""
        return self.language == COMMANDS and not self.marks

    @property
    def file(self) -> str | None:
        """The path that the reader is told to write it to."""
        found = _FILE.match(self.text) if self.language in FILES else None
        return found["path"] if found else None


def documents() -> list[str]:
    """Every document, in the order in which a person is told to read them."""
    found = {path.relative_to(REPOSITORY).as_posix() for place in PLACES for path in REPOSITORY.glob(place)}
    return [*READING_ORDER, *sorted(found - set(READING_ORDER))]


def blocks(document: str) -> Iterator[Block]:
    """The document's fenced blocks, in order."""
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    for fence in _FENCE.finditer(text):
        language, *marks = fence["info"].split() or [""]
        body = re.sub(rf"^{fence['indent']}", "", fence["text"], flags=re.MULTILINE)
        yield Block(document, text.count("\n", 0, fence.start()) + 1, language, tuple(marks), body)


def every_block() -> list[Block]:
    """The blocks of all documents."""
    return [block for document in documents() for block in blocks(document)]

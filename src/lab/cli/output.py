"""What commands print with: tables and lines for people, JSON for programs. Rich is imported on first use.

Results go to standard output; warnings and progress to standard error. Colour never carries meaning alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

PIPED_WIDTH = 10_000  # what goes to another program is neither wrapped nor cut


def console(*, stderr: bool = False) -> Console:
    """A console that shows text as it is: no markup, no emoji codes, no guessed highlights."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPED_WIDTH
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def terminal_width() -> int | None:
    """How many columns standard output's terminal has; None where it is none."""
    return console().width if sys.stdout.isatty() else None


def show(*renderables: RenderableType) -> None:
    """Print tables, texts or plain strings to standard output; without trailing blanks when piped."""
    out = console()
    for renderable in renderables:
        if sys.stdout.isatty():
            out.print(renderable)
            continue
        with out.capture() as capture:
            out.print(renderable)
        sys.stdout.write("".join(line.rstrip() + "\n" for line in capture.get().splitlines()))


def table(*columns: str, right: Iterable[str] = (), whole: Iterable[str] = (), cut: Iterable[str] = ()) -> Table:
    """A calm table: no lines, dim headers.

    Columns in `right` hold numbers; those in `whole` keep their width, those in `cut` end in an ellipsis where the
    terminal ends, all others wrap.
    """
    from rich.table import Table

    fills = bool(cut) and sys.stdout.isatty()
    result = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim", show_edge=False, expand=fills)
    for name in columns:
        result.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name in whole or name in cut,
            overflow="ellipsis" if name in cut else "fold",
            ratio=1 if name in cut and fills else None,
        )
    return result


def plain(value: object, style: str = "") -> Text:
    """A cell or line from any value: `-` for None, and no control character that could repaint the terminal."""
    from rich.text import Text

    text = "-" if value is None else str(value)
    return Text("".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text), style=style)


def near(text: Path | str) -> str:
    """Paths below the working directory, alone or within a text, as short as they can be typed from here."""
    try:
        return str(text).replace(f"{Path.cwd()}{os.sep}", "")
    except OSError:  # the working directory was removed
        return str(text)


def print_json(value: object) -> None:
    """Print one JSON document: models, dataclasses, paths and dates included, NaN and infinity as strings."""
    from pydantic_core import to_json

    try:
        text = to_json(value, indent=2, inf_nan_mode="strings").decode()
    except ValueError:  # a name that is no text: JSON can only escape it
        import json

        text = json.dumps(_plain(value), indent=2)
    sys.stdout.write(text + "\n")


def _plain(value: Any) -> Any:
    """The value in lists and tables that may hold such names; its dataclasses as tables."""
    import json
    from dataclasses import fields, is_dataclass

    from pydantic_core import to_json

    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str) else json.loads(to_json(value, inf_nan_mode="strings"))


def warn(text: str) -> None:
    """Tell something that matters but stops nothing, on standard error."""
    from rich.text import Text

    console(stderr=True).print(Text.assemble(("Warning: ", "yellow"), plain(text)), soft_wrap=True)


def error_line(what: str, do: str = "") -> None:
    """Say what is wrong and what to do, on standard error."""
    from rich.text import Text

    err = console(stderr=True)
    err.print(Text.assemble(("Error: ", "bold red"), plain(what)), soft_wrap=True)
    if do:
        err.print(plain(do), soft_wrap=True)

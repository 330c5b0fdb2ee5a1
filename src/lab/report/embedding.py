"""A picture that a loop or an observer left, as it stands inside the page: its letters fit, and it can be dark."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from lab.compare import formats
from lab.report.blocks import Image, Text

if TYPE_CHECKING:
    from pathlib import Path

    from lab.report.blocks import Block

SVG = ".svg"
TYPES = {".png": "image/png", SVG: "image/svg+xml", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
LARGEST_BYTES = 1_000_000
"""A larger one is named and not put into the page."""
OF_VEGA = b'class="marks"'
MEASURED = b'font-family="sans-serif"'
AS_MEASURED = b"font-family=\"Arial, Helvetica, 'Liberation Sans', Arimo, 'DejaVu Sans Condensed', sans-serif\""
"""Vega places titles by the width of Arial's letters; those that a browser takes for sans-serif may be wider."""
KNOWS_DARK = b"prefers-color-scheme"


def block(path: Path, title: str) -> Block:
    """The picture, or its name and size where it is too large or none that a browser shows."""
    kind, size = TYPES.get(path.suffix.lower()), path.stat().st_size
    if kind is None or size > LARGEST_BYTES:
        return Text(f"{title}: {path.name}, {formats.size(size)}, is not shown inside the page.")
    content = path.read_bytes()
    if path.suffix.lower() != SVG:  # a photograph would be a negative
        return Image(title, _address(kind, content))
    if OF_VEGA in content[:500]:
        content = content.replace(MEASURED, AS_MEASURED)
    return Image(title, _address(kind, content), "by itself" if KNOWS_DARK in content else "turned")


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"

"""A user's own files as documents: Parquet, JSON lines, text."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def sources() -> list[Part]:
    """Files of the project."""
    return [
        Part(
            "files",
            target="lab_files.source:Files",
            summary="Your own Parquet, JSONL and text files, by paths relative to the project.",
            options="lab_files.options:FilesOptions",
        )
    ]

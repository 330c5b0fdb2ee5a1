"""What an experiment says about its files."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Format = Literal["parquet", "jsonl", "text"]
SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
    ".md": "text",
}


class FilesOptions(BaseModel):
    """Which files, how they are read, and where their text stands."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paths: tuple[str, ...] = Field(min_length=1)
    """Files, folders and patterns such as "corpus/*.jsonl", relative to the project, read in this order."""
    format: Literal["auto", "parquet", "jsonl", "text"] = "auto"
    """By the suffix, or the same for all."""
    text: str = Field(default="text", min_length=1)
    """The column or key that holds a document's text; text files have none."""

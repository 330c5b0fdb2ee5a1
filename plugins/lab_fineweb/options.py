"""What an experiment may say about `fineweb`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

COMMIT = r"^[0-9a-f]{40}$"


class FineWebOptions(BaseModel):
    """Which part of which repository, at which commit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    subset: str = Field(default="sample-10BT", min_length=1)
    """A sample as "sample-10BT", or a crawl as "CC-MAIN-2024-10"."""
    revision: str = Field(default="9bb295ddab0e05d785b879661af7260fed5140fc", pattern=COMMIT)
    """The commit: a branch would move under the experiment."""
    repository: str = Field(default="HuggingFaceFW/fineweb", pattern=r"^[^/\s]+/[^/\s]+$")
    text: str = Field(default="text", min_length=1)
    """The column that holds a document's text."""

    @property
    def folder(self) -> str:
        """Where the subset's Parquet files lie in the repository."""
        if self.subset.startswith("sample-"):
            return f"sample/{self.subset.removeprefix('sample-')}"
        return f"data/{self.subset}"

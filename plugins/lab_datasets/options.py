"""What an experiment may say about `datasets`."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class DatasetsOptions(BaseModel):
    """A repository at a commit, or a folder that `save_to_disk` wrote; never both."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repository: str | None = Field(default=None, pattern=r"^[^/\s]+/[^/\s]+$")
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """The commit: a branch would move under the experiment."""
    config: str | None = None
    """Which of the repository's data sets, where it has several."""
    folder: str | None = None
    """Relative to the project."""
    split: str = "train"
    text: str = Field(default="text", min_length=1)
    """The column that holds a document's text."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.repository is None) == (self.folder is None):
            raise ValueError("give either repository and revision, or folder")
        if (self.repository is None) != (self.revision is None):
            raise ValueError("a repository needs its revision (a commit), a folder has none")
        return self

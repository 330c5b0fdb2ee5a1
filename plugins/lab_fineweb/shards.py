"""A data set's Parquet files on the hub at one commit: which there are, and one of them read by ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from huggingface_hub import HfApi, HfFileSystem
from huggingface_hub.errors import EntryNotFoundError

from lab.errors import LabError

if TYPE_CHECKING:
    from typing import BinaryIO


def parquet_files(repository: str, commit: str, folder: str) -> list[str]:
    """The folder's Parquet files by path, in the order that every run reads them."""
    try:
        entries = HfApi().list_repo_tree(repository, folder, revision=commit, repo_type="dataset")
        found = sorted(entry.path for entry in entries if entry.path.endswith(".parquet"))
    except EntryNotFoundError:
        found = []
    if not found:
        raise LabError(
            f"{repository} at commit {commit} has no Parquet file in {folder}/.",
            "Check data.source.subset; FineWeb has sample-10BT, sample-100BT, sample-350BT and crawls.",
        )
    return found


def open_file(repository: str, commit: str, path: str) -> BinaryIO:
    """A file of a data set, read by ranges; the client retries each of them."""
    file: BinaryIO = HfFileSystem().open(f"datasets/{repository}@{commit}/{path}", "rb")
    return file

"""The token cache: one folder for each identity, complete or not there at all, and verified before it is believed.

    <store>/tokens/<identity>/
        train.tokens  validation.tokens     uint32, little-endian, documents back to back
        train.index   validation.index      int64, little-endian: offset and length of each document
        token-bytes                         uint16, little-endian: bytes of text that each id stands for
        manifest.json                       written last: what decided the content, counts, SHA-256 of each file

The identity covers source, tokenizer, split and collection; not the context length: packed rows are never stored.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.data.documents import SPLITS, SplitName
from lab.errors import LabError
from lab.runs.records import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

FORMAT = 1
MANIFEST = "manifest.json"
TOKEN_BYTES = "token-bytes"
TOKEN_TYPE = np.dtype("<u4")
INDEX_TYPE = np.dtype("<i8")
BYTES_TYPE = np.dtype("<u2")
CHUNK = 1 << 20


@dataclass(frozen=True)
class Split:
    """The documents of one split."""

    name: SplitName
    tokens: npt.NDArray[np.uint32]
    index: npt.NDArray[np.int64]  # (documents, 2): offset, length

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each document, its end-of-text included."""
        return np.ascontiguousarray(self.index[:, 1])

    def document(self, number: int) -> npt.NDArray[np.uint32]:
        """The tokens of one document, end-of-text included."""
        offset, length = self.index[number].tolist()
        return self.tokens[offset : offset + length]

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self.index)


@dataclass(frozen=True)
class TokenCache:
    """A prepared data set."""

    folder: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path, verify: bool = True) -> TokenCache:
        """The cache in `folder`. Raises `LabError` naming the file that is absent, cut short or changed."""
        manifest = read_manifest(folder)
        for name, expected in manifest["files"].items():
            path = folder / name
            size = path.stat().st_size if path.is_file() else None
            if size != expected["bytes"] or (verify and file_sha256(path) != expected["sha256"]):
                raise corrupt(path, "is missing" if size is None else "is not what was written")
        return cls(folder, manifest)

    @property
    def identity(self) -> str:
        """The hash of everything that decides the content."""
        return str(self.manifest["identity"])

    def split(self, name: SplitName) -> Split:
        """The documents of one split, mapped rather than read."""
        tokens = _mapped(self.folder / f"{name}.tokens", TOKEN_TYPE)
        return Split(name, tokens, _mapped(self.folder / f"{name}.index", INDEX_TYPE).reshape(-1, 2))

    def token_bytes(self) -> npt.NDArray[np.uint16]:
        """How many bytes of text each id stands for: what bits per byte are counted with."""
        return _mapped(self.folder / TOKEN_BYTES, BYTES_TYPE)

    def require(self, *, vocabulary: int, tokenizer_sha256: str | None = None, identity: str | None = None) -> None:
        """Raise `LabError` unless a model of this vocabulary, this tokenizer and this identity fit the tokens."""
        largest = max(self.manifest["splits"][name]["largest_token"] for name in SPLITS)
        if largest >= vocabulary:
            raise LabError(f"{self.folder}: holds token {largest}, but the model knows only {vocabulary} tokens.")
        own = self.manifest["tokenizer"]["sha256"]
        if tokenizer_sha256 not in (None, own):
            raise LabError(
                f"{self.folder}: was made with the tokenizer {own}, not with {tokenizer_sha256}.", _again(self.folder)
            )
        if identity not in (None, self.identity):
            raise LabError(f"{self.folder}: holds the data set {self.identity}, not {identity}.", _again(self.folder))


def stored(store: Path) -> list[dict[str, Any]]:
    """What the caches of a store hold by their manifests, newest first; a `fault` where a manifest says nothing."""
    folders = [path for path in (store / "tokens").glob("[!.]*") if path.is_dir()]
    return [_summary(folder) for folder in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)]


def folder_of(store: Path, identity: str) -> Path:
    """Where the cache of an identity belongs."""
    return store / "tokens" / identity


def identity_of(key: Mapping[str, object]) -> str:
    """SHA-256 (hex) of everything that decides the content, and of the format it is stored in."""
    return hashlib.sha256(_canonical({**key, "format": FORMAT})).hexdigest()


def write_manifest(folder: Path, manifest: Mapping[str, object]) -> None:
    """Write the manifest, sealed by a hash over itself."""
    content = {**manifest, "format": FORMAT, "type": TOKEN_TYPE.str}
    write_json(folder / MANIFEST, {**content, "seal": hashlib.sha256(_canonical(content)).hexdigest()})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a cache. Raises `LabError` when there is none, or when it was edited or is of another format."""
    path = folder / MANIFEST
    try:
        manifest = read_json(path)
    except LabError as error:
        raise LabError(error.what, _again(folder)) from error
    if manifest is None:
        raise corrupt(path, "is missing")
    seal = manifest.pop("seal", None)
    if seal != hashlib.sha256(_canonical(manifest)).hexdigest():
        raise corrupt(path, "is not what was written")
    if (manifest["format"], manifest["type"]) != (FORMAT, TOKEN_TYPE.str):
        raise LabError(f"{path}: is of format {manifest['format']}, this lab reads format {FORMAT}.", _again(folder))
    return manifest


def file_sha256(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def corrupt(path: Path, how: str) -> LabError:
    """The error for a file that cannot be believed."""
    return LabError(f"{path}: {how}: this token cache cannot be used.", _again(path.parent))


def _summary(folder: Path) -> dict[str, Any]:
    try:
        manifest = read_manifest(folder)
    except LabError as error:
        return {"identity": folder.name, "folder": folder, "fault": error.what}
    splits = manifest["splits"]
    return {
        "identity": folder.name,
        "folder": folder,
        "fault": None,
        "source": manifest["source"]["name"],
        "tokens": {name: splits[name]["tokens"] for name in SPLITS},
        "documents": sum(splits[name]["documents"] for name in SPLITS),
        "bytes": sum(file["bytes"] for file in manifest["files"].values()),
        "prepared": datetime.fromtimestamp((folder / MANIFEST).stat().st_mtime, UTC),
    }


def _again(folder: Path) -> str:
    return f"Delete {folder} and prepare the data again."


def _canonical(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _mapped(path: Path, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    try:
        return np.asarray(np.memmap(path, dtype=kind, mode="r"))
    except (OSError, ValueError) as error:  # also while a run is at work: every evaluation maps its split anew
        how = "has gone" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
        raise corrupt(path, how) from error

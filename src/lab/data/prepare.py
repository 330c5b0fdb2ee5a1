"""A source's documents become a token cache, made once for each identity and read one document at a time."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from lab.data import tokenizer as tokenizers
from lab.data.building import SplitWriter, building, files_of, on_disk, write_token_bytes
from lab.data.cache import TokenCache, folder_of, identity_of, write_manifest
from lab.data.collection import RULES, Collection
from lab.data.recorded import require_same
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from lab.contracts import Document, Source
    from lab.data.collection import Progress
    from lab.data.tokenizer import Tokenizer
    from lab.experiment import Experiment
    from lab.experiment.sections import Data


def data_of(experiment: Experiment) -> Data:
    """The experiment's [data]. Raises `UsageError` when it has none."""
    if experiment.data is None:
        raise UsageError(f"{experiment.name}: has no [data] section, so there is nothing to prepare.")
    return experiment.data


def prepare(
    data: Data,
    source: Source,
    store: Path,
    progress: Callable[[Progress], None] | None = None,
    tokenizer: Tokenizer | None = None,
    threads: int | None = None,
    recorded: Mapping[str, object] | None = None,
) -> TokenCache:
    """The verified token cache of `data`, made if the store does not hold it yet, the same by any number of threads.

    Raises `LabError` when it would not be what a run's data manifest has `recorded`, before anything is read.
    """
    tokenizer = tokenizer or tokenizer_of(data, source)
    key = key_of(data, source, tokenizer)
    identity = identity_of(key)
    if recorded is not None:
        require_same(recorded, identity, key)
    folder = folder_of(store, identity)
    made = not folder.exists()
    if made:
        with building(folder) as partial:
            manifest = {"identity": identity, **key, "tokenizer": tokenizer.record()}
            manifest |= _collect(data, source, tokenizer, partial, progress, threads)
            with on_disk(partial):
                write_token_bytes(partial, tokenizer.token_bytes())
                write_manifest(partial, {**manifest, "files": files_of(partial)})
    cache = TokenCache.open(folder, verify=not made)  # what was just made was hashed as it stands on the disk
    cache.require(vocabulary=tokenizer.vocabulary, tokenizer_sha256=tokenizer.sha256, identity=identity)
    return cache


def find(data: Data, source: Source, store: Path, tokenizer: Tokenizer | None = None) -> Path:
    """Where the cache of `data` is or would be."""
    return folder_of(store, identity_of(key_of(data, source, tokenizer or tokenizer_of(data, source))))


def tokenizer_of(data: Data, source: Source) -> Tokenizer:
    """The experiment's tokenizer: from the source's hub when the source offers one, else from this machine."""
    offered = getattr(source, "tokenizer_folder", None)
    return tokenizers.load(data.tokenizer, offered(data.tokenizer) if offered else None)


def key_of(data: Data, source: Source, tokenizer: Tokenizer) -> dict[str, object]:
    """Everything that decides which tokens a cache holds, in which order."""
    return {
        "source": dict(source.identity()),
        "tokenizer": {"sha256": tokenizer.sha256, "eos": tokenizer.eos},
        "collection": {
            "rules": RULES,
            "split_seed": data.split_seed,
            "validation_fraction": data.validation_fraction,
            "train_tokens": data.train_tokens,
            "validation_tokens": data.validation_tokens,
            "max_documents": data.max_documents,
        },
    }


def _collect(
    data: Data,
    source: Source,
    tokenizer: Tokenizer,
    folder: Path,
    progress: Callable[[Progress], None] | None,
    threads: int | None,
) -> dict[str, object]:
    with (
        SplitWriter(folder, "train") as train,
        SplitWriter(folder, "validation") as validation,
        closing(_stream(source)) as documents,
    ):
        collection = Collection(data, tokenizer, (train, validation))
        collection.read(documents, progress, threads)
        train.finish()
        validation.finish()
        return collection.record()


def _stream(source: Source) -> Generator[Document]:
    """The source's documents; closing this closes the source's own iterator."""
    yield from source.documents()


def manifest_for_run(cache: TokenCache) -> dict[str, Any]:
    """What data-manifest.json of a run says."""
    kept = ("source", "collection", "tokenizer", "counters", "rejections", "warnings")
    files = {name: file["sha256"] for name, file in cache.manifest["files"].items()}
    splits = {name: {**split, "sha256": files[f"{name}.tokens"]} for name, split in cache.manifest["splits"].items()}
    return {
        "schema": 1,
        "identity": cache.identity,
        "folder": str(cache.folder),
        **{key: cache.manifest[key] for key in kept},
        "splits": splits,
        "files": files,
    }

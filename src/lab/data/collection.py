"""Which documents a token cache admits: whole ones, until each split's budget is met, each one accounted for.

A split whose budget is never met is a warning that the manifest keeps: all there is gets used. A split that stays
without a document is an error.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from lab.data.ahead import ahead, threads_here
from lab.data.documents import Counters, Deduplication, SplitName, document_id, split_of, well_formed
from lab.data.shortage import nothing_for
from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    from lab.contracts import Document
    from lab.data.building import SplitWriter
    from lab.data.tokenizer import Tokenizer
    from lab.experiment.sections import Data

RULES = "exact duplicates once; whole documents; lone surrogates as U+FFFD; one end-of-text"
REJECTIONS_KEPT = 20
SECONDS_BETWEEN_REPORTS = 0.1


@dataclass(frozen=True)
class Progress:
    """How far a preparation is."""

    read: int
    max_documents: int
    tokens: Mapping[SplitName, int]
    budgets: Mapping[SplitName, int]


@dataclass(frozen=True)
class Examined:
    """All that can be known of a document alone, whatever stands before it."""

    name: str = ""
    split: SplitName = "train"
    text_bytes: int = 0
    repaired: bool = False
    rejected: str | None = None
    tokens: npt.NDArray[np.uint32] | None = None
    """End-of-text included; None when its split had enough by then, or for the reason in `fault`."""
    fault: str = ""


class Collection:
    """Admits documents to the splits and accounts for each one read."""

    def __init__(self, data: Data, tokenizer: Tokenizer, splits: tuple[SplitWriter, ...]) -> None:
        self._data, self._tokenizer = data, tokenizer
        self._end = np.array([tokenizer.eos], dtype=np.uint32)
        self._budgets: dict[SplitName, int] = {"train": data.train_tokens, "validation": data.validation_tokens}
        self._splits = {split.name: split for split in splits}
        self._counters = Counters()
        self._duplicates = Deduplication()
        self._rejections: list[str] = []
        self._exhausted = False

    def read(
        self, documents: Iterator[Document], progress: Callable[[Progress], None] | None, threads: int | None
    ) -> None:
        """Read until each budget is met, `max_documents` are read, or there are no more."""
        reported = 0.0
        readable = islice(documents, self._data.max_documents)
        work = ahead(readable, self._examined, lambda document: len(document.text), threads or threads_here())
        try:
            with closing(work) as examined:
                while self._wanting() and (document := next(examined, None)) is not None:
                    self._take(document)
                    if progress and time.monotonic() - reported > SECONDS_BETWEEN_REPORTS:
                        reported = time.monotonic()
                        progress(self._progress())
        except OSError as error:
            where = f"after {self._counters.read:,} documents"
            raise LabError(f"data.source {self._data.source.name}: cannot be read on {where}: {error}") from error
        self._exhausted = self._counters.read < self._data.max_documents
        if progress:
            progress(self._progress())

    def record(self) -> dict[str, object]:
        """What the manifest says about the collection. Raises `LabError` when a split holds no document."""
        for name, split in self._splits.items():
            if not split.documents:
                source = self._data.source.name
                raise nothing_for(name, source, self._counters, self._rejections, exhausted=self._exhausted)
        splits = {
            name: {**split.record(), "budget": self._budgets[name], "met": name not in self._wanting()}
            for name, split in self._splits.items()
        }
        return {
            "splits": splits,
            "counters": asdict(self._counters),
            "rejections": self._rejections,
            "warnings": self._warnings(),
        }

    def _examined(self, document: Document) -> Examined:
        """Runs in a thread: reads what the splits hold, changes nothing. A split that has enough stays so."""
        if document.rejected is not None:
            return Examined(rejected=document.rejected)
        text = well_formed(document.text)
        name = document_id(text)
        split = split_of(name, self._data.split_seed, self._data.validation_fraction)
        tokens, fault = None, ""
        if text and split in self._wanting():
            try:
                tokens = np.concatenate((self._tokenizer.encode(text), self._end))
            except ValueError as error:
                fault = f"document {name}: cannot be tokenised: {error}"
        return Examined(name, split, len(text.encode()), text != document.text, None, tokens, fault)

    def _wanting(self) -> list[SplitName]:
        return [name for name, budget in self._budgets.items() if self._splits[name].tokens < budget]

    def _take(self, document: Examined) -> None:
        counters = self._counters
        counters.read += 1
        counters.repaired += document.repaired
        if document.rejected is not None:
            self._reject(document.rejected)
        elif not document.text_bytes:
            counters.empty += 1
        elif not self._duplicates.is_new(document.name):
            counters.duplicate += 1
        elif document.split not in self._wanting():
            counters.surplus += 1
        elif document.tokens is None:
            self._reject(document.fault)
        else:
            counters.kept += 1
            self._splits[document.split].append(document.tokens, document.text_bytes)

    def _reject(self, reason: str) -> None:
        self._counters.rejected += 1
        if len(self._rejections) < REJECTIONS_KEPT:
            self._rejections.append(reason)

    def _warnings(self) -> list[str]:
        why = "the source has no more" if self._exhausted else "data.max_documents was reached"
        warnings = [
            f"{name}: {self._splits[name].tokens:,} of {self._budgets[name]:,} tokens: {why}"
            for name in self._wanting()
        ]
        if self._counters.rejected:
            warnings.append(f"{self._counters.rejected:,} records rejected, first: {self._rejections[0]}")
        return warnings

    def _progress(self) -> Progress:
        tokens = {name: self._splits[name].tokens for name in self._budgets}
        return Progress(self._counters.read, self._data.max_documents, tokens, self._budgets)

"""Reads a data set through the real hub client, as cases on standard input ask, and prints what came as JSON.

The client reads HF_ENDPOINT when it is imported, so it has to be a process of its own.
"""

from __future__ import annotations

import json
import sys
import time

from lab.data import tokenizer
from lab.errors import LabError
from lab.experiment.sections import Tokenizer
from lab_fineweb.options import FineWebOptions
from lab_fineweb.source import FineWeb


def read(case: dict) -> dict[str, object]:
    texts, cursors = [], []
    source = FineWeb(FineWebOptions(**case["options"]))
    documents = source.documents(case.get("cursor"))
    for document in documents:
        texts.append(document.text if document.rejected is None else f"REJECTED {document.rejected}")
        cursors.append(document.cursor)
        if len(texts) == case.get("take"):
            break  # an early stop, with the iterator left open
    return {"texts": texts, "cursor": cursors[-1] if cursors else None}


def keep_the_contract(case: dict) -> dict[str, object]:
    from lab.conformance.source import check_source

    check_source(FineWeb(FineWebOptions(**case["options"])))
    return {"kept": True}


def encode(case: dict) -> dict[str, object]:
    choice = Tokenizer(**case["tokenizer"])
    if case.get("without_package"):
        tokenizer.PACKAGE = "a_package_that_is_not_here"
    folder = FineWeb(FineWebOptions()).tokenizer_folder(choice)
    found = tokenizer.load(choice, folder)
    return {
        "hub": folder is not None, "sha256": found.sha256,
        "ids": [found.encode(text).tolist() for text in case["texts"]],
    }  # fmt: skip


def answer_to(case: dict) -> dict[str, object]:
    begun = time.perf_counter()
    try:
        answer = encode(case) if "tokenizer" in case else keep_the_contract(case) if "check" in case else read(case)
    except LabError as error:
        answer = {"error": error.what, "do": error.do}
    return {**answer, "seconds": time.perf_counter() - begun}


if __name__ == "__main__":
    json.dump([answer_to(case) for case in json.load(sys.stdin)], sys.stdout)

"""Every command of every document, typed in its order by a reader who has only the document."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from documents import blocks, documents
from hub.server import Hub, Repository
from hub.small_llama import files
from reading import Walk, new_project, walk

from lab_chapter01.options import Options

if TYPE_CHECKING:
    from pathlib import Path

WALKED = [document for document in documents() if any(block.runs for block in blocks(document))]
AT_ONCE = 2
SLOW = ("lab run ", "make smoke", "pip install", "pytest")
MIRRORED = "README.md"
"""Here runs are mirrored into MLflow as they are for everybody; elsewhere that would only take time."""


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Walk]:
    """All documents, each in a new project; the longest first, so that none is waited for at the end."""
    folders: dict[str, Path] = {document: tmp_path_factory.mktemp("walk") / "project" for document in WALKED}
    longest = sorted(
        WALKED, key=lambda document: -sum(block.text.count(slow) for block in blocks(document) for slow in SLOW)
    )
    model = Repository("models", Options().model, {Options().revision: files()})
    with Hub(model) as hub, ThreadPoolExecutor(AT_ONCE) as pool:
        home = str(tmp_path_factory.mktemp("home"))  # one, since matplotlib makes its list of fonts there
        variables = {"OMP_NUM_THREADS": "1", "HOME": home, "HF_ENDPOINT": hub.url}

        def walked(document: str) -> Walk:
            quick = {} if document == MIRRORED else {"LAB_BLOCKED_PLUGINS": "mlflow"}
            return walk(document, new_project(folders[document]), variables | quick)

        return dict(zip(longest, pool.map(walked, longest), strict=True))


@pytest.mark.parametrize("document", WALKED)
def test_every_command_of_the_document_works_in_its_order(walks, document):
    done = walks[document]

    assert done.failed is None, f"{done.failed}\n{done.failed.text}\n{done.output[-4000:]}"
    assert done.executed == [block for block in blocks(document) if block.runs]

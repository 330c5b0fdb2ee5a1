"""FineWeb's source through the real huggingface_hub client, against a hub on loopback that fails when asked to."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet
import pytest
from hub.server import Fault, Hub, Repository
from pydantic import ValidationError

from lab.data import tokenizer
from lab.experiment import load
from lab.experiment.sections import Tokenizer
from lab_fineweb.options import FineWebOptions
from lab_fineweb.source import FineWeb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
OLD, NEW = "a" * 40, "b" * 40
GPT2 = Tokenizer()
TEXTS = [f"document {number} " + "words " * (number % 7) for number in range(40)]
REPOSITORY = "HuggingFaceFW/fineweb"
SHARD = "sample/10BT/000_00000.parquet"


def parquet(texts: list[str | None], rows_in_group: int = 8) -> bytes:
    file = io.BytesIO()
    table = pyarrow.table({"id": [str(n) for n in range(len(texts))], "text": texts})
    pyarrow.parquet.write_table(table, file, row_group_size=rows_in_group)
    return file.getvalue()


def shards(texts: list[str]) -> dict[str, bytes]:
    return {
        "README.md": b"# not data",
        "sample/10BT/001_00000.parquet": parquet(texts[25:]),
        SHARD: parquet(texts[:25]),
        "sample/100BT/000_00000.parquet": parquet(["another subset"]),
    }


@pytest.fixture
def hub() -> Iterator[Hub]:
    new = [text.upper() for text in TEXTS]
    fineweb = Repository("datasets", REPOSITORY, {OLD: shards(TEXTS), NEW: shards(new)}, {"main": NEW})
    vocabulary, merges = tokenizer.vocabulary_files(tokenizer.embedded_folder())
    files = {"vocab.json": vocabulary.read_bytes(), "merges.txt": merges.read_bytes()}
    gpt2 = Repository("models", GPT2.name, {GPT2.revision: files, NEW: files})
    with Hub(fineweb, gpt2) as running:
        yield running


def run(endpoint: str, home: Path, **case: Any) -> dict[str, Any]:
    (answer,) = run_all(endpoint, home, [case])
    return answer


def run_all(endpoint: str, home: Path, cases: list[dict[str, Any]], timeout: float = 30) -> list[dict[str, Any]]:
    """What one process answers to the cases in turn; it must end on its own, in time and cleanly."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, HERE / "fineweb_cases.py"], input=json.dumps(cases), capture_output=True, text=True,
        timeout=timeout, env={**clean, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DOWNLOAD_TIMEOUT": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_the_pinned_commit_is_read_whole_and_in_the_order_of_paths(hub: Hub, tmp_path: Path) -> None:
    old, new = run_all(hub.url, tmp_path, [{"options": {"revision": OLD}}, {"options": {"revision": NEW}, "take": 1}])

    assert old["texts"] == TEXTS
    assert old["cursor"] == {"shard": 1, "group": 1, "row": 7}
    assert new["texts"] == [TEXTS[0].upper()]


def test_it_keeps_the_contract_of_a_source(hub: Hub, tmp_path: Path) -> None:
    assert run(hub.url, tmp_path, options={"revision": OLD}, check=True)["kept"]


def test_a_cursor_continues_after_the_document_it_came_with(hub: Hub, tmp_path: Path) -> None:
    options = {"revision": OLD}
    counts = [3, 8, 25, 33]

    first = run_all(hub.url, tmp_path, [{"options": options, "take": count} for count in counts])
    rest = run_all(hub.url, tmp_path, [{"options": options, "cursor": answer["cursor"]} for answer in first])

    assert [len(answer["texts"]) for answer in first] == counts
    assert all(head["texts"] + tail["texts"] == TEXTS for head, tail in zip(first, rest, strict=True))


def test_an_early_stop_ends_the_process_at_once(hub: Hub, tmp_path: Path) -> None:
    answer = run(hub.url, tmp_path, options={"revision": OLD}, take=2)

    assert answer["texts"] == TEXTS[:2]


def test_server_errors_and_rate_limits_are_waited_out(hub: Hub, tmp_path: Path) -> None:
    hub.faults = [Fault("/resolve/", 1, status=503), Fault("/resolve/", 1, status=429)]

    answer = run(hub.url, tmp_path, options={"revision": OLD})

    assert answer["texts"] == TEXTS


def test_a_server_that_falls_silent_in_between_is_asked_again(hub: Hub, tmp_path: Path) -> None:
    hub.faults = [Fault("/resolve/", 1, stall=True)]

    answer = run(hub.url, tmp_path, options={"revision": OLD})

    assert answer["texts"] == TEXTS


def test_an_answer_that_is_cut_short_is_asked_for_again(hub: Hub, tmp_path: Path) -> None:
    hub.faults = [Fault(SHARD, 2, cut=True)]

    answer = run(hub.url, tmp_path, options={"revision": OLD})

    assert answer["texts"] == TEXTS


def test_a_file_that_is_truncated_on_the_hub_is_named(hub: Hub, tmp_path: Path) -> None:
    files = hub.repositories["datasets", REPOSITORY].commits[OLD]
    files["sample/10BT/001_00000.parquet"] = files["sample/10BT/001_00000.parquet"][:-100]

    answer = run(hub.url, tmp_path, options={"revision": OLD})

    assert "sample/10BT/001_00000.parquet: cannot be read as Parquet" in answer["error"]


def test_a_null_text_is_rejected_by_its_place_and_the_rest_is_read(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["datasets", REPOSITORY].commits[OLD] = {SHARD: parquet(["a", None, "c"])}

    answer = run(hub.url, tmp_path, options={"revision": OLD})

    assert answer["texts"] == ["a", f"REJECTED {SHARD} row group 0 row 2: 'text' is null", "c"]


def test_a_silent_hub_is_given_up_soon_and_not_asked_again(hub: Hub, tmp_path: Path) -> None:
    hub.faults = [Fault("/api/", 99, stall=True)]

    first, second = run_all(hub.url, tmp_path, [{"options": {"revision": OLD}}] * 2)

    assert "cannot be reached" in first["error"]
    assert "HF_HUB_OFFLINE is set" in second["error"]
    assert '"embedded"' in second["do"]
    # One try of two seconds; the client's own retries would take more than twenty.
    assert first["seconds"] < 10
    assert len(hub.requests) == 1


def test_a_hub_that_is_not_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    answer = run("http://127.0.0.1:9", tmp_path, options={"revision": OLD})

    assert "The hub at http://127.0.0.1:9 cannot be reached" in answer["error"]
    assert 'data.source = "embedded"' in answer["do"]
    assert answer["seconds"] < 10


def test_a_hub_that_is_broken_is_not_retried_by_the_first_question(hub: Hub, tmp_path: Path) -> None:
    hub.faults = [Fault("/api/", 99, status=500)]

    answer = run(hub.url, tmp_path, options={"revision": OLD})

    assert "answers HTTP 500" in answer["error"]
    assert len(hub.requests) == 1


def test_a_commit_or_subset_that_does_not_exist_is_named(hub: Hub, tmp_path: Path) -> None:
    commit, subset = run_all(
        hub.url,
        tmp_path,
        [{"options": {"revision": "c" * 40}}, {"options": {"revision": OLD, "subset": "sample-11BT"}}],
    )

    assert f"has no {REPOSITORY} at commit {'c' * 40}" in commit["error"]
    assert "has no Parquet file in sample/11BT/" in subset["error"]


def test_the_identity_needs_no_network_and_leaves_nothing_out() -> None:
    assert FineWeb(FineWebOptions()).identity() == {
        "name": "fineweb",
        "repository": REPOSITORY,
        "revision": "9bb295ddab0e05d785b879661af7260fed5140fc",
        "folder": "sample/10BT",
        "text": "text",
    }
    assert FineWebOptions(subset="CC-MAIN-2024-10").folder == "data/CC-MAIN-2024-10"


def test_a_branch_is_refused_since_it_would_move() -> None:
    with pytest.raises(ValidationError, match="revision"):
        FineWebOptions(revision="main")


SENTENCES = ["Hello world", "I'll say:\n\n 3.14  naïve \u00a0\U0001f642", "<|endoftext|> is text"]


def test_the_hubs_tokenizer_equals_the_one_that_needs_no_network(hub: Hub, tmp_path: Path) -> None:
    case = {"tokenizer": GPT2.model_dump(), "texts": SENTENCES}

    offline = run(hub.url, tmp_path, **case)
    asked = list(hub.requests)
    online = run(hub.url, tmp_path, without_package=True, **case)
    hub.requests.clear()
    again = run(hub.url, tmp_path, without_package=True, **case)

    assert (offline["hub"], online["hub"]) == (False, True)
    assert asked == []
    assert (online["ids"], online["sha256"]) == (offline["ids"], offline["sha256"])
    assert again["ids"] == online["ids"]
    assert hub.requests == []  # pinned and in the client's cache


def test_a_tokenizer_at_another_commit_comes_from_the_hub(hub: Hub, tmp_path: Path) -> None:
    answer = run(hub.url, tmp_path, tokenizer={"name": GPT2.name, "revision": NEW}, texts=SENTENCES)

    assert answer["hub"] is True
    assert any(NEW in request for request in hub.requests)


@pytest.mark.live
def test_the_real_hub_gives_the_published_counts(project: Path, lab: Callable[..., Any]) -> None:
    assert lab("doctor", "--data", "corrected").code == 0


def test_published_counts_hold_for_the_published_choice_alone() -> None:
    data = load("corrected", HERE.parents[1] / "experiments").experiment.data
    other = load("corrected", HERE.parents[1] / "experiments", ["data.train_tokens=1_000_000"]).experiment.data
    assert data is not None
    assert other is not None

    published = FineWeb(FineWebOptions()).published(data)

    assert published is not None
    assert published["train"] == {"documents": 11_450, "tokens": 8_000_201, "pairs": 7_988_751}
    assert published["validation"] == {"documents": 152, "tokens": 100_703, "pairs": 100_551}
    assert FineWeb(FineWebOptions()).published(other) is None
    assert FineWeb(FineWebOptions(revision="0" * 40)).published(data) is None

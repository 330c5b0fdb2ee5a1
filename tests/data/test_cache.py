"""The token cache: whole or not there, verified before it is believed, safe with crashes and neighbours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.data.building import SplitWriter, building, files_of, write_token_bytes
from lab.data.cache import TokenCache, folder_of, identity_of, stored, write_manifest
from lab.errors import LabError

DOCUMENTS = [[70_000, 5, 256], [65_534, 65_535, 65_536, 256], [1, 256]]


def build(folder, documents=DOCUMENTS, **manifest):
    """A cache of these training documents and one for validation."""
    with building(folder) as partial:
        fill(partial, documents, **manifest)
    return folder


def fill(partial, documents=DOCUMENTS, **manifest):
    splits = {}
    for name, content in (("train", documents), ("validation", [[7, 256]])):
        with SplitWriter(partial, name) as split:
            for document in content:
                split.append(np.array(document, dtype=np.uint32), text_bytes=len(document) - 1)
            split.finish()
        splits[name] = split.record()
    write_token_bytes(partial, np.array([1, 2, 3], dtype=np.uint16))
    content = {"identity": folder_name(partial), "source": {"name": "test"}, "tokenizer": {"sha256": "a" * 64}}
    write_manifest(partial, {**content, "splits": splits, "files": files_of(partial), **manifest})


def folder_name(partial):
    return partial.name.removeprefix(".partial-").rsplit("-", 1)[0]


def leftovers(folder):
    return sorted(path.name for path in folder.parent.iterdir() if path.name.startswith("."))


def test_documents_come_back_as_they_were_written(tmp_path):
    cache = TokenCache.open(build(tmp_path / "tokens" / "id"))

    train = cache.split("train")

    assert [train.document(number).tolist() for number in range(len(train))] == DOCUMENTS
    assert train.lengths.tolist() == [3, 4, 2]
    assert train.lengths.dtype == np.int64
    assert cache.split("validation").document(0).tolist() == [7, 256]
    assert cache.token_bytes().tolist() == [1, 2, 3]
    assert cache.identity == "id"


def test_tokens_are_stored_as_little_endian_words_of_32_bits(tmp_path):
    folder = build(tmp_path / "id")

    assert (folder / "train.tokens").read_bytes()[:8] == (70_000).to_bytes(4, "little") + (5).to_bytes(4, "little")
    assert (folder / "train.index").read_bytes()[16:32] == (3).to_bytes(8, "little") + (4).to_bytes(8, "little")


def test_a_split_counts_documents_tokens_and_pairs(tmp_path):
    train = TokenCache.open(build(tmp_path / "id")).manifest["splits"]["train"]

    assert (train["documents"], train["tokens"], train["pairs"], train["bytes"]) == (3, 9, 6, 6)
    assert train["largest_token"] == 70_000


@pytest.mark.parametrize("name", ["validation.tokens", "validation.index"])
@pytest.mark.parametrize("left", [None, b""])
def test_a_file_that_goes_while_a_run_is_at_work_is_an_error_that_names_it(tmp_path, name, left):
    cache = TokenCache.open(build(tmp_path / "tokens" / "id"))
    (cache.folder / name).unlink()
    if left is not None:
        (cache.folder / name).write_bytes(left)

    with pytest.raises(LabError, match=name):
        cache.split("validation")


@pytest.mark.parametrize(
    "name", ["train.tokens", "train.index", "validation.tokens", "validation.index", "token-bytes"]
)
def test_a_flipped_byte_is_refused_by_file(tmp_path, name):
    folder = build(tmp_path / "id")
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)

    with pytest.raises(LabError) as refused:
        TokenCache.open(folder)

    assert refused.value.what.startswith(f"{folder / name}: is not what was written")
    assert f"Delete {folder}" in refused.value.do


def test_a_missing_and_a_shortened_file_are_refused_even_unverified(tmp_path):
    folder = build(tmp_path / "id")
    with (folder / "train.tokens").open("r+b") as file:
        file.truncate(8)

    with pytest.raises(LabError, match=r"train\.tokens: is not what was written"):
        TokenCache.open(folder, verify=False)
    (folder / "train.tokens").unlink()
    with pytest.raises(LabError, match=r"train\.tokens: is missing"):
        TokenCache.open(folder, verify=False)


@pytest.mark.parametrize("harm", [lambda path: path.write_text("{"), lambda path: (path.unlink(), path.mkdir())])
def test_a_manifest_that_cannot_be_read_says_what_to_do(tmp_path, harm):
    folder = build(tmp_path / "id")
    harm(folder / "manifest.json")

    with pytest.raises(LabError, match=r"manifest\.json: is not a readable JSON record") as refused:
        TokenCache.open(folder)

    assert refused.value.do == f"Delete {folder} and prepare the data again."


def test_an_edited_manifest_is_refused(tmp_path):
    folder = build(tmp_path / "id")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["type"] = "<u2"
    (folder / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(LabError, match=r"manifest\.json: is not what was written"):
        TokenCache.open(folder)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["seal", "files", "type", "x"]), inner),
    max_leaves=8,
)


@given(st.binary(max_size=30) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_other_manifest_is_refused_without_a_traceback(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("cache")
    (folder / "manifest.json").write_bytes(content)

    with pytest.raises(LabError, match=r"manifest\.json: "):
        TokenCache.open(folder)


def test_a_folder_without_a_manifest_is_no_cache(tmp_path):
    with pytest.raises(LabError, match=r"manifest\.json: is missing"):
        TokenCache.open(tmp_path)


def test_touching_a_file_changes_nothing(tmp_path):
    folder = build(tmp_path / "id")
    os.utime(folder / "train.tokens", (0, 0))

    assert TokenCache.open(folder).identity == "id"


def test_the_largest_token_must_be_known_to_the_model(tmp_path):
    cache = TokenCache.open(build(tmp_path / "id"))

    cache.require(vocabulary=70_001)

    with pytest.raises(LabError, match="holds token 70000, but the model knows only 70000 tokens"):
        cache.require(vocabulary=70_000)


def test_a_cache_of_another_tokenizer_is_refused_with_both_hashes(tmp_path):
    cache = TokenCache.open(build(tmp_path / "id"))

    cache.require(vocabulary=80_000, tokenizer_sha256="a" * 64)

    with pytest.raises(LabError, match=f"tokenizer {'a' * 64}, not with {'c' * 64}"):
        cache.require(vocabulary=80_000, tokenizer_sha256="c" * 64)


def test_identities_cover_the_key_and_ignore_its_order():
    assert identity_of({"a": 1, "b": 2}) == identity_of({"b": 2, "a": 1})
    assert identity_of({"a": 1, "b": 2}) != identity_of({"a": 1, "b": 3})


def test_a_failed_build_leaves_nothing(tmp_path):
    folder = tmp_path / "tokens" / "id"

    with suppress(RuntimeError), building(folder) as partial:
        fill(partial)
        raise RuntimeError

    assert list(folder.parent.iterdir()) == []


CRASH = """
import os, sys
from pathlib import Path
from lab.data.building import building
with building(Path(sys.argv[1])) as partial:
    (partial / "train.tokens").write_bytes(b"half")
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_build_left_is_never_believed_and_then_removed(tmp_path):
    folder = tmp_path / "tokens" / "id"

    killed = subprocess.run([sys.executable, "-c", CRASH, folder], check=False)

    assert killed.returncode == -signal.SIGKILL
    assert not folder.exists()
    assert len(leftovers(folder)) == 1
    build(folder)
    assert leftovers(folder) == []
    assert TokenCache.open(folder).identity == "id"


def test_a_build_under_way_is_not_taken_for_a_crash(tmp_path):
    folder = tmp_path / "tokens" / "id"

    with building(folder) as partial:
        fill(partial)
        build(folder)
        assert partial.is_dir()
        first = (folder / "train.tokens").stat().st_ino

    assert (folder / "train.tokens").stat().st_ino == first
    assert leftovers(folder) == []
    assert TokenCache.open(folder).identity == "id"


def test_what_a_crash_of_another_identity_left_is_removed_too(tmp_path):
    other = tmp_path / "tokens" / ".partial-other-1"
    other.mkdir(parents=True)

    build(tmp_path / "tokens" / "id")

    assert not other.exists()


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from lab.data.building import SplitWriter, building
from lab.errors import LabError
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    with building(Path(sys.argv[1])) as partial, SplitWriter(partial, "train") as split:
        for _ in range(1000):
            split.append(np.arange(1000, dtype=np.uint32), 1)
except LabError as error:
    print(error)
"""


def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path):
    folder = tmp_path / "tokens" / "id"

    full = subprocess.run([sys.executable, "-c", FULL_DISK, folder], capture_output=True, text=True, check=False)

    assert (full.returncode, full.stderr) == (0, "")
    assert "the token cache cannot be written: File too large" in full.stdout
    assert "Nothing partial was kept" in full.stdout
    assert list(folder.parent.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "tokens").write_text("a file")

    with pytest.raises(LabError, match="tokens: the token cache cannot be written"):
        build(tmp_path / "tokens" / "id")


def test_a_store_lists_its_caches_and_says_which_are_broken(tmp_path):
    build(folder_of(tmp_path, "one"))
    build(folder_of(tmp_path, "two"))
    (folder_of(tmp_path, "two") / "manifest.json").unlink()
    (tmp_path / "tokens" / ".partial-three-1").mkdir()

    caches = {cache["identity"]: cache for cache in stored(tmp_path)}

    assert set(caches) == {"one", "two"}
    assert caches["one"]["tokens"] == {"train": 9, "validation": 2}
    assert caches["one"]["documents"] == 4
    assert "manifest.json: is missing" in caches["two"]["fault"]


def test_a_store_without_caches_lists_none(tmp_path):
    assert stored(tmp_path / "nowhere") == []

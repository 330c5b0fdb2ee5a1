"""Documents become a cache: which are admitted, how each is accounted for, and when it is an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import ByteTokenizer, ListSource
from hypothesis import given
from hypothesis import strategies as st

from lab.contracts import Document
from lab.data.cache import TokenCache
from lab.data.documents import document_id, split_of
from lab.data.prepare import find, manifest_for_run, prepare, tokenizer_of
from lab.data.tokenizer import embedded_folder, load
from lab.errors import LabError
from lab.experiment.sections import Data, Tokenizer

WANTED = {"train_tokens": 10**6, "validation_tokens": 10**6, "max_documents": 10**6, "validation_fraction": 0.01}


def data(**changes):
    return Data(**{"source": "list", **WANTED, **changes})


def prepared(tmp_path, texts, tokenizer=None, progress=None, **changes):
    """The cache of these texts after one that always goes to validation."""
    source = ListSource([VALIDATION, *texts])
    return prepare(data(**changes), source, tmp_path, progress, tokenizer or ByteTokenizer())


def texts_of(cache, name="train"):
    split = cache.split(name)
    return [ByteTokenizer().decode(split.document(number)) for number in range(len(split))]


def texts_by_split(split, count, fraction=0.01):
    """Texts that fall to this split."""
    candidates = (f"text {number}" for number in range(10_000))
    found = (text for text in candidates if split_of(document_id(text), data().split_seed, fraction) == split)
    return [next(found) for _ in range(count)]


LONE_SURROGATE = "ab\ud83dcd"
FIXED = "edc18d65d12fe9eb2718272caac5cef54ef7a07741291b458205a14d49c1d12f"
VALIDATION = texts_by_split("validation", 1)[0]
NO_TEXT = Document("", {}, "a.jsonl line 1: no 'text'")


def test_each_document_ends_with_one_end_of_text(tmp_path):
    train = prepared(tmp_path, ["ab", "a<|endoftext|>b", "<|endoftext|>"]).split("train")

    documents = [train.document(number).tolist() for number in range(3)]

    assert documents[0] == [97, 98, 256]
    assert [document.count(256) for document in documents] == [1, 1, 1]
    assert all(document[-1] == 256 for document in documents)
    assert [bytes(document[:-1]).decode() for document in documents] == ["ab", "a<|endoftext|>b", "<|endoftext|>"]


@pytest.fixture(scope="module")
def gpt2():
    return load(Tokenizer())


def test_with_gpt2_too_a_text_that_spells_end_of_text_has_it_once_at_its_end_and_comes_back(tmp_path, gpt2):
    spelt = ["a<|endoftext|>b", "<|endoftext|>"]

    train = prepared(tmp_path, spelt, gpt2).split("train")

    documents = [train.document(number).tolist() for number in range(2)]
    assert [document.count(gpt2.eos) for document in documents] == [1, 1]
    assert [document[-1] for document in documents] == [gpt2.eos, gpt2.eos]
    assert [gpt2.decode(train.document(number)[:-1]) for number in range(2)] == spelt


def test_a_long_run_of_one_character_harms_neither_itself_nor_its_neighbours(tmp_path, gpt2):
    long = ["^" * 1_000_000, "a" * 200_000, " " * 1_100_000 + "a"]

    before, after = texts_by_split("train", 2)

    cache = prepared(tmp_path, [before, *long, after], gpt2, train_tokens=10**7)

    train = cache.split("train")
    assert [gpt2.decode(train.document(number)[:-1]) for number in range(5)] == [before, *long, after]
    assert cache.manifest["counters"]["rejected"] == 0


def test_a_document_longer_than_the_context_is_kept_whole_in_one_split(tmp_path):
    texts = [f"{number} and so on" for number in range(8)]

    cache = prepared(tmp_path, texts, context=4)

    assert texts_of(cache) == texts
    assert cache.split("train").tokens.tolist().count(256) == len(texts)
    assert texts_of(cache, "validation") == [VALIDATION]


def test_white_space_is_text_and_nothing_is_not(tmp_path):
    null, missing = (Document("", {}, f"line {number}: no text") for number in (4, 5))

    cache = prepared(tmp_path, ["", "x", " ", null, missing])

    assert texts_of(cache) == ["x", " "]
    counters = cache.manifest["counters"]
    assert counters.pop("repaired") == 0
    assert counters.pop("read") == 1 + 5 == sum(counters.values())
    assert (counters["kept"], counters["empty"], counters["rejected"]) == (1 + 2, 1, 2)
    assert cache.manifest["rejections"] == ["line 4: no text", "line 5: no text"]
    assert cache.split("train").lengths.min() == 2


def test_identical_texts_are_used_once_and_similar_ones_each(tmp_path):
    cache = prepared(tmp_path, ["1|2|300$", "4|5|600$", "again", "4|5|600$", "1|2|300$ "])

    assert texts_of(cache) == ["1|2|300$", "4|5|600$", "again", "1|2|300$ "]
    assert cache.manifest["counters"]["duplicate"] == 1


def test_a_text_that_cannot_be_tokenised_is_rejected_by_id_and_the_others_stay(tmp_path):
    cache = prepared(tmp_path, ["before", "untokenisable", "after"])

    assert texts_of(cache) == ["before", "after"]
    assert cache.manifest["rejections"] == [
        f"document {document_id('untokenisable')}: cannot be tokenised: no rule fits"
    ]
    assert any("1 records rejected" in warning for warning in cache.manifest["warnings"])


def test_a_lone_surrogate_is_replaced_and_its_neighbours_are_untouched(tmp_path):
    cache = prepared(tmp_path, ["good", LONE_SURROGATE, "also good"])

    assert texts_of(cache) == ["good", "ab\N{REPLACEMENT CHARACTER}cd", "also good"]
    assert cache.manifest["counters"]["repaired"] == 1


def test_whole_documents_are_admitted_until_the_budget_is_met(tmp_path):
    source = ListSource([VALIDATION, "1234567", "7654321", "never read"])

    cache = prepare(data(train_tokens=9, validation_tokens=1), source, tmp_path, tokenizer=ByteTokenizer())

    assert texts_of(cache) == ["1234567", "7654321"]
    assert cache.manifest["splits"]["train"]["tokens"] == 16
    assert cache.manifest["counters"]["read"] == 3
    assert source.closed


def test_a_split_that_has_enough_takes_no_more_while_the_other_is_filled(tmp_path):
    train, validation = texts_by_split("train", 4), texts_by_split("validation", 2)
    source = ListSource([*train, *validation])

    cache = prepare(data(train_tokens=10, validation_tokens=15), source, tmp_path, tokenizer=ByteTokenizer())

    assert texts_of(cache, "train") == train[:2]
    assert texts_of(cache, "validation") == validation
    assert cache.manifest["counters"]["surplus"] == 2
    assert cache.manifest["warnings"] == []


def test_a_budget_that_is_never_met_is_a_warning_that_says_why(tmp_path):
    few = prepared(tmp_path, ["one", "two"], validation_tokens=1)
    capped = prepared(tmp_path, ["one", "two"], validation_tokens=1, max_documents=2)

    assert few.manifest["warnings"] == ["train: 8 of 1,000,000 tokens: the source has no more"]
    assert capped.manifest["warnings"] == ["train: 4 of 1,000,000 tokens: data.max_documents was reached"]
    assert few.manifest["splits"]["train"]["met"] is False


@pytest.mark.parametrize(
    ("texts", "changes", "what", "do"),
    [
        ([], {}, "list: yields no document", "holds no record"),
        (["", ""], {}, "list: no document can be used: 2 read, 2 empty", "every text of it is empty"),
        ([VALIDATION, "", ""], {}, "train split: 3 read, 1 kept, 2 empty", "its own: give the source more documents"),
        ([VALIDATION, NO_TEXT], {}, "train split: 2 read, 1 kept, 1 rejected", "of its own: mend what was rejected"),
        ([NO_TEXT, "untokenisable"], {}, "list: no document can be used: 2 read, 2 rejected.\n"
         "  rejected: a.jsonl line 1: no 'text'\n  rejected: document ", "Mend these records, or say in data.source"),
        ([NO_TEXT] * 9, {"max_documents": 9}, "9 read, 9 rejected", "Mend these records, or say in data.source"),
        (texts_by_split("validation", 2), {}, "train split: 2 read", "lower data.validation_fraction"),
        (texts_by_split("train", 3), {}, "validation split: 3 read", "raise data.validation_fraction"),
        ([*texts_by_split("train", 3), NO_TEXT], {}, "3 kept, 1 rejected", "Mend what was rejected, or raise"),
        (texts_by_split("train", 3), {"max_documents": 2}, "validation split", "Raise data.max_documents"),
    ],
    ids=["no document", "only empty ones", "one text", "one text and a rejected one", "only rejected ones",
         "only rejected ones so far", "none for train", "none for validation", "none for it but a rejected one",
         "too few read"],
)  # fmt: skip
def test_a_split_without_a_document_is_an_error_that_leaves_nothing(tmp_path, texts, changes, what, do):
    with pytest.raises(LabError) as refused:
        prepare(data(**changes), ListSource(texts), tmp_path, tokenizer=ByteTokenizer())

    assert what in refused.value.what
    assert do in refused.value.do
    assert list((tmp_path / "tokens").iterdir()) == []


def test_of_many_rejected_documents_the_first_few_say_why(tmp_path):
    with pytest.raises(LabError) as refused:
        prepare(data(), ListSource([NO_TEXT] * 1003), tmp_path, tokenizer=ByteTokenizer())

    assert refused.value.what.splitlines()[-2:] == ["  rejected: a.jsonl line 1: no 'text'", "  and 1,000 more"]


def test_a_source_that_breaks_off_is_named_and_leaves_nothing(tmp_path):
    class Broken(ListSource):
        def documents(self, cursor=None):
            yield Document("one", {})
            raise ConnectionError("reset by peer")

    with pytest.raises(LabError, match=r"data\.source list: cannot be read on after 1 documents: reset by peer"):
        prepare(data(), Broken([]), tmp_path, tokenizer=ByteTokenizer())

    assert list((tmp_path / "tokens").iterdir()) == []


def test_a_prepared_cache_is_used_again_without_reading(tmp_path):
    first = prepared(tmp_path, ["one", "two"])
    source = ListSource([VALIDATION, "one", "two"])

    again = prepare(data(), source, tmp_path, tokenizer=ByteTokenizer())

    assert again.identity == first.identity
    assert source.read == 0


def test_a_corrupt_cache_is_refused_by_file_and_not_prepared_over(tmp_path):
    folder = prepared(tmp_path, ["one", "two"]).folder
    (folder / "train.tokens").write_bytes(b"\0" * (folder / "train.tokens").stat().st_size)

    with pytest.raises(LabError, match=r"train\.tokens: is not what was written"):
        prepared(tmp_path, ["one", "two"])


IDENTITY = {
    "the seed of the split": (data(split_seed=1), ByteTokenizer()),
    "the fraction": (data(validation_fraction=0.02), ByteTokenizer()),
    "a budget": (data(train_tokens=5), ByteTokenizer()),
    "the documents read": (data(max_documents=5), ByteTokenizer()),
    "the vocabulary": (data(), ByteTokenizer(sha256="c" * 64)),
    "the end-of-text": (data(), ByteTokenizer(eos=0)),
}


@pytest.mark.parametrize("case", IDENTITY.values(), ids=IDENTITY.keys())
def test_what_decides_the_tokens_decides_the_identity(tmp_path, case):
    changed, tokenizer = case

    own = find(changed, ListSource(["one"]), tmp_path, tokenizer)

    assert own != find(data(), ListSource(["one"]), tmp_path, ByteTokenizer())


def test_another_source_has_another_identity(tmp_path):
    one, other = (find(data(), ListSource(["x"], name), tmp_path, ByteTokenizer()) for name in ("one", "other"))

    assert one != other


def test_context_and_the_tokenizers_name_do_not_decide_the_identity(tmp_path):
    own = find(data(context=64), ListSource(["x"]), tmp_path, ByteTokenizer(name="else", revision="else"))

    assert own == find(data(), ListSource(["x"]), tmp_path, ByteTokenizer())


def test_an_identity_is_fixed_for_good(tmp_path):
    assert find(data(), ListSource(["x"]), tmp_path, ByteTokenizer()).name == FIXED


def test_progress_is_told_and_ends_with_the_whole(tmp_path):
    seen = []

    prepared(tmp_path, ["one", "three"], progress=seen.append)

    assert (seen[-1].read, seen[-1].max_documents) == (3, 10**6)
    assert seen[-1].tokens == {"train": 10, "validation": len(VALIDATION) + 1}
    assert seen[-1].budgets == {"train": 10**6, "validation": 10**6}


def test_a_runs_manifest_names_the_cache_and_its_hashes(tmp_path):
    cache = prepared(tmp_path, ["one", "two"])

    manifest = manifest_for_run(cache)

    assert manifest["folder"] == str(cache.folder)
    assert manifest["splits"]["train"]["sha256"] == manifest["files"]["train.tokens"]
    assert manifest["tokenizer"] == ByteTokenizer().record()
    assert manifest["schema"] == 1


@given(st.lists(st.one_of(st.text(max_size=6), st.sampled_from(["dup", "untokenisable", "\ud83d"])), max_size=30))
def test_the_counters_account_for_every_record(tmp_path_factory, texts):
    cache = prepared(tmp_path_factory.mktemp("store"), ["always one", *texts], train_tokens=60)

    counters = dict(cache.manifest["counters"])
    counters.pop("repaired")
    assert counters.pop("read") == sum(counters.values())
    assert counters["kept"] == len(cache.split("train")) + len(cache.split("validation"))


NEIGHBOUR = """
import sys
from pathlib import Path
from fakes import ByteTokenizer, ListSource
from lab.data.prepare import prepare
from lab.experiment.sections import Data
data = Data(source="list", train_tokens=10**6, validation_tokens=10**6, max_documents=10**6)
texts = [f"document {number} " * 50 for number in range(2000)]
for store in sys.stdin:
    cache = prepare(data, ListSource(texts), Path(store.strip()), tokenizer=ByteTokenizer())
    print(cache.identity, flush=True)
"""


def with_fakes():
    """The environment of a process that imports what these tests import."""
    paths = [str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def test_a_cache_of_another_tokenizer_in_its_place_is_refused_naming_both(tmp_path):
    other = prepared(tmp_path / "other", ["one"], ByteTokenizer(sha256="c" * 64))
    place = find(data(), ListSource([VALIDATION, "one"]), tmp_path, ByteTokenizer())
    shutil.copytree(other.folder, place)

    with pytest.raises(LabError, match=f"made with the tokenizer {'c' * 64}, not with {'b' * 64}"):
        prepared(tmp_path, ["one"])


def test_a_cache_of_other_documents_in_its_place_is_refused_naming_both(tmp_path):
    other = prepared(tmp_path / "other", ["one"], max_documents=99)
    place = find(data(), ListSource([VALIDATION, "one"]), tmp_path, ByteTokenizer())
    shutil.copytree(other.folder, place)

    with pytest.raises(LabError, match=f"holds the data set {other.identity}, not {place.name}"):
        prepared(tmp_path, ["one"])


def test_a_token_beyond_the_vocabulary_is_refused_before_it_is_trained_on(tmp_path):
    with pytest.raises(LabError, match="holds token 256, but the model knows only 256 tokens"):
        prepared(tmp_path, ["one"], ByteTokenizer(vocabulary=256))


def test_two_preparations_at_once_agree_and_leave_nothing_behind(tmp_path):
    command = [sys.executable, "-c", NEIGHBOUR]
    both = [
        subprocess.Popen(command, env=with_fakes(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for attempt in range(10):
            store = tmp_path / str(attempt)
            for process in both:
                print(store, file=process.stdin, flush=True)
            answers = [process.stdout.readline().strip() for process in both]

            assert answers[0] == answers[1] != ""
            assert os.listdir(store / "tokens") == [answers[0]]
            TokenCache.open(store / "tokens" / answers[0])
    finally:
        for process in both:
            process.communicate()

    assert [process.returncode for process in both] == [0, 0]


def test_any_number_of_threads_gives_the_same_cache(tmp_path):
    texts = [VALIDATION, *(f"text {number} " * 400 for number in range(300))]
    texts[9:9] = ["untokenisable", LONE_SURROGATE, *["again"] * 3]
    caches = [
        prepare(data(train_tokens=500_000), ListSource(texts), tmp_path / str(threads), None, ByteTokenizer(), threads)
        for threads in (1, 4)
    ]

    one, four = ({path.name: path.read_bytes() for path in cache.folder.iterdir()} for cache in caches)

    assert one == four
    counters = caches[0].manifest["counters"]
    assert counters["surplus"] > 100
    assert (counters["rejected"], counters["repaired"], counters["duplicate"]) == (1, 1, 2)


WHOLE = """
import hashlib, sys
from pathlib import Path
from fakes import ByteTokenizer, ListSource
from lab.data.prepare import prepare
from lab.experiment.sections import Data
data = Data(source="list", train_tokens=9000, validation_tokens=900, max_documents=10**6, validation_fraction=0.2)
texts = [f"document {number % 300} " * (1 + number % 40) for number in range(600)]
cache = prepare(data, ListSource(texts), Path(sys.argv[1]), None, ByteTokenizer(), int(sys.argv[2]))
print(cache.identity, *(hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(cache.folder.iterdir())))
"""


def test_every_process_makes_the_same_bytes_whatever_python_hashes_strings_with(tmp_path):
    answers = [
        subprocess.run(
            [sys.executable, "-c", WHOLE, tmp_path / seed, threads],
            env={**with_fakes(), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, threads in (("1", "1"), ("2", "4"))
    ]

    assert answers[0] == answers[1]
    assert len(answers[0].split()) == 1 + 6


def test_a_source_that_breaks_off_after_enough_was_read_does_no_harm(tmp_path):
    class Broken(ListSource):
        def documents(self, cursor=None):
            yield from super().documents(cursor)
            raise ConnectionError

    source = Broken([VALIDATION, "one"])

    assert texts_of(prepare(data(train_tokens=1, validation_tokens=1), source, tmp_path, None, ByteTokenizer())) == [
        "one"
    ]


def test_the_tokenizer_comes_from_the_source_when_it_offers_one(tmp_path):
    class Hub(ListSource):
        def tokenizer_folder(self, choice):
            return embedded_folder() if choice.name == "hub/gpt2" else None

    elsewhere = data(tokenizer={"name": "hub/gpt2", "revision": "1" * 40})

    assert tokenizer_of(elsewhere, Hub([])).record()["name"] == "hub/gpt2"
    assert tokenizer_of(data(), Hub([])).sha256 == tokenizer_of(data(), ListSource([])).sha256
    with pytest.raises(LabError, match="is not on this machine"):
        tokenizer_of(elsewhere, ListSource([]))


def test_a_tokenizer_without_end_of_text_is_refused_before_a_document_is_read(tmp_path):
    for name in ("encoder.json", "vocab.bpe"):
        content = (embedded_folder() / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(content.replace("<|endoftext|>", "<|nothing|>"), encoding="utf-8")

    class Hub(ListSource):
        def tokenizer_folder(self, choice):
            return tmp_path

    source = Hub(["one", "two"])
    with pytest.raises(LabError) as refused:
        prepare(data(tokenizer={"name": "hub/gpt2", "revision": "1" * 40}), source, tmp_path / "store")

    assert "has no <|endoftext|>" in refused.value.what
    assert "data.tokenizer.name" in refused.value.do
    assert source.read == 0
    assert not (tmp_path / "store").exists()

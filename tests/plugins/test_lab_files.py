"""A user's own files: which are read, what each line or row becomes, and where reading goes on."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes import ByteTokenizer

from lab.data.prepare import prepare
from lab.errors import LabError, UsageError
from lab.experiment import load
from lab.experiment.sections import Data
from lab.runs import records
from lab.runs.directory import RunDirectory
from lab_files.options import FilesOptions
from lab_files.source import Files

LINE_SEPARATOR = "\u2028"


@pytest.fixture
def write(project):
    """Write a file of the project."""

    def write(name, content):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def files(*paths, **options):
    return Files(FilesOptions(paths=paths, **options))


def texts(source, cursor=None):
    return [document.text for document in source.documents(cursor) if document.rejected is None]


def rejections(source):
    return [document.rejected for document in source.documents() if document.rejected is not None]


def test_only_a_line_feed_ends_a_line(write):
    write("a.jsonl", f'{{"text":"one{LINE_SEPARATOR}\x85still one"}}\r\n{{"text":"two"}}\r\n\r\n \n{{"text":"three"}}')

    assert texts(files("a.jsonl")) == [f"one{LINE_SEPARATOR}\x85still one", "two", "three"]


def test_a_byte_order_mark_is_no_text(write):
    write("a.jsonl", b'\xef\xbb\xbf{"text":"one"}\n{"text":"\xef\xbb\xbftwo"}\n')
    write("a.txt", b"\xef\xbb\xbfthree")

    assert texts(files("a.jsonl", "a.txt")) == ["one", "\ufefftwo", "three"]


def test_lines_without_text_are_rejected_by_number_and_reason(write):
    write(
        "a.jsonl",
        b'{"text":"one"}\n{"text":null}\n{"content":"x","id":1}\n{"text":5}\n["text"]\n{"text":"to\n\xff\xfe\n{}\n'
        b'{"text":"last"}\n',
    )

    assert texts(files("a.jsonl")) == ["one", "last"]
    assert [reason.partition(": Unterminated")[0] for reason in rejections(files("a.jsonl"))] == [
        "a.jsonl line 2: 'text' is null, not text",
        "a.jsonl line 3: has no 'text'; it has 'content', 'id'",
        "a.jsonl line 4: 'text' is int, not text",
        "a.jsonl line 5: is not a JSON object but a list",
        "a.jsonl line 6: is not JSON",
        "a.jsonl line 7: is not UTF-8: invalid start byte at byte 0",
        "a.jsonl line 8: has no 'text'; it has nothing",
    ]


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"text":' + b"1" * 5000 + b"}"], ids=["nested", "a huge number"])
def test_a_line_that_json_cannot_take_is_rejected(write, line):
    write("a.jsonl", line + b'\n{"text":"after"}\n')

    assert texts(files("a.jsonl")) == ["after"]
    assert rejections(files("a.jsonl"))[0].startswith("a.jsonl line 1: is not JSON")


def test_empty_texts_are_counted_with_the_others(write, tmp_path):
    write("a.jsonl", '{"text":""}\n{"text":"x"}\n{"text":" "}\n{"text":null}\n{"other":1}\n')
    write("b.jsonl", "".join(f'{{"text":"text {number}"}}\n' for number in range(30)))

    counters = prepared(files("a.jsonl", "b.jsonl"), tmp_path).manifest["counters"]

    assert counters == {
        "read": 35,
        "kept": 32,
        "empty": 1,
        "duplicate": 0,
        "rejected": 2,
        "surplus": 0,
        "repaired": 0,
    }


def prepared(source, store):
    data = Data(
        source="files", train_tokens=10**6, validation_tokens=10**6, max_documents=10**6, validation_fraction=0.2
    )
    return prepare(data, source, store, tokenizer=ByteTokenizer())


def test_escaped_and_literal_characters_are_the_same_document(write, tmp_path):
    thumb = "\N{THUMBS UP SIGN}"
    others = "".join(f'{{"text":"text {number}"}}\n' for number in range(30))
    write("a.jsonl", f'{{"text":"\\ud83d\\udc4d"}}\n{{"text":"{thumb}"}}\n{others}')

    counters = prepared(files("a.jsonl"), tmp_path).manifest["counters"]

    assert texts(files("a.jsonl"))[:2] == [thumb, thumb]
    assert (counters["duplicate"], counters["repaired"]) == (1, 0)


def test_a_lone_surrogate_is_replaced_when_prepared_and_neighbours_stay(write, tmp_path):
    others = "".join(f'{{"text":"text {number}"}}\n' for number in range(30))
    write("a.jsonl", f'{{"text":"good"}}\n{{"text":"ab\\ud83dcd"}}\n{{"text":"also good"}}\n{others}')

    cache = prepared(files("a.jsonl"), tmp_path)

    documents = [
        ByteTokenizer().decode(cache.split(name).document(number))
        for name in ("train", "validation")
        for number in range(len(cache.split(name)))
    ]
    assert {"good", "ab\N{REPLACEMENT CHARACTER}cd", "also good"} < set(documents)
    assert cache.manifest["counters"]["repaired"] == 1


def test_a_text_file_is_one_document_as_it_is(write):
    write("a.txt", "one\r\ntwo\n\n")

    assert texts(files("a.txt")) == ["one\r\ntwo\n\n"]


def test_a_text_file_that_is_not_utf8_is_rejected_by_name(write):
    write("a.txt", b"caf\xe9")
    write("b.txt", "good")

    assert texts(files("a.txt", "b.txt")) == ["good"]
    assert rejections(files("a.txt")) == ["a.txt: is not UTF-8: unexpected end of data at byte 3"]


def test_parquet_rows_are_documents(write, project):
    pq.write_table(pa.table({"content": ["one", None, "three"]}), project / "a.parquet")

    source = files("a.parquet", text="content")

    assert texts(source) == ["one", "three"]
    assert rejections(source) == ["a.parquet row group 0 row 2: 'content' is null"]


@pytest.fixture
def mixed(write, project):
    write("1.jsonl", '{"text":"one"}\r\n\r\n{"text":null}\n{"text":"two"}')
    write("2.txt", "three")
    pq.write_table(pa.table({"text": [f"row {n}" for n in range(5)]}), project / "3.parquet", row_group_size=2)
    write("4.txt", "last")
    return files("1.jsonl", "2.txt", "3.parquet", "4.txt")


def test_reading_goes_on_after_any_record(mixed):
    documents = list(mixed.documents())

    assert len(documents) == 10
    for number, document in enumerate(documents):
        cursor = json.loads(json.dumps(document.cursor))
        assert list(mixed.documents(cursor)) == documents[number + 1 :]


def test_reading_twice_gives_the_same(mixed):
    assert list(mixed.documents()) == list(mixed.documents())


def test_leaving_early_is_fine_and_files_are_closed(mixed):
    documents = mixed.documents()

    assert next(documents).text == "one"
    documents.close()


def test_folders_and_patterns_are_read_by_name_and_each_file_once(write):
    for name in ("corpus/b.txt", "corpus/a/z.txt", "corpus/a.txt", "corpus/ignored.csv", "other.txt"):
        write(name, name)

    assert texts(files("corpus")) == ["corpus/a/z.txt", "corpus/a.txt", "corpus/b.txt"]
    assert texts(files("corpus/*.txt", "corpus/b.txt")) == ["corpus/a.txt", "corpus/b.txt"]
    assert texts(files("other.txt", "corpus/**/*.txt"))[0] == "other.txt"


def test_hidden_files_of_a_folder_are_left_out_unless_they_are_named(write):
    for name in ("corpus/a.txt", "corpus/._a.txt", "corpus/.kept/b.txt"):
        write(name, name)

    assert texts(files("corpus")) == texts(files("corpus/**/*.txt")) == ["corpus/a.txt"]
    assert texts(files("corpus/.kept", "corpus/._a.txt")) == ["corpus/.kept/b.txt", "corpus/._a.txt"]


def test_paths_are_relative_to_the_project_wherever_one_stands(write, project, monkeypatch):
    write("corpus/a.txt", "here")
    monkeypatch.chdir(project / "corpus")

    assert texts(files("corpus/a.txt", str(project / "corpus" / "a.txt"))) == ["here"]


def test_a_path_without_a_file_is_named(project):
    with pytest.raises(UsageError, match=r"data\.source\.paths: there is no file at .*nowhere/\*\.txt"):
        files("nowhere/*.txt").identity()


def test_an_unknown_suffix_needs_a_format(write):
    write("a.dump", '{"text":"one"}\n')

    with pytest.raises(UsageError, match=r"a\.dump: '\.dump' is not a known kind of file"):
        texts(files("a.dump"))

    assert texts(files("a.dump", format="jsonl")) == ["one"]


def test_the_identity_is_what_files_hold_and_how_they_are_read(write):
    path = write("a.jsonl", '{"text":"one"}\n')
    identity = files("a.jsonl").identity()

    os.utime(path, (0, 0))
    touched = files("a.jsonl").identity()
    write("a.jsonl", '{"text":"two"}\n')
    changed = files("a.jsonl").identity()

    assert touched == identity
    assert changed != identity
    assert files("a.jsonl", text="content").identity() != changed
    assert files("a.jsonl", format="text").identity() != changed


def test_a_file_that_changes_between_hashing_and_reading_is_an_error(write):
    path = write("a.jsonl", '{"text":"one"}\n')
    source = files("a.jsonl")
    source.identity()

    os.utime(path, (0, 0))
    assert texts(source) == ["one"]
    write("a.jsonl", '{"text":"other"}\n')

    with pytest.raises(LabError, match=r"a\.jsonl: changed while it was read"):
        texts(source)


SMALL = ("data.train_tokens=400", "data.validation_tokens=40", "data.source={ name = 'files', paths = ['corpus'] }")


def test_an_attempt_whose_files_changed_meanwhile_is_refused_by_file_and_records_nothing(write, project, lab):
    lines = [f'{{"text":"document number {number}"}}\n' for number in range(200)]
    write("corpus/a.jsonl", "".join(lines[:100]))
    write("corpus/b.jsonl", "".join(lines[100:]))
    experiment = load("smoke", project / "experiments", SMALL).experiment
    run = RunDirectory.create(project / ".runs", "smoke")
    records.write_json(run.config, {"experiment": experiment.model_dump(mode="json")})
    first = lab("data", "prepare", "--run", run.path)
    before = {path: path.read_bytes() for path in (run.data_manifest, run.data_stats)}

    write("corpus/b.jsonl", "".join(lines[99:]))
    refused = lab("data", "prepare", "--run", run.path)
    write("corpus/b.jsonl", "".join(lines[100:]))
    healed = lab("data", "prepare", "--run", run.path)

    assert (first.code, refused.code, healed.code) == (0, 1, 0)
    assert refused.err.splitlines()[1].startswith("  source.files.b.jsonl.sha256: ")
    assert "a.jsonl" not in refused.err
    assert {path: path.read_bytes() for path in before} == before


def test_it_keeps_the_contract_of_a_source(mixed, check_source):
    check_source(mixed)

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile

import pytest

from lab.errors import LabError
from lab.jobs import archive

FILES = [("src/a.py", b"one", False), ("scripts/run.sh", b"#!/bin/sh", True), ("src/b/c d\n.py", b"", False)]


def written(folder, content):
    path = folder / "bundle.tar.gz"
    path.write_bytes(content)
    return path


def crafted(folder, *members):
    """An archive of (TarInfo, content) as nobody honest would write it."""
    path = folder / "crafted.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def member(name, kind=tarfile.REGTYPE, link="", uid=0, mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.uid, info.mode = kind, link, uid, mode
    return info


def tree(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def test_the_same_files_make_the_same_bytes_in_any_order():
    assert archive.pack(FILES) == archive.pack(list(reversed(FILES)))


def test_what_is_packed_is_unpacked_byte_for_byte(tmp_path):
    path = written(tmp_path, archive.pack(FILES))

    archive.unpack(path, tmp_path / "out")

    assert {name: (tmp_path / "out" / name).read_bytes() for name, _, _ in FILES} == {n: c for n, c, _ in FILES}
    assert os.access(tmp_path / "out" / "scripts" / "run.sh", os.X_OK)


@pytest.mark.parametrize(
    "dangerous",
    [
        [(member("d", tarfile.SYMTYPE, ".."), b""), (member("d/escape.txt"), b"x")],
        [(member("d", tarfile.SYMTYPE, "/tmp"), b"")],
        [(member("d", tarfile.LNKTYPE, "/etc/passwd"), b"")],
        [(member("../escape.txt"), b"x")],
        [(member("a/../../escape.txt"), b"x")],
        [(member("/tmp/escape.txt"), b"x")],
        [(member("pipe", tarfile.FIFOTYPE), b"")],
        [(member("device", tarfile.CHRTYPE), b"")],
        [(member(""), b"x")],
        [(member("."), b"x")],
    ],
)
def test_a_member_that_is_no_plain_file_inside_is_refused_by_name(tmp_path, dangerous):
    path = crafted(tmp_path, *dangerous)

    with pytest.raises(LabError, match=f"'{dangerous[0][0].name.strip('/')}|'{dangerous[0][0].name}"):
        archive.unpack(path, tmp_path / "inner" / "out")

    assert not (tmp_path / "inner" / "escape.txt").exists()
    assert not (tmp_path / "escape.txt").exists()


def test_a_name_that_comes_twice_is_refused(tmp_path):
    path = crafted(tmp_path, (member("a"), b"1"), (member("a"), b"2"))

    with pytest.raises(LabError, match="'a' twice"):
        archive.unpack(path, tmp_path / "out")


def test_owners_and_odd_modes_of_the_archive_are_ignored(tmp_path):
    path = crafted(tmp_path, (member("a", uid=12345, mode=0o6777), b"1"), (member("b", mode=0), b"2"))

    archive.unpack(path, tmp_path / "out")

    assert [(tmp_path / "out" / name).stat().st_uid for name in "ab"] == [os.getuid()] * 2
    assert [(tmp_path / "out" / name).stat().st_mode & 0o7777 for name in "ab"] == [0o555, 0o444]


def test_a_bomb_is_refused(tmp_path):
    path = crafted(tmp_path, (member("a"), b"0" * 10_000))

    with pytest.raises(LabError, match="more than 100 bytes"):
        archive.unpack(path, tmp_path / "out", limit_bytes=100)


@pytest.mark.parametrize("content", [b"", b"not an archive", archive.pack(FILES)[:-20], archive.pack(FILES)[:30]])
def test_a_damaged_archive_is_named(tmp_path, content):
    path = written(tmp_path, content)

    with pytest.raises(LabError, match=r"bundle\.tar\.gz"):
        archive.unpack(path, tmp_path / "out")


class Store:
    """A bundle on disk, and the folder into which it is unpacked once."""

    def __init__(self, folder):
        content = archive.pack(FILES)
        self.bundle = written(folder, content)
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.folder = folder / "store"

    def open(self):
        return archive.code_folder(self.bundle, self.sha256, self.folder)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_a_bundle_is_unpacked_once(store):
    first = store.open()
    inode = (first / "src" / "a.py").stat().st_ino

    second = store.open()

    assert second == first == store.folder / "code" / store.sha256
    assert (second / "src" / "a.py").stat().st_ino == inode
    assert [path.name for path in (store.folder / "code").iterdir()] == [store.sha256]


def test_code_that_nothing_used_for_a_month_goes_and_comes_back_when_it_is_used(store):
    code = store.open()
    neighbours = [code.with_name("a" * 64), code.with_name("b" * 64)]
    for folder in neighbours:
        shutil.copytree(code, folder)
    for folder in (code, neighbours[0]):
        os.utime(folder, (0, 0))

    again = store.open()

    assert sorted(path.name for path in again.parent.iterdir()) == sorted([store.sha256, "b" * 64])
    assert (again / "src" / "a.py").read_bytes() == b"one"


@pytest.mark.parametrize("change", ["edited", "added", "removed", "linked"])
def test_code_that_somebody_changed_is_replaced(store, change):
    code = store.open()
    target = code / "src" / "a.py"
    if change == "added":
        (code / "src" / "extra.py").write_text("import this")
    else:
        target.unlink()
    if change == "edited":
        target.write_text("two")
    if change == "linked":
        target.symlink_to("/etc/hostname")

    store.open()

    assert target.read_bytes() == b"one"
    assert not target.is_symlink()
    assert tree(code) == sorted(name for name, _, _ in FILES)
    assert [path.name for path in (store.folder / "code").iterdir()] == [store.sha256]


def test_a_bundle_with_a_flipped_bit_is_refused_with_both_hashes(store):
    content = bytearray(store.bundle.read_bytes())
    content[len(content) // 2] ^= 1
    store.bundle.write_bytes(content)

    with pytest.raises(LabError, match=f"is damaged.*expected {store.sha256}"):
        store.open()

    assert not (store.folder / "code").exists()


def test_a_bundle_that_is_missing_is_named(store):
    store.bundle.unlink()

    with pytest.raises(LabError, match=r"bundle\.tar\.gz: cannot be read"):
        store.open()


def test_a_pipe_in_place_of_a_bundle_is_named_and_not_waited_for(store):
    store.bundle.unlink()
    os.mkfifo(store.bundle)

    with pytest.raises(LabError, match=r"bundle\.tar\.gz: cannot be read: is not a regular file"):
        store.open()


def test_when_it_cannot_be_unpacked_nothing_is_left(store, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(archive.os, "fdopen", full)
    with pytest.raises(LabError, match="No space left"):
        store.open()

    assert list((store.folder / "code").iterdir()) == []


def test_two_that_unpack_at_once_end_with_one_whole_folder(store, monkeypatch):
    unpack = archive.unpack

    def both(path, target, limit_bytes=archive.UNPACKED_LIMIT_BYTES):
        unpack(path, target, limit_bytes)
        monkeypatch.setattr(archive, "unpack", unpack)
        store.open()  # the other one is faster

    monkeypatch.setattr(archive, "unpack", both)

    assert tree(store.open()) == sorted(name for name, _, _ in FILES)
    assert [path.name for path in (store.folder / "code").iterdir()] == [store.sha256]

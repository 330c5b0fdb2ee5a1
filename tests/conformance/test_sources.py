"""Every source that needs no network keeps its contract, and the check fails for sources that do not."""

from __future__ import annotations

import threading

import pytest

from lab.conformance import ContractBroken
from lab.contracts import Document
from lab.experiment import PartChoice
from lab.plugins import Plugins

PLUGINS = Plugins()
CHECKED_ELSEWHERE = {"fineweb", "datasets"}  # by their own tests: a hub on loopback, a saved data set
TEXTS = ["One.", "", "Zwei \N{OLD ITALIC LETTER A} drei", "four\nlines", "One.", "six"]


@pytest.mark.parametrize("name", [name for name in PLUGINS.parts("source") if name not in CHECKED_ELSEWHERE])
def test_a_source(check_source, project, name):
    for index, text in enumerate(TEXTS):
        (project / f"{index}.txt").write_text(text, encoding="utf-8")
    options = {"files": {"paths": ["*.txt"]}}.get(name, {})

    check_source(PLUGINS.build("source", PartChoice(name=name, **options)))


class Right:
    """A list with a cursor."""

    def __init__(self):
        self.texts = list(TEXTS)

    def identity(self):
        return {"name": "list", "texts": len(TEXTS)}

    def documents(self, cursor=None):
        for index in range(cursor["next"] if cursor else 0, len(self.texts)):
            yield Document(self.texts[index], {"next": index + 1})


class OneShot(Right):
    def documents(self, cursor=None):
        yield from super().documents(cursor)
        self.texts = []


class Shuffles(Right):
    def documents(self, cursor=None):
        self.texts.append(self.texts.pop(0))
        return super().documents(cursor)


class IgnoresItsCursor(Right):
    def documents(self, cursor=None):
        return super().documents()


class RepeatsTheDocumentOfItsCursor(Right):
    def documents(self, cursor=None):
        return super().documents({"next": max(0, cursor["next"] - 1)} if cursor else None)


class HasNoIdentity(Right):
    def identity(self):
        return {}


class IdentityIsNoJson(Right):
    def identity(self):
        return {"texts": {1, 2}}


class IdentityChanges(Right):
    def identity(self):
        self.asked = getattr(self, "asked", 0) + 1
        return {"asked": self.asked}


class HoldsHalfACharacter(Right):
    def __init__(self):
        self.texts = ["a", "\ud83d", "c"]


class HoldsBytes(Right):
    def __init__(self):
        self.texts = [b"a", b"b", b"c"]


class IsTooSmall(Right):
    def __init__(self):
        self.texts = ["a"]


class IsAList(Right):
    def documents(self, cursor=None):
        return iter(list(super().documents(cursor)))


class LeavesAThread(Right):
    def documents(self, cursor=None):
        self.done = threading.Event()
        threading.Thread(target=self.done.wait, args=(30,), daemon=True, name="reader").start()
        yield from super().documents(cursor)
        self.done.set()


class LeavesFilesOpen(Right):
    files = []  # noqa: RUF012 - what it leaves must outlive it

    def documents(self, cursor=None):
        self.files.append(open(__file__))  # noqa: SIM115 - that is the fault
        yield from super().documents(cursor)


@pytest.fixture(autouse=True)
def _files_are_closed():
    yield
    while LeavesFilesOpen.files:
        LeavesFilesOpen.files.pop().close()


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (OneShot, "reading twice differs from document 0 on"),
        (Shuffles, "reading twice differs from document 0 on"),
        (IgnoresItsCursor, "reading on after document 0 differs"),
        (RepeatsTheDocumentOfItsCursor, "reading on after document 0 differs from reading through at 1"),
        (HasNoIdentity, "the identity is empty"),
        (IdentityIsNoJson, "the identity is not plain JSON"),
        (IdentityChanges, "reading changes the identity"),
        (HoldsHalfACharacter, "document 1 is not valid Unicode"),
        (HoldsBytes, "document 0 holds bytes, not text"),
        (IsTooSmall, "a check needs three or more"),
        (IsAList, "cannot be closed"),
        (LeavesAThread, "closing early leaves the thread reader running"),
        (LeavesFilesOpen, "leave 3 files open"),
    ],
)
def test_a_source_that_breaks_its_contract_is_found(check_source, monkeypatch, broken, why):
    monkeypatch.setattr("lab.conformance.source.PATIENCE_SECONDS", 0.05)

    with pytest.raises(ContractBroken, match=why):
        check_source(broken())


def test_the_broken_sources_are_right_but_for_what_they_break(check_source):
    check_source(Right())

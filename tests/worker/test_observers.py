"""Observers: many as one, none of which can end a run or be silently misspelt."""

from __future__ import annotations

import importlib
import logging
import sys

import pytest

from lab.contracts import EVENTS, Observer
from lab.errors import UsageError
from lab.plugins import blame
from lab.worker.observers import Observers
from lab.worker.phases import Phases


class Recording(Observer):
    def __init__(self, observed=()):
        self.observed_steps = frozenset(observed)
        self.heard = []

    def step_started(self, step):
        self.heard.append(("started", step))

    def phase_started(self, step, phase):
        self.heard.append((phase, "started", step))

    def phase_ended(self, step, phase):
        self.heard.append((phase, "ended", step))


class Raising(Observer):
    def __init__(self):
        self.asked = 0

    def step_started(self, step):
        self.asked += 1
        raise ZeroDivisionError("mine")


def tell_all(observers):
    observers.run_started(None)
    observers.step_started(1)
    observers.phase_started(1, "forward")
    observers.phase_ended(1, "forward")
    observers.step_finished(1, {})
    observers.evaluated(1, None)
    observers.run_finished(1)


def test_every_event_reaches_every_observer():
    class Listening(Observer):
        pass

    heard = []
    for event in EVENTS:
        setattr(Listening, event, lambda self, *what, event=event: heard.append(event))

    tell_all(Observers([("one", Listening()), ("two", Listening())]))

    assert heard == [event for event in EVENTS for _ in range(2)]


def test_one_that_raises_is_reported_once_and_hears_nothing_more(caplog):
    raising, recording = Raising(), Recording()
    observers = Observers([("bad", raising), ("good", recording)])

    with caplog.at_level(logging.ERROR):
        observers.step_started(1)
        observers.step_started(2)

    assert raising.asked == 1
    assert recording.heard == [("started", 1), ("started", 2)]
    assert [record.message for record in caplog.records] == [
        "observer bad raised in step_started and is switched off; the run goes on"
    ]
    assert observers.switched_off == {"bad": "step_started: ZeroDivisionError: mine"}


def test_one_in_the_middle_that_raises_keeps_nothing_from_the_others():
    class Counting(Observer):
        def __init__(self):
            self.heard = []

    class Worst(Observer):
        def step_finished(self, step, line):
            raise ValueError("in a step")

        def run_finished(self, step):
            raise ValueError("at the end")

    for event in EVENTS:
        setattr(Counting, event, lambda self, *what, event=event: self.heard.append(event))
    first, last = Counting(), Counting()
    observers = Observers([("first", first), ("worst", Worst()), ("last", last)], told=lambda error: f"{error} of acme")

    tell_all(observers)

    assert first.heard == last.heard == list(EVENTS)
    assert observers.switched_off == {"worst": "step_finished: in a step of acme"}


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt()])
def test_one_that_exits_is_switched_off_like_one_that_raises(error):
    class Exiting(Observer):
        def step_started(self, step):
            raise error

    observers = Observers([("bad", Exiting())], told=lambda error: f"{error!r} in plugin acme")

    observers.step_started(1)

    assert observers.switched_off == {"bad": f"step_started: {error!r} in plugin acme"}


class Unspeakable(BaseException):
    def __str__(self):
        raise SystemExit(0)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (GeneratorExit("x"), "GeneratorExit: x"),
        (BaseException("x"), "BaseException: x"),
        (Unspeakable(), "Unspeakable: (its text cannot be had)"),
        (ValueError("x" * 1_000_000), f"ValueError: {'x' * 500} ..."),
    ],
)
def test_whatever_one_raises_the_others_hear_on(error, said):
    class Bad(Observer):
        def step_started(self, step):
            raise error

    recording = Recording()
    observers = Observers([("bad", Bad()), ("good", recording)], told=lambda error: blame.told(error, ()))

    observers.step_started(1)

    assert observers.switched_off == {"bad": f"step_started: {said}"}
    assert recording.heard == [("started", 1)]


def test_a_misspelt_event_is_refused_with_the_nearest_one():
    class Misspelt(Observer):
        def step_finnished(self, step, line):
            """Would never be called."""

    with pytest.raises(UsageError, match=r"'mine': step_finnished is no event(.|\n)*step_finished"):
        Observers([("mine", Misspelt())])


@pytest.mark.parametrize("steps", [3, None, "12", (1.5,)])
def test_observed_steps_that_are_none_are_refused_by_the_observers_name(steps):
    class Wrong(Observer):
        observed_steps = steps

    with pytest.raises(UsageError, match=r"'mine': observed_steps is .*, not a frozenset of steps from 1"):
        Observers([("mine", Wrong())])


def test_private_methods_and_public_attributes_are_the_observers_own():
    class Fine(Observer):
        def __init__(self):
            self.options = {"callable": print}

        def _helper(self):
            """Nobody calls it from outside."""

    Observers([("fine", Fine())])


def test_observed_steps_are_those_of_all_and_stay_when_one_is_switched_off():
    raising = Raising()
    raising.observed_steps = frozenset({3})
    observers = Observers([("bad", raising), ("good", Recording([5, 6]))])

    observers.step_started(1)

    assert observers.observed_steps == {3, 5, 6}


def test_a_phase_is_told_with_its_step_and_ends_when_its_block_raises():
    recording = Recording()
    phases = Phases(Observers([("good", recording)]))
    phases.step = 4

    with pytest.raises(ZeroDivisionError), phases("forward"):
        raise ZeroDivisionError

    assert recording.heard == [("forward", "started", 4), ("forward", "ended", 4)]
    phases.require_closed()


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A library that nobody has imported yet."""
    (tmp_path / "drawing_library").mkdir()
    (tmp_path / "drawing_library" / "__init__.py").write_text("from drawing_library import shapes\nimport colours\n")
    (tmp_path / "drawing_library" / "shapes.py").touch()
    (tmp_path / "colours.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield "drawing_library"
    for name in ("drawing_library", "drawing_library.shapes", "colours"):
        sys.modules.pop(name, None)


def test_what_an_observer_imports_is_known_as_imported_for_it(library):
    class Drawing(Observer):
        def step_started(self, step):
            importlib.import_module(library)

    observers = Observers([("drawing", Drawing()), ("raising", Raising())])

    tell_all(observers)

    assert observers.imports.modules >= {"drawing_library", "colours"}
    assert "drawing_library.shapes" not in observers.imports.modules


def test_what_was_imported_before_is_not_imported_for_an_observer(library):
    class Drawing(Observer):
        def step_started(self, step):
            importlib.import_module(library)

    importlib.import_module(library)
    observers = Observers([("drawing", Drawing())])

    tell_all(observers)

    assert "drawing_library" not in observers.imports.modules

"""The worker's heart with a fake loop and a fake clock: what is measured, in which order, and how it ends."""

from __future__ import annotations

import math

import pytest
import torch

from lab.contracts import Evaluation, Observer, Step
from lab.errors import LabError
from lab.runs import records, summary
from lab.runs.directory import RunDirectory
from lab.worker.clock import WallClock
from lab.worker.execute import Execution, Position
from lab.worker.handed import Handed
from lab.worker.observers import Observers
from lab.worker.phases import Phases
from lab.worker.schedule import Schedule
from lab.worker.stop import Stop


class Time:
    """A clock that only moves when something takes time."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def take(self, seconds):
        self.now += seconds


class FakeLoop:
    """Steps of given seconds and targets; says what it was asked in `heard`."""

    def __init__(self, time, seconds, targets=1000, losses=None, evaluation_seconds=50.0, heard=None):
        self.time, self.seconds, self.losses = time, list(seconds), losses or {}
        self.targets = targets
        self.evaluation_seconds = evaluation_seconds
        self.heard = [] if heard is None else heard

    def steps(self):
        for number, seconds in enumerate(self.seconds, 1):
            self.heard.append(f"pull {number}")
            self.time.take(seconds)
            loss = self.losses.get(number, 10.0 - number)
            yield Step(torch.tensor(loss), self.targets, torch.tensor(1.0), tokens=self.targets + 1, flops=10)

    def evaluate(self):
        self.heard.append("evaluate")
        self.time.take(self.evaluation_seconds)
        return Evaluation(5.0, 10, 11, 2, "same")


class Hearing(Observer):
    """Says what it hears in `heard`, and takes time doing so."""

    def __init__(self, heard, time, observed=(), seconds=0.0, only=None):
        self.heard, self.time, self.seconds, self.only = heard, time, seconds, only
        self.observed_steps = frozenset(observed)

    def step_started(self, step):
        self.heard.append(f"started {step}")

    def step_finished(self, step, line):
        self.time.take(self.seconds)
        self.heard.append(f"finished {step}")

    def evaluated(self, step, evaluation):
        self.heard.append(f"evaluated {step}")


class World:
    """One fake run: its time, its records, and what happened in which order."""

    def __init__(self, folder):
        self.time, self.stop = Time(), Stop()
        self.run = RunDirectory.create(folder, "fake")
        self.heard, self.saved = [], []

    def execute(self, loop, schedule, observers=None, start=0):
        observers = observers or Observers()
        return Execution(
            loop=loop, schedule=schedule, observers=observers, phases=Phases(observers), save=self.save,
            clock=WallClock(self.time), metrics=self.run.metrics, stop=self.stop, position=Position(start, 0),
            handed=Handed("the loop 'fake' of plugin fake"),
        ).run()  # fmt: skip

    def save(self, position):
        self.heard.append(f"save {position.step}")
        self.time.take(30.0)
        self.saved.append((position.step, position.targets))

    def lines(self):
        return [line for line in records.read_lines(self.run.metrics) if line["kind"] == "step"]

    def measured(self):
        return summary.summarise(self.run, "completed")["measured"]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_rate_is_all_targets_of_a_step_over_its_whole_time(world):
    """Four micro-batches of 1000, 900, 1100 and 1000 targets, two seconds an update."""
    world.execute(FakeLoop(world.time, [2.0] * 3, targets=1000 + 900 + 1100 + 1000), Schedule(3))

    assert world.measured()["tokens_per_second"] == 2000.0


def test_warm_up_steps_are_left_out_of_the_rate_and_not_of_the_overall_one(world):
    world.execute(FakeLoop(world.time, [10.0, 5.0, *[1.0] * 8]), Schedule(10, warmup_steps=2))

    found = summary.summarise(world.run, "completed")
    assert found["measured"]["tokens_per_second"] == 1000.0
    assert found["measured"]["steps"] == 8
    assert found["overall"]["targets_per_second"] == pytest.approx(10_000 / 23)
    assert [line["warmup"] for line in world.lines()] == [True, True, *[False] * 8]


def test_observed_steps_are_flagged_and_left_out_of_the_rate(world):
    seconds = [1.0] * 4 + [2.0] * 3 + [1.0] * 5  # the observer adds a second to steps 5 to 7

    world.execute(
        FakeLoop(world.time, seconds), Schedule(12), Observers([("profiler", Hearing([], world.time, [5, 6, 7]))])
    )

    assert [line["step"] for line in world.lines() if line["observed"]] == [5, 6, 7]
    assert (world.measured()["steps"], world.measured()["tokens_per_second"]) == (9, 1000.0)


def test_the_normal_region_of_corrected_is_87_steps(world):
    observers = Observers([("both", Hearing([], world.time, [21, 22, 100]))])

    world.execute(FakeLoop(world.time, [1.0] * 100), Schedule(100, warmup_steps=10), observers)

    assert world.measured()["steps"] == 87


def test_evaluating_saving_and_observing_are_outside_the_clock(world):
    observers = Observers([("slow", Hearing(world.heard, world.time, seconds=7.0))])
    schedule = Schedule(4, evaluate_every=2, evaluate_before=True, save_every=2)

    world.execute(FakeLoop(world.time, [1.0] * 4), schedule, observers)

    assert [line["seconds"] for line in world.lines()] == [1.0] * 4
    assert world.time.now == 100.0 + 4 * 1.0 + 3 * 50.0 + 2 * 30.0 + 4 * 7.0


class Publishing(FakeLoop):
    """Takes a minute to write what it leaves for the report."""

    def steps(self):
        try:
            yield from super().steps()
        finally:
            self.heard.append("leave")
            self.time.take(60.0)


def test_what_a_loop_leaves_when_it_is_closed_is_written_after_everything_and_outside_the_clock(world):
    schedule = Schedule(2, evaluate_every=2, save_every=2)

    world.execute(Publishing(world.time, [1.0] * 9, heard=world.heard), schedule)

    assert world.heard == ["pull 1", "pull 2", "evaluate", "save 2", "leave"]
    assert [line["seconds"] for line in world.lines()] == [1.0, 1.0]


def test_a_loop_is_closed_when_the_run_fails_too_and_the_failure_is_what_is_told(world):
    loop = Publishing(world.time, [1.0] * 9, losses={2: math.nan}, heard=world.heard)

    with pytest.raises(LabError, match="step 2: the loss is") as raised:
        world.execute(loop, Schedule(9))

    # Step 2 is read while step 3 is under way; the generator is closed by the worker, not by the collector of garbage.
    assert world.heard == ["pull 1", "pull 2", "pull 3", "leave"]
    assert raised.value.__context__ is None


def test_a_loop_whose_steps_cannot_be_closed_still_runs(world):
    class Listed(FakeLoop):
        def steps(self):
            return iter([Step(torch.tensor(1.0), 1)])

    assert world.execute(Listed(world.time, []), Schedule(1)) == ""


def test_a_step_is_read_once_the_next_is_under_way_and_at_once_before_what_is_due(world):
    observers = Observers([("ear", Hearing(world.heard, world.time))])
    schedule = Schedule(5, evaluate_every=3, evaluate_before=True, save_every=3)

    world.execute(FakeLoop(world.time, [1.0] * 5, heard=world.heard), schedule, observers)

    assert world.heard == [
        "evaluate", "evaluated 0",
        "started 1", "pull 1",
        "started 2", "pull 2", "finished 1",
        "started 3", "pull 3", "finished 2", "finished 3", "evaluate", "evaluated 3", "save 3",
        "started 4", "pull 4",
        "started 5", "pull 5", "finished 4", "finished 5", "save 5",
    ]  # fmt: skip


def test_an_observed_step_has_the_device_for_itself(world):
    observers = Observers([("profiler", Hearing(world.heard, world.time, [2]))])

    world.execute(FakeLoop(world.time, [1.0] * 3, heard=world.heard), Schedule(3), observers)

    assert world.heard == [
        "started 1", "pull 1", "finished 1",
        "started 2", "pull 2", "finished 2",
        "started 3", "pull 3", "finished 3",
    ]  # fmt: skip


def test_asked_to_stop_it_finishes_the_step_and_saves_it(world):
    class Asking(Hearing):
        def step_started(self, step):
            if step == 3:
                world.stop._remember(15, None)

    ending = world.execute(
        FakeLoop(world.time, [1.0] * 9), Schedule(9, save_every=5), Observers([("asks", Asking([], world.time))])
    )

    assert ending == ""
    assert [line["step"] for line in world.lines()] == [1, 2, 3]
    assert world.saved == [(3, 3000)]


def test_asked_to_stop_before_the_first_step_it_does_nothing(world):
    world.stop._remember(15, None)

    world.execute(FakeLoop(world.time, [1.0] * 9), Schedule(9, save_every=5))

    assert world.lines() == []
    assert world.saved == []


def test_what_is_saved_on_schedule_is_not_saved_again_when_asked_to_stop(world):
    class Asking(Hearing):
        def step_finished(self, step, line):
            world.stop._remember(15, None)

    world.execute(
        FakeLoop(world.time, [1.0] * 9), Schedule(9, save_every=2), Observers([("asks", Asking([], world.time))])
    )

    assert world.saved == [(2, 2000)]


def test_a_loop_that_ends_early_says_so(world):
    ending = world.execute(FakeLoop(world.time, [1.0] * 2), Schedule(5))

    assert ending == "the loop ended after 2 of 5 steps"
    assert [line["step"] for line in world.lines()] == [1, 2]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_the_run_with_its_line_written_and_nothing_saved(world, loss):
    loop = FakeLoop(world.time, [1.0] * 9, losses={5: loss})

    with pytest.raises(LabError, match="step 5: the loss is"):
        world.execute(loop, Schedule(9, save_every=1))

    assert world.saved[-1][0] == 4
    last = world.lines()[-1]
    assert last["step"] == 5
    assert not math.isfinite(last["loss"])


def test_the_step_before_one_that_raises_has_its_line(world):
    class Breaking(FakeLoop):
        def steps(self):
            yield from super().steps()
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        world.execute(Breaking(world.time, [1.0] * 3), Schedule(9))

    assert [line["step"] for line in world.lines()] == [1, 2, 3]


def test_a_step_without_targets_has_no_loss_and_does_not_stop_the_run(world):
    loop = FakeLoop(world.time, [1.0] * 3, targets=0, losses=dict.fromkeys([1, 2, 3], math.nan))

    world.execute(loop, Schedule(3))

    assert [line["loss"] for line in world.lines()] == [None] * 3


def test_a_phase_that_is_open_at_a_yield_is_refused(world):
    observers = Observers()
    phases = Phases(observers)

    class Leaving(FakeLoop):
        def steps(self):
            with phases("forward"):
                yield Step(torch.tensor(1.0), 1)

    with pytest.raises(LabError, match="inside the phase 'forward'"):
        Execution(
            loop=Leaving(world.time, []), schedule=Schedule(1), observers=observers, phases=phases, save=print,
            stop=world.stop, clock=WallClock(world.time), metrics=world.run.metrics, position=Position(),
            handed=Handed(),
        ).run()  # fmt: skip


def test_the_first_steps_of_a_later_attempt_are_warm_up_too(world):
    world.execute(FakeLoop(world.time, [1.0] * 4), Schedule(8, warmup_steps=2), start=4)

    assert [(line["step"], line["warmup"]) for line in world.lines()] == [
        (5, True), (6, True), (7, False), (8, False),
    ]  # fmt: skip


def test_targets_add_up_over_steps_and_further_values_are_on_the_line(world):
    class Valued(FakeLoop):
        def steps(self):
            for step in super().steps():
                yield Step(step.loss, step.targets, values={"entropy": torch.tensor(0.5)})

    world.execute(Valued(world.time, [1.0] * 2), Schedule(2))

    assert [line["targets_total"] for line in world.lines()] == [1000, 2000]
    assert [line["entropy"] for line in world.lines()] == [0.5, 0.5]


@pytest.mark.parametrize("name", ["step", "loss", "targets_total", "warmup", "kind"])
def test_a_value_does_not_take_the_place_of_what_the_line_has(world, name):
    class Valued(FakeLoop):
        def steps(self):
            yield Step(torch.tensor(1.0), 1, values={name: 99.0})

    with pytest.raises(LabError, match=rf"step 1: a name in values: the loop 'fake' of plugin fake gives '{name}'"):
        world.execute(Valued(world.time, [1.0]), Schedule(1))

    assert world.lines() == []


class Yields(FakeLoop):
    """Yields one good step and then `odd`."""

    def __init__(self, time, odd):
        super().__init__(time, [1.0])
        self.odd = odd

    def steps(self):
        yield from super().steps()
        yield self.odd


@pytest.mark.parametrize("odd", [None, 0, (torch.tensor(1.0), 1), "Step"])
def test_what_is_no_step_is_refused_and_not_taken_for_the_end(world, odd):
    with pytest.raises(LabError, match=r"^step 2: the loop 'fake' of plugin fake gives .+, and a Step belongs there"):
        world.execute(Yields(world.time, odd), Schedule(4))

    assert [line["step"] for line in world.lines()] == [1]


def test_steps_that_are_a_list_are_refused(world):
    class Listed(FakeLoop):
        def steps(self):
            return [Step(torch.tensor(1.0), 1)]

    with pytest.raises(LabError, match=r"steps\(\): the loop .+ \(list\), and an iterator of Step belongs there"):
        world.execute(Listed(world.time, []), Schedule(1))


def test_an_evaluation_that_is_none_of_its_kind_is_refused(world):
    class Evaluated(FakeLoop):
        def evaluate(self):
            return 3.0

    with pytest.raises(
        LabError, match=r"^the evaluation after step 1: .+ gives 3\.0 \(float\), and an Evaluation or None"
    ):
        world.execute(Evaluated(world.time, [1.0]), Schedule(1, evaluate_every=1))

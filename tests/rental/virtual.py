"""Time that passes only when somebody waits, faults to order, and the trace of everything that was asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

START = 1_796_112_000.0


class VirtualClock:
    """Sleeping is instant; whoever lives in this time is told how far it has come."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.jump = 0.0
        """How far the wall clock was set wrong."""
        self.slept_through = 0.0
        """How long the machine slept: the wall clock shows it, the monotonic one does not."""
        self.listeners: list[Callable[[], None]] = []

    def wall(self) -> float:
        return START + self.seconds + self.jump

    def monotonic(self) -> float:
        return self.seconds - self.slept_through

    def sleep(self, seconds: float) -> None:
        self.seconds += max(0.0, seconds)
        for listener in self.listeners:
            listener()

    def later(self, seconds: float, act: Callable[[], Any]) -> None:
        """Let something happen in the world once so much time has passed."""
        due = self.seconds + seconds
        pending = [act]

        def listen() -> None:
            if pending and self.seconds >= due:
                pending.pop()()

        self.listeners.append(listen)

    def laptop_sleeps(self, seconds: float) -> None:
        """The world goes on; this process does not notice."""
        self.slept_through += seconds
        self.sleep(seconds)


class Killed(BaseException):
    """SIGKILL: nothing of the process goes on, not even a handler of errors."""


@dataclass
class Fault:
    """What becomes of the nth call of an operation, and of those after it."""

    operation: str
    nth: int = 1
    times: int = 1
    before: BaseException | None = None
    """Raised instead of the effect."""
    after: BaseException | None = None
    """Raised although the effect happened."""
    answer: Callable[[Any], Any] | None = None
    """Changes the answer."""
    instead: Callable[[Callable[[], Any]], Any] | None = None
    """Gets the effect and decides about everything."""
    act: Callable[[], None] | None = None
    """Something that happens in the world at this moment, before the effect."""
    seen: int = 0
    fired: int = 0


@dataclass
class Trace:
    """Every call, with the moment and what came of it."""

    clock: VirtualClock
    faults: list[Fault] = field(default_factory=list)
    calls: list[tuple[float, str, str]] = field(default_factory=list)
    kill_after: int | None = None
    """The controller dies after the effect of this call, before it can write anything down."""

    def arm(self, operation: str, **what: Any) -> Fault:
        fault = Fault(operation, **what)
        self.faults.append(fault)
        return fault

    def call(self, operation: str, subject: str, effect: Callable[[], Any]) -> Any:
        self.calls.append((self.clock.seconds, operation, subject))
        number = len(self.calls)
        try:
            return self._made(operation, effect)
        finally:
            if number == self.kill_after:
                raise Killed

    def _made(self, operation: str, effect: Callable[[], Any]) -> Any:
        fault = self._due(operation)
        if fault is None:
            return effect()
        fault.fired += 1
        if fault.act is not None:
            fault.act()
        if fault.before is not None:
            raise fault.before
        if fault.instead is not None:
            return fault.instead(effect)
        answer = effect()
        if fault.after is not None:
            raise fault.after
        return fault.answer(answer) if fault.answer is not None else answer

    def count(self, operation: str) -> int:
        return sum(1 for _, name, _ in self.calls if name == operation)

    def subjects(self, *operations: str) -> list[str]:
        return [subject for _, name, subject in self.calls if name in operations]

    def _due(self, operation: str) -> Fault | None:
        due = None
        for fault in self.faults:
            if fault.operation == operation:
                fault.seen += 1
                if due is None and fault.nth <= fault.seen < fault.nth + fault.times:
                    due = fault
        return due

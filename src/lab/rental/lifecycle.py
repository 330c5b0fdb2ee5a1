"""The state machine of a rented machine: one function a state, each leaving its state or raising."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.rental import booting, collecting, creating, ending, sending, stopping
from lab.rental.attention import attention
from lab.rental.facts import RESTING, State
from lab.rental.leaving import leave
from lab.rental.provider import Forbidden, Gone, NotAuthorized, ProviderError
from lab.rental.reached import Readable
from lab.rental.rental import GiveUp

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from lab.rental.rental import Rental

HANDLERS: dict[State, Callable[[Rental], None]] = {
    State.PLANNED: creating.create,
    State.CREATING: creating.resume_creating,
    State.UNCERTAIN: creating.settle_doubt,
    State.BOOTING: booting.boot,
    State.SENDING: sending.send,
    State.LAUNCHING: sending.launch,
    State.FINISHED: collecting.collect,
    State.VERIFIED: collecting.part,
    State.DELETING: ending.delete,
    State.CONFIRMING: ending.confirm,
    State.STOPPING: stopping.stop,
    State.STARTING: stopping.start,
}
"""RUNNING has none: whoever follows the run looks at its own pace (`running.watch`). Nor have resting states."""


INTERRUPTIBLE = frozenset({State.PLANNED, State.BOOTING, State.SENDING, State.RUNNING, State.FINISHED})
"""States that a person's Ctrl-C turns towards the end; the others lead there anyway, or must be settled first."""


def drive(rental: Rental, until: Set[State] = frozenset()) -> None:
    """Go on from state to state until one of `until`, or one in which nothing goes on by itself."""
    extras_tried = False
    while True:
        if rental.interrupted() and rental.facts.state in INTERRUPTIBLE:
            leave(rental, "interrupted by a person")
        if rental.facts.state in until or rental.facts.state in RESTING | {State.RUNNING}:
            break
        if rental.facts.extras and not extras_tried:
            extras_tried = True
            end_extras(rental)
            continue
        guarded(rental, HANDLERS[rental.facts.state])
    if rental.facts.extras:
        end_extras(rental)


def guarded(rental: Rental, handler: Callable[[Rental], object]) -> None:
    """Run one handler; what it cannot go on with becomes the state that a person must know about."""
    try:
        handler(rental)
    except (GiveUp, Readable) as error:
        leave(rental, str(error))
    except (NotAuthorized, Forbidden) as error:
        attention(rental, f"the cloud refuses the key: {error.message}")
    except Gone as error:
        attention(rental, f"this version of the cloud's API is gone; update lab: {error.message}")
    except ProviderError as error:
        attention(rental, f"the cloud's answer cannot be worked with: {error.message}")


def end_extras(rental: Rental) -> None:
    """Delete machines of this rental beside the one in use; while a job runs, one that stays is only named."""
    guarded(rental, ending.remove_extras)
    left = ", ".join(rental.facts.extras)
    if left and rental.facts.state in RESTING - {State.ATTENTION}:
        attention(rental, f"more machines of this run may live: {left}")
    elif left:
        rental.say(f"{left} of this run may live too and could not be deleted")

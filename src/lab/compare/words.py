"""What two runs show and do not show, in sentences that a person may quote, and the command to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.compare import alignment, busy, costs, formats
from lab.compare.absences import NOT_MEASURED
from lab.compare.statistics import LABEL
from lab.compare.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.compare.alignment import Divergence
    from lab.compare.answer import Pair
    from lab.compare.changes import Change
    from lab.compare.facts import RunFacts
    from lab.compare.verdicts import Judgement

ONE_SEED = (
    "One seed each: this describes two runs; it does not show that the change moves the loss. "
    "Neighbouring points of a curve are one sample, so smoothing does not help; more seeds do."
)
ONE_RUN = f"One run each: the interval is {LABEL}. Runs repeated in turns on one machine would be."
NO_INTERVAL = "Too few steps to say how precise, and one run each: no evidence of a difference."
COUNTER = "The allocator's counters repeat for the same code on the same GPU model, so one run each is enough."


def claims(
    letter: str,
    a: RunFacts,
    b: RunFacts,
    judgements: Sequence[Judgement],
    found: Sequence[Change],
    parting: Divergence | None,
) -> tuple[str, ...]:
    """A few sentences for each question, in the order of the questions; `letter` is what the second run is called."""
    of = {one.question: one for one in judgements}
    by_name = {one.measure.name: one for one in found}
    return (
        *_loss(letter, a, b, of["loss"], by_name, parting),
        *_speed(letter, of["speed"], by_name),
        *filter(None, [busy.note({formats.letter(0): a, letter: b})]),
        *_memory(letter, of["memory"], by_name),
        *_cost(letter, a, b),
    )


def refusal(judgement: Judgement) -> str:
    """Why a question gets no answer: `Loss is not comparable: evaluation inputs.`"""
    names = ", ".join(check.name for check in judgement.because)
    return f"{judgement.question.capitalize()} is {judgement.verdict}: {names}."


def next_command(pairs: Sequence[Pair]) -> str:
    """The command that brings the reader further: mend what is not comparable, or look closer."""
    worst = next((pair for pair in pairs if any(_mendable(one) for one in pair.judgements)), None)
    if worst is None:
        return f"lab report {' '.join(dict.fromkeys([pairs[0].a.id, *(pair.b.id for pair in pairs)]))}"
    names = {check.name for check in worst.failed}
    if "declared change" in names:
        return f"lab check {worst.b.name}"
    if not worst.a.summary or not worst.b.summary:
        unfinished = worst.b if not worst.b.summary else worst.a
        return f"lab runs show {unfinished.id}"
    return f"lab run {worst.b.name}"


def _mendable(judgement: Judgement) -> bool:
    """Not comparable by something that another run could keep the same; what is not measured here stays so."""
    because = {check.name for check in judgement.because if check.allows[judgement.question] is judgement.verdict}
    return judgement.verdict is Verdict.NOT_COMPARABLE and not because <= NOT_MEASURED


def _loss(
    letter: str, a: RunFacts, b: RunFacts, judgement: Judgement, by_name: dict[str, Change], parting: Divergence | None
) -> Iterator[str]:
    steps = len(alignment.shared_steps(a, b))
    shared = "in the one step that both have" if steps == 1 else f"in all {steps:,} shared steps"
    if judgement.verdict is Verdict.NOT_COMPARABLE:
        yield f"{refusal(judgement)} The values are shown; their difference is no result."
        return
    if parting is None and steps:
        yield f"The training loss is the same to the last bit {shared}."
        return
    change = by_name.get("validation loss") or by_name.get("training loss")
    if change is not None and change.difference is not None:
        size = f"{abs(change.difference):.4g} {_way(change)}" if change.difference else "the same"
        how = change.measure.how
        yield f"{letter}'s {change.measure.name} is {size} {how}. {_limits(judgement)}{ONE_SEED}"
    if parting is not None:
        yield f"The curves part at step {parting.step}: {parting.cause}."


def _speed(letter: str, judgement: Judgement, by_name: dict[str, Change]) -> Iterator[str]:
    change = by_name.get("tokens per second")
    if judgement.verdict is Verdict.NOT_COMPARABLE:
        yield _refusal_and_why(judgement)
    elif change is not None and change.ratio:
        word = "faster" if change.ratio > 0 else "slower"
        size = formats.percent(abs(change.ratio)).lstrip("+")
        worth = ONE_RUN if all(change.measure.intervals) else NO_INTERVAL
        yield f"{letter} was {size} {word}: {change.measure.how}. {_limits(judgement)}{worth}"


def _memory(letter: str, judgement: Judgement, by_name: dict[str, Change]) -> Iterator[str]:
    change = by_name.get("peak allocated")
    if judgement.verdict is Verdict.NOT_COMPARABLE:
        yield _refusal_and_why(judgement)
    elif change is None:
        yield "Memory was not measured."
    elif change.ratio:
        word = "less" if change.ratio < 0 else "more"
        size = formats.percent(abs(change.ratio)).lstrip("+")
        yield f"{letter}'s peak takes {size} {word} memory. {_limits(judgement) or COUNTER}".strip()


def _cost(letter: str, a: RunFacts, b: RunFacts) -> Iterator[str]:
    """Prices are described, never judged: they depend on the market as much as on the code."""
    alone, whole = ([costs.per_million_tokens(run, part) for run in (a, b)] for part in ("train", "all"))
    if None not in (*alone, *whole):
        each = [formats.quantity(one, "dollars") for one in (*alone, *whole)]
        yield (
            f"A million tokens cost {each[0]} in A and {each[1]} in {letter} for the training alone, "
            f"{each[2]} and {each[3]} with all that is around it."
        )


def _refusal_and_why(judgement: Judgement) -> str:
    """Where nothing was measured, with the reason for that."""
    notes = (check.note for check in judgement.because if check.name in NOT_MEASURED)
    return " ".join([refusal(judgement), *(f"{note[0].upper()}{note[1:]}." for note in notes)])


def _limits(judgement: Judgement) -> str:
    return f"{refusal(judgement)} " if judgement.verdict is Verdict.WITHIN_LIMITS else ""


def _way(change: Change) -> str:
    return "lower" if (change.difference or 0.0) < 0 else "higher"

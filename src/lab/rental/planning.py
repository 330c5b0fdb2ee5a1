"""What a rental is allowed, decided before any money is spent: candidates, the price cap, the most that it can cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.contracts import Unquoted
from lab.errors import LabError, UsageError
from lab.rental import cost
from lab.rental.provider import Forbidden, NotAuthorized, ProviderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.jobs import Job
    from lab.rental.options import RentalOptions
    from lab.rental.provider import Candidate, Provider

SMALLEST_VOLUME_GB = 20
PRICE_MARGIN = 1.10
"""Without a cap a machine may be this much dearer than listed, for its disks, and no more."""


def candidates(provider: Provider, job: Job, options: RentalOptions) -> Sequence[Candidate]:
    """The machines to try, in order, none above the cap.

    Raises `UsageError` for a job without an image, and `LabError` when there is no machine.
    """
    if not job.needs.image:
        raise UsageError(
            "environment.image is missing: a rented machine starts from an image.",
            'Set it in the experiment: image = "repository:tag@sha256:..." below [environment].',
        )
    try:
        found = provider.candidates(job.needs)
    except (NotAuthorized, Forbidden) as error:
        raise Unquoted(f"{provider.name} cannot be asked: {error.message}", "See `lab doctor`.") from error
    except ProviderError as error:
        raise Unquoted(f"{provider.name} does not say what it offers: {error.message}", "Try again later.") from error
    fitting = [one for one in found if options.max_price is None or one.dollars_per_hour <= options.max_price]
    if not fitting:
        raise no_candidate(job, options, found)
    return fitting


def no_candidate(job: Job, options: RentalOptions, found: Sequence[Candidate]) -> LabError:
    """Say what was asked for and what would help."""
    gpu = job.needs.gpu or "a GPU"
    if found:
        cheapest = min(one.dollars_per_hour for one in found)
        return LabError(
            f"{gpu} costs at least ${cheapest:.2f}/h, above --max-price {options.max_price:.2f}.",
            "Raise --max-price, or choose another GPU with --set environment.gpu=NAME.",
        )
    return LabError(
        f"{gpu} is not to be had now.",
        "Try later, or choose another GPU with --set environment.gpu=NAME; fewer demands on disk help too.",
    )


def price_cap(options: RentalOptions, offered: Sequence[Candidate]) -> float:
    """What an hour may really cost: the person's cap, else a little above the dearest machine that was shown."""
    dearest = max(one.dollars_per_hour for one in offered) * PRICE_MARGIN
    return options.max_price if options.max_price is not None else dearest


def ceiling(job: Job, options: RentalOptions, offered: Sequence[Candidate], spent: float = 0.0) -> float:
    """The most that the run's machines may cost, those of earlier attempts included.

    The person's limit, or what the limits of time come to at the cap when that is less.
    """
    most = spent + cost.most(price_cap(options, offered), job.seconds, options.ready_minutes * 60)
    return min(limit for limit in (most, job.max_dollars, options.max_cost) if limit is not None)


def volume_gb(job: Job) -> int | None:
    """The disk of its own that survives a stop; None where a network volume takes its place."""
    if job.needs.network_volume is not None:
        return None
    return max(job.needs.volume_gb or 0, SMALLEST_VOLUME_GB)

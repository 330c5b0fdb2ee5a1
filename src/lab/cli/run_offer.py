"""What a rented run would take, said before it takes anything: machine, disk, time and money."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.cli.output import plain, table
from lab.compare.formats import counted
from lab.rental import cost, requirements
from lab.rental.options import RentalOptions
from lab.rental.planning import volume_gb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from lab.contracts import Quote
    from lab.experiment import PartChoice
    from lab.jobs import Job
    from lab.launch.plan import Plan


def facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Each fact by name; none for a backend that rents nothing."""
    quote, job = plan.quote, plan.job
    if not _rents(quote):
        return
    yield "machine", f"one {job.needs.gpu or 'GPU of any kind'}; image {(job.needs.image or 'none').partition('@')[0]}"
    yield "disk", _disk(job)
    yield "installs", _installs(plan)
    yield "time", f"at most {job.seconds / 3600:g} h for the job"
    if quote.candidates:
        yield "price", f"{_listed(quote)}; at most ${quote.max_dollars:.2f} in all, booting and collecting included"
    else:
        yield "price", f"not known here; {_bounds(plan.backend_choice, job)}"


def installs(plan: Plan) -> dict[str, Any]:
    """What a rented machine's install stage would be asked for; empty for a backend that rents nothing."""
    if not _rents(plan.quote):
        return {}
    plugins: Any = plan.provenance["plugins"]
    needed = requirements.needed(plan.job, plugins)
    return {key: needed[key] for key in ("packages", "requirements", "torch_index")}


def offers(quote: Quote) -> Table:
    """The machines in the order in which they would be tried."""
    columns = list(dict.fromkeys(key for candidate in quote.candidates for key in candidate))
    candidates = table(*(column.upper().replace("_", " ") for column in columns), whole=columns)
    for candidate in quote.candidates:
        candidates.add_row(*(plain(candidate.get(column)) for column in columns))
    return candidates


def _rents(quote: Quote) -> bool:
    return bool(quote.candidates or quote.unknown)


def _disk(job: Job) -> str:
    own = volume_gb(job)
    lasting = f"network volume {job.needs.network_volume}" if own is None else f"{own} GB that outlive a stop"
    return f"{job.needs.disk_gb} GB, and {lasting}"


def _installs(plan: Plan) -> str:
    needed = installs(plan)
    others = [line for line in needed["requirements"] if line not in needed["packages"]]
    names = [*needed["packages"], f"{counted(len(others), 'requirement')} of lab and its plugins"]
    index = f" (torch from the index {needed['torch_index']})" if needed["torch_index"] else ""
    return f"what the image lacks of {', '.join(names)}{index}"


def _listed(quote: Quote) -> str:
    prices = [float(str(one["dollars_per_hour"])) for one in quote.candidates if "dollars_per_hour" in one]
    offered = counted(len(quote.candidates), "offer")
    if not prices:
        return offered
    dearest = f" to ${max(prices):.2f}" if max(prices) > min(prices) else ""
    return f"{offered} at ${min(prices):.2f}{dearest} an hour"


def _bounds(choice: PartChoice, job: Job) -> str:
    """The most that a run may cost by what the person has capped; without a price there is nothing else to say."""
    known = RentalOptions.model_fields
    options = RentalOptions.model_validate({key: given for key, given in choice.options.items() if key in known})
    limits = [job.max_dollars, options.max_cost]
    if options.max_price is not None:
        limits.append(cost.most(options.max_price, job.seconds, options.ready_minutes * 60))
    capped = [limit for limit in limits if limit is not None]
    return f"at most ${min(capped):.2f} in all" if capped else "--max-price and --max-cost bound it"

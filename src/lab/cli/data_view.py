"""How token caches are shown: counts, a picture of the lengths, packing, and the first words."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lab.cli.output import console, near, plain, show, table, warn
from lab.compare.formats import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.table import Table

    from lab.data.cache import TokenCache
    from lab.data.collection import Progress

BAR = 40
FULL, SLIVER = "\N{LOWER SEVEN EIGHTHS BLOCK}", "\N{LEFT ONE EIGHTH BLOCK}"
SECONDS_BETWEEN_LINES = 5.0


def show_caches(caches: list[dict[str, Any]]) -> None:
    """One line for each cache, newest first."""
    if not caches:
        show(plain("No data is prepared yet. Try: lab data prepare smoke"))
        return
    numbers = ("train", "validation", "documents", "MB")
    rows = table("identity", "source", *numbers, "prepared", right=numbers, whole=("identity", *numbers))
    for cache in caches:
        if cache["fault"]:
            rows.add_row(cache["identity"][:12], plain(cache["fault"]))
            continue
        counts = [cache["tokens"]["train"], cache["tokens"]["validation"], cache["documents"]]
        prepared = f"{cache['prepared']:%Y-%m-%d %H:%M}"
        cells = [*(f"{count:,}" for count in counts), f"{cache['bytes'] / 1e6:,.1f}", prepared]
        rows.add_row(cache["identity"][:12], plain(cache["source"]), *cells)
    show(rows)


def show_prepared(name: str, cache: TokenCache) -> None:
    """What was prepared, and where it lies."""
    for warning in cache.manifest["warnings"]:
        warn(warning)
    tokenizer = cache.manifest["tokenizer"]
    show(
        plain(f"{name}: {cache.manifest['source']['name']}, tokenised by {tokenizer['name']}", style="bold"),
        _splits(cache.manifest["splits"]),
        plain(_accounts(cache.manifest["counters"]), style="dim"),
        plain(f"Cache: {near(cache.folder)}"),
    )


def show_inspected(record: Mapping[str, Any]) -> None:
    """Everything `lab data inspect` knows."""
    for warning in record["warnings"]:
        warn(warning)
    source, tokenizer, splits = record["source"], record["tokenizer"], record["splits"]
    show(
        plain(f"{record['of']}: {source['name']}, tokenised by {tokenizer['name']}", style="bold"),
        _splits(splits),
        plain(_accounts(record["counters"]), style="dim"),
    )
    context = record["packing"]["context"]
    for name, split in splits.items():
        show("", plain(f"Tokens per document, {name}", style="bold"), _picture(split["histogram"]))
        show(plain(_lengths(split, context), style="dim"))
    show("", plain("Packing", style="bold"), plain(_packing(record["packing"])))
    if record["first_documents"]:
        show("", plain("First documents", style="bold"), _heads(record["first_documents"]))
    show("", plain(f"Cache: {near(record['folder'])}"))


@contextmanager
def progress() -> Iterator[Callable[[Progress], None]]:
    """A bar for each split on a terminal; elsewhere a line now and then."""
    if not sys.stderr.isatty():
        yield _line_now_and_then()
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description:<10}"), BarColumn(BAR), TextColumn("{task.fields[counts]}"))
    with Bars(*columns, TimeElapsedColumn(), console=console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def report(now: Progress) -> None:
            for name, budget in now.budgets.items():
                if name not in tasks:
                    tasks[name] = bars.add_task(name, total=budget, counts="")
                counts = f"{now.tokens[name]:,} of {budget:,} tokens"
                bars.update(tasks[name], completed=min(now.tokens[name], budget), counts=counts)

        yield report


def _line_now_and_then() -> Callable[[Progress], None]:
    last = time.monotonic()

    def report(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            splits = ", ".join(f"{name} {now.tokens[name]:,} of {budget:,}" for name, budget in now.budgets.items())
            console(stderr=True).print(plain(f"{now.read:,} documents read; tokens: {splits}"))

    return report


def _splits(splits: Mapping[str, Any]) -> Table:
    numbers = ("documents", "tokens", "pairs", "wanted")
    rows = table("split", *numbers, right=numbers, whole=("split", *numbers))
    for name, split in splits.items():
        counts = (split["documents"], split["tokens"], split["pairs"], split["budget"])
        rows.add_row(name, *(f"{count:,}" for count in counts))
    return rows


def _accounts(counters: Mapping[str, int]) -> str:
    parts = [f"{count:,} {kind}" for kind, count in counters.items() if count and kind not in ("read", "repaired")]
    repaired = f"; {counters['repaired']:,} repaired" if counters["repaired"] else ""
    return f"{counters['read']:,} read = {' + '.join(parts)}{repaired}"


def _picture(histogram: list[dict[str, int]]) -> Table:
    most = max(row["documents"] for row in histogram)
    rows = table("tokens", "documents", "bar", right=("tokens", "documents"), whole=("tokens", "documents", "bar"))
    rows.show_header = False
    for row in histogram:
        bar = FULL * round(BAR * row["documents"] / most) or SLIVER * bool(row["documents"])
        rows.add_row(f"{row['from']:,}-{row['to']:,}", f"{row['documents']:,}", bar)
    return rows


def _lengths(split: Mapping[str, Any], context: int) -> str:
    lengths = split["lengths"]
    spread = ", ".join(f"{rank[1:]} % {lengths[rank]:,}" for rank in ("p5", "p25", "p50", "p75", "p95"))
    ends = f"shortest {lengths['p0']:,}, longest {lengths['p100']:,}"
    return f"{spread}; {ends}; {split['longer_than_context']:,} longer than the context of {context:,}"


def _packing(packing: Mapping[str, Any]) -> str:
    return (
        f"{packing['fill']:.2%} full: packs of {packing['capacity']:,} from {packing['buffer']} candidates, "
        f"{packing['segments_per_pack']:.1f} segments each ({counted(packing['packs'], 'pack')} tried)"
    )


def _heads(documents: list[dict[str, Any]]) -> Table:
    rows = table("split", "tokens", "text", right=("tokens",), whole=("split", "tokens"), cut=("text",))
    for document in documents:
        rows.add_row(document["split"], f"{document['tokens']:,}", plain(" ".join(document["head"].split())))
    return rows

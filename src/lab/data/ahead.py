"""Work done ahead by threads, handed over in order: what comes out depends on nothing but what goes in."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

Item = TypeVar("Item")
Result = TypeVar("Result")
CHUNK_WEIGHT = 200_000  # characters: one future for each short text would cost more than the text
MOST_THREADS = 8
FEW_CORES = 4  # below, threads cost more than they bring: tiktoken is a third slower outside the main thread


def threads_here() -> int:
    """One for each core, within reason."""
    cores = os.cpu_count() or 1
    return min(MOST_THREADS, cores) if cores >= FEW_CORES else 1


def ahead(
    items: Iterable[Item], work: Callable[[Item], Result], weight: Callable[[Item], int], threads: int
) -> Generator[Result]:
    """Yield `work(item)` for each item in order, with a bounded number of chunks under way; one thread is the caller's.

    An error of `items` is raised after the results of all items before it. Closing early cancels what is under way.
    """
    if threads == 1:
        yield from map(work, items)
        return
    under_way: deque[tuple[Future[list[Result]], Exception | None]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="ahead")
    try:
        for chunk, failure in _chunks(items, weight):
            under_way.append((pool.submit(_all, work, chunk), failure))
            if len(under_way) > threads:
                yield from _handed_over(*under_way.popleft())
        while under_way:
            yield from _handed_over(*under_way.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _all(work: Callable[[Item], Result], chunk: list[Item]) -> list[Result]:
    return [work(item) for item in chunk]


def _handed_over(future: Future[list[Result]], failure: Exception | None) -> Iterator[Result]:
    yield from future.result()
    if failure is not None:
        raise failure


def _chunks(items: Iterable[Item], weight: Callable[[Item], int]) -> Iterator[tuple[list[Item], Exception | None]]:
    """Yield lists of items that weigh enough, and with the last one the error that ended them, if one did."""
    chunk: list[Item] = []
    weighed = 0
    try:
        for item in items:
            chunk.append(item)
            weighed += weight(item)
            if weighed >= CHUNK_WEIGHT:
                yield chunk, None
                chunk, weighed = [], 0
    except Exception as error:  # raised again where its turn comes
        yield chunk, error
    else:
        yield chunk, None

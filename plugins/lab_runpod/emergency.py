"""A second way to end a known Pod, when REST v2 does not answer: RunPod's own package, if it is installed.

It speaks an older API over other servers, so it may still work while the first way fails; that is its only use here.
Nothing is ever created by it: two APIs that both create are two chances to pay twice. Its functions answer a failure
with anything from a KeyError to a JSONDecodeError, so whatever it raises means no more than that nobody knows.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lab.rental.provider import NoSecondWay, UncertainOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab_runpod.settings import RunPodSettings

ADDRESS = "RUNPOD_API_BASE_URL"


def stop(settings: RunPodSettings, pod_id: str) -> None:
    """Stop a Pod."""
    _call(settings, "stop_pod", pod_id)


def terminate(settings: RunPodSettings, pod_id: str) -> None:
    """Delete a Pod; one that is gone already counts as deleted."""
    _call(settings, "terminate_pod", pod_id)


def _call(settings: RunPodSettings, function: str, pod_id: str) -> None:
    with _package(settings) as runpod:
        try:
            getattr(runpod, function)(pod_id)
        except Exception as error:  # it has no error classes of its own that cover its failures
            if "not found" in str(error).lower():
                return
            raise UncertainOutcome(f"the runpod package: {type(error).__name__}: {error}") from error


@contextmanager
def _package(settings: RunPodSettings) -> Iterator[Any]:
    """The package, told whom to speak for and where, and only for the time of one call."""
    before = os.environ.get(ADDRESS)
    os.environ[ADDRESS] = settings.graphql_url.removesuffix("/graphql")
    try:
        import runpod
    except ImportError as error:
        raise NoSecondWay("the package runpod is not installed: pip install 'llm-training-lab[runpod-sdk]'") from error
    else:
        runpod.api_key = settings.api_key.get_secret_value()
        try:
            yield runpod
        finally:
            runpod.api_key = None
    finally:
        if before is None:
            os.environ.pop(ADDRESS, None)
        else:
            os.environ[ADDRESS] = before

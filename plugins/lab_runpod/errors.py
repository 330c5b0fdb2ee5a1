"""What an answer other than success means: one error for each thing that a controller may do about it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from lab.rental.provider import (
    Conflict,
    Forbidden,
    Gone,
    NoCredit,
    NotAuthorized,
    NotFound,
    ProviderError,
    RateLimited,
    RequestRejected,
    UncertainOutcome,
    Unreachable,
)
from lab_runpod.models import Problem

if TYPE_CHECKING:
    import httpx

PROBLEM = "application/problem+json"
WINDOW = re.compile(r'"(?P<name>\w+)"\s*;\s*r=(?P<left>\d+)\s*;\s*t=(?P<seconds>\d+)')
GUESS_SECONDS = 10.0
"""How long to wait where the service does not say."""
LONGEST_SECONDS = 86_400.0

MEANINGS: dict[int, type[ProviderError]] = {
    401: NotAuthorized,
    402: NoCredit,
    403: Forbidden,
    404: NotFound,
    405: RequestRejected,
    409: Conflict,
    410: Gone,
    413: RequestRejected,
    415: RequestRejected,
    422: RequestRejected,
}


def of(response: httpx.Response, sent: bool, bad_request: type[ProviderError] = RequestRejected) -> ProviderError:
    """The error that an answer stands for; `sent` when the request would have changed something.

    `bad_request` is what a 400 means for this request: the API has one code for "no capacity" and "against a rule".
    """
    status, words, request = response.status_code, _words(response), request_id(response)
    if status == 429:
        return RateLimited(words, retry_after(response), request)
    if status == 403 and not _is_problem(response):
        # The edge refused the caller before the API saw it: the key is not to blame, and nothing was done.
        return Unreachable(f"blocked before the API by its edge: {words}", request)
    if status == 410:
        return Gone(f"this version of the API is retired: {words}. Update lab.", request)
    if status == 400:
        return bad_request(words, request)
    if status in MEANINGS:
        return MEANINGS[status](words, request)
    return (UncertainOutcome if sent else Unreachable)(words, request)


def retry_after(response: httpx.Response) -> float:
    """As long as Retry-After says and every exhausted window lasts; a guess where neither can be read."""
    waits = [
        float(match["seconds"]) for match in WINDOW.finditer(_header(response, "RateLimit")) if match["left"] == "0"
    ]
    told = _header(response, "Retry-After").strip()
    if told.isdigit():
        waits.append(float(told))
    elif told:
        waits.extend(_until(told))
    return min(max(waits, default=GUESS_SECONDS), LONGEST_SECONDS)


def request_id(response: httpx.Response) -> str | None:
    """By it the service's support finds the request."""
    return _header(response, "x-request-id") or None


def _until(date: str) -> list[float]:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return []
    return [max(0.0, (moment - datetime.now(UTC)).total_seconds())]


def _header(response: httpx.Response, name: str) -> str:
    return str(response.headers.get(name, ""))


def _is_problem(response: httpx.Response) -> bool:
    return _header(response, "Content-Type").split(";")[0].strip().lower() == PROBLEM


def _words(response: httpx.Response) -> str:
    """What the answer says, on one line, whatever it is."""
    if _is_problem(response):
        try:
            return f"{response.status_code}: {Problem.model_validate_json(response.content)}"
        except ValidationError:
            pass  # a problem that is none is shown as the text that it is
    text = " ".join(re.sub(r"<[^>]*>", " ", response.text).split())
    return f"{response.status_code}: {text[:200] or response.reason_phrase}"

"""One HTTP client for the API: who is asking, how long it may take, and what an answer means.

A creation is never repeated here, and nothing is by default: `attempts` is for callers that have no clock of their own.
"""

from __future__ import annotations

import logging
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
from httpx_sse import connect_sse
from pydantic import BaseModel, ValidationError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lab.rental.provider import Conflict, NotAuthorized, RateLimited, RequestRejected, UncertainOutcome, Unreachable
from lab_runpod import errors
from lab_runpod.settings import KEYS_PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lab.rental.provider import ProviderError
    from lab_runpod.settings import RunPodSettings

USER_AGENT = f"lab/{version('llm-training-lab')}"
"""The edge answers 403 to a client that has none or Python's own."""
QUIET_SECONDS = 2.0
"""A log stream that says nothing for so long has said what there is."""

log = logging.getLogger(__name__)
Model = TypeVar("Model", bound=BaseModel)


class Client:
    """Speaks REST v2; every failure is one of `lab.rental.provider`'s errors."""

    def __init__(
        self,
        settings: RunPodSettings,
        attempts: int = 1,
        sleep: Callable[[float], None] = time.sleep,
        heard: Callable[[httpx.Response], None] | None = None,
    ) -> None:
        self.settings = settings
        self._attempts = attempts
        self._sleep = sleep
        remote = settings.api_url.startswith("https")  # anything else is on this machine, without TLS and proxies
        # No connection is kept: one that died idle would make a creation uncertain for nothing.
        self._http = httpx.Client(
            base_url=settings.api_url + "/",
            headers={"User-Agent": USER_AGENT, "Accept": "application/json, application/problem+json"},
            timeout=self._timeout(None),
            trust_env=remote,
            verify=remote,
            limits=httpx.Limits(max_keepalive_connections=0),
            event_hooks={"response": [heard]} if heard is not None else {},
        )

    def account(self) -> str:
        """A fingerprint of the key. Raises `NotAuthorized` when there is none."""
        self._key()
        return self.settings.fingerprint

    def close(self) -> None:
        """Drop the connections."""
        self._http.close()

    def get(self, path: str, model: type[Model], query: Mapping[str, str] | None = None) -> Model:
        """Read; asked again, with jitter and not before the service allows it, if this client may."""
        retrying = Retrying(
            sleep=self._sleep,
            stop=stop_after_attempt(self._attempts),
            wait=_wait,
            retry=retry_if_exception_type((Unreachable, RateLimited)),
            reraise=True,
        )
        found: Model = retrying(self._get, path, model, query)
        return found

    def post(
        self, path: str, body: Any, bad_request: type[ProviderError], seconds: float | None = None
    ) -> httpx.Response:
        """Send once. Raises `UncertainOutcome` when nobody knows whether it was carried out."""
        request = self._http.build_request("POST", path, json=body, timeout=self._timeout(seconds))
        return self._send(request, bad_request)

    def delete(self, path: str) -> httpx.Response:
        """Send once; a success has no body."""
        return self._send(self._http.build_request("DELETE", path), Conflict)

    def lines(self, path: str, query: Mapping[str, str]) -> list[str]:
        """The lines of a log that there are now; the stream itself never ends."""
        found: list[str] = []
        limit = int(query.get("tail", "100"))
        timeout = httpx.Timeout(QUIET_SECONDS, connect=self.settings.connect_seconds)
        try:
            with connect_sse(
                self._http, "GET", path, params=dict(query), headers=self._key(), timeout=timeout
            ) as source:
                if source.response.status_code != httpx.codes.OK:
                    source.response.read()
                    raise errors.of(source.response, sent=False)
                for event in source.iter_sse():
                    found.append(str(_line(event.json())))
                    if len(found) >= limit:
                        break
        except httpx.ReadTimeout:
            return found
        except (httpx.HTTPError, ValueError) as error:
            raise Unreachable(f"GET {path}: {_words(error)}") from error
        return found

    def _get(self, path: str, model: type[Model], query: Mapping[str, str] | None) -> Model:
        response = self._send(self._http.build_request("GET", path, params=query))
        try:
            return model.model_validate_json(response.content)
        except ValidationError as error:
            raise Unreachable(
                f"GET {path}: the answer cannot be read: {_first(error)}", errors.request_id(response)
            ) from error

    def _send(self, request: httpx.Request, bad_request: type[ProviderError] = RequestRejected) -> httpx.Response:
        method, path, reading = request.method, request.url.path, request.method == "GET"
        request.headers.update(self._key())
        try:
            response = self._http.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Unreachable(f"{method} {path}: {_words(error)}") from error
        except httpx.HTTPError as error:
            raise (Unreachable if reading else UncertainOutcome)(f"{method} {path}: {_words(error)}") from error
        log.debug("%s %s: %s, request %s", method, path, response.status_code, errors.request_id(response))
        if not response.is_success:
            raise errors.of(response, sent=not reading, bad_request=bad_request)
        return response

    def _timeout(self, read_seconds: float | None) -> httpx.Timeout:
        return httpx.Timeout(read_seconds or self.settings.read_seconds, connect=self.settings.connect_seconds)

    def _key(self) -> dict[str, str]:
        key = self.settings.api_key.get_secret_value()
        if not key:
            raise NotAuthorized(f"RUNPOD_API_KEY is not set: make a key at {KEYS_PAGE} and put it in .env")
        return {"Authorization": f"Bearer {key}"}


def read(response: httpx.Response, model: type[Model]) -> Model:
    """The answer to something that was sent. Raises `UncertainOutcome` when it cannot be read."""
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        raise UncertainOutcome(
            f"the answer {response.status_code} cannot be read: {_first(error)}", errors.request_id(response)
        ) from error


def _wait(state: RetryCallState) -> float:
    """Jitter, or as long as the service says."""
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, RateLimited):
        return error.retry_after
    return float(wait_random_exponential(multiplier=0.5, max=8.0)(state))


def _line(data: Any) -> Any:
    return data.get("line", "") if isinstance(data, dict) else data


def _first(error: ValidationError) -> str:
    fault = error.errors(include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

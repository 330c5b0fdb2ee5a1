"""The hub through its own client: one quick question whether it can be reached, then files at a commit.

A hub that does not answer is asked no second time: the client is set offline for the rest of the process.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lab.data import tokenizer as tokenizers
from lab.errors import LabError

if TYPE_CHECKING:
    from lab.experiment.sections import Tokenizer

SECONDS_TO_ANSWER = 2.0


@cache
def reach(kind: str, repository: str, commit: str) -> None:
    """Ask once, without a retry, whether the hub has this commit. Raises `LabError`, and stays offline from then on."""
    from huggingface_hub import constants, get_session, get_token

    if constants.HF_HUB_OFFLINE:
        raise LabError(
            f"{repository} at {commit[:12]} has to come from the hub, but HF_HUB_OFFLINE is set.", _instead()
        )
    token = get_token()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    url = f"{constants.ENDPOINT}/api/{kind}/{repository}/revision/{commit}"
    try:
        answer = get_session().get(url, headers=headers, timeout=SECONDS_TO_ANSWER)
    except transport_errors() as error:
        _go_offline()
        raise LabError(
            f"The hub at {constants.ENDPOINT} cannot be reached: {type(error).__name__}: {error}", _instead()
        ) from error
    if answer.status_code == 404:
        raise LabError(
            f"{constants.ENDPOINT} has no {repository} at commit {commit}.", "Check repository and revision."
        )
    if answer.status_code in (401, 403):
        raise LabError(
            f"{constants.ENDPOINT} refuses {repository} (HTTP {answer.status_code}).",
            "Set HF_TOKEN to a token that may read it.",
        )
    if answer.status_code >= 400:
        _go_offline()
        raise LabError(f"The hub at {constants.ENDPOINT} answers HTTP {answer.status_code}.", _instead())


def download(repository: str, commit: str, name: str) -> Path:
    """A file of a model's repository in the hub's own cache; pinned and cached, it asks nobody."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    cached = try_to_load_from_cache(repository, name, revision=commit)
    if isinstance(cached, str):
        return Path(cached)
    reach("models", repository, commit)
    try:
        return Path(hf_hub_download(repository, name, revision=commit))
    except transport_errors() as error:
        raise LabError(f"{name} of {repository} cannot be downloaded: {error}", _instead()) from error


def tokenizer_folder(choice: Tokenizer) -> Path | None:
    """A folder with the tokenizer's files at its commit from the hub, or None when the machine has it without."""
    if (choice.name, choice.revision) == (tokenizers.GPT2, tokenizers.GPT2_REVISION) and _embedded():
        return None
    vocabulary, merges = (download(choice.name, choice.revision, name) for name in tokenizers.FILE_NAMES[0])
    assert vocabulary.parent == merges.parent
    return vocabulary.parent


def transport_errors() -> tuple[type[BaseException], ...]:
    """What the client raises when a connection fails: it comes with a different HTTP library in each generation."""
    found: list[type[BaseException]] = [OSError]
    for library, name in (("httpx2", "HTTPError"), ("httpx", "HTTPError"), ("requests", "RequestException")):
        try:
            found.append(getattr(__import__(library), name))
        except ImportError:
            continue
    return tuple(found)


def _go_offline() -> None:
    """Let nothing else in this process wait for a hub that does not answer."""
    from huggingface_hub import constants

    os.environ["HF_HUB_OFFLINE"] = "1"
    setattr(constants, "HF_HUB_OFFLINE", True)  # noqa: B010  the client read its environment when it was imported


def _instead() -> str:
    return 'Connect, or take text that is on this machine: data.source = "embedded", or "files".'


def _embedded() -> bool:
    try:
        tokenizers.embedded_folder()
    except LabError:
        return False
    return True

"""Where the cloud is reached and by which key: LAB_RUNPOD_* and RUNPOD_API_KEY."""

from __future__ import annotations

import hashlib
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from lab.errors import UsageError
from lab.settings import project_folder, warn_of_misspelt

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _safe(address: str) -> str:
    """An address to which a key may be sent: https, or this machine."""
    parts = urlsplit(address.replace("{pod_id}", "pod").replace("{port}", "1"))
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise ValueError(f"{address} is neither https nor on this machine")
    return address.rstrip("/")


def _placed(template: str) -> str:
    if "{pod_id}" not in template or "{port}" not in template:
        raise ValueError(f"{template} lacks {{pod_id}} or {{port}}")
    return template


KEYS_PAGE = "https://console.runpod.io/user/settings"
"""Where a person makes an API key."""


class RunPodSettings(BaseSettings):
    """Read from the environment and the project's `.env`."""

    model_config = SettingsConfigDict(
        env_prefix="LAB_RUNPOD_", extra="ignore", env_ignore_empty=True, populate_by_name=True
    )

    api_url: Annotated[str, AfterValidator(_safe)] = "https://api.runpod.io/v2"
    """LAB_RUNPOD_API_URL: the REST API."""
    proxy_url: Annotated[str, AfterValidator(_safe), AfterValidator(_placed)] = (
        "https://{pod_id}-{port}.proxy.runpod.net"
    )
    """LAB_RUNPOD_PROXY_URL: how a Pod's port is reached."""
    graphql_url: Annotated[str, AfterValidator(_safe)] = "https://api.runpod.io/graphql"
    """LAB_RUNPOD_GRAPHQL_URL: the retiring API, only ever used to stop or delete a known Pod."""
    v1_url: Annotated[str, AfterValidator(_safe)] = "https://rest.runpod.io/v1"
    """LAB_RUNPOD_V1_URL: the retired API, of which the doctor asks whether it is gone."""
    console_url: str = "https://console.runpod.io/pods?id={pod_id}"
    """LAB_RUNPOD_CONSOLE_URL: the page on which a person sees a Pod."""
    api_key: SecretStr = Field(default=SecretStr(""), validation_alias="RUNPOD_API_KEY")
    """RUNPOD_API_KEY: stays on this machine."""
    connect_seconds: float = Field(default=10.0, gt=0)
    """LAB_RUNPOD_CONNECT_SECONDS: how long a connection may take."""
    read_seconds: float = Field(default=30.0, gt=0)
    """LAB_RUNPOD_READ_SECONDS: how long an answer may take."""
    create_seconds: float = Field(default=120.0, gt=0)
    """LAB_RUNPOD_CREATE_SECONDS: the same for a creation, whose answer is worth waiting for."""

    @property
    def fingerprint(self) -> str:
        """Tells accounts' keys apart without showing one."""
        return hashlib.sha256(self.api_key.get_secret_value().encode()).hexdigest()[:16]


def read_settings() -> RunPodSettings:
    """The settings of this machine. Raises `UsageError` naming the variable that is wrong."""
    file = project_folder() / ".env"
    warn_of_misspelt(RunPodSettings, file)
    try:
        return RunPodSettings(_env_file=file)  # type: ignore[call-arg]  # pydantic-settings takes it
    except ValidationError as error:
        faults = [f"LAB_RUNPOD_{'.'.join(map(str, f['loc'])).upper()}: {f['msg']}" for f in error.errors()]
        raise UsageError("\n".join(faults), "Change it in the environment or in .env.") from error

"""W&B's own variables, as this machine or the rented one has them."""

from __future__ import annotations

import netrc
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from lab.settings import project_folder


class WandbSettings(BaseSettings):
    """Read from the environment and the project's `.env`."""

    model_config = SettingsConfigDict(env_prefix="WANDB_", extra="ignore", env_ignore_empty=True)

    api_key: SecretStr | None = None
    """WANDB_API_KEY: without it (and without `wandb login`) everything stays offline."""
    entity: str | None = None
    """WANDB_ENTITY."""
    project: str = "llm-training-lab"
    """WANDB_PROJECT."""
    base_url: str = "https://api.wandb.ai"
    """WANDB_BASE_URL."""
    mode: str | None = None
    """WANDB_MODE: `offline` keeps it offline even with a key; `disabled` does nothing at all."""

    def key(self) -> str | None:
        """The key, or the one that `wandb login` left for this server."""
        if self.api_key is not None:
            return self.api_key.get_secret_value()
        try:
            login = netrc.netrc().authenticators(urlsplit(self.base_url).hostname or "")
        except (OSError, netrc.NetrcParseError):
            return None
        return login[2] if login else None


def read_settings() -> WandbSettings:
    """The settings of this machine."""
    file = project_folder() / ".env"
    return WandbSettings(_env_file=file)  # type: ignore[call-arg]  # pydantic-settings takes it

"""How the agent travels: one file inside the create request, checked by its hash, started as process 1."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import io
import json
import zipfile
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING

from lab.rental import cost, naming
from lab.rental.agent_contract import PORT

if TYPE_CHECKING:
    from lab.rental.rental import Rental

MAIN = "import sys\nfrom agent.main import main\nsys.exit(main())\n"
LONG_AGO = (1980, 1, 1, 0, 0, 0)
START = """
import base64, hashlib, json, os, sys, tempfile
agent = base64.b64decode(sys.argv[2])
if hashlib.sha256(agent).hexdigest() != sys.argv[1]:
    sys.exit("the agent arrived damaged")
path = os.path.join(tempfile.gettempdir(), "lab-agent.pyz")
with open(path, "wb") as file:
    file.write(agent)
names = os.environ.get("LAB_SECRET_VARIABLES", "").split(",")
secrets = {name: os.environ.pop(name) for name in names if name in os.environ}
reading, writing = os.pipe()
os.write(writing, json.dumps(secrets).encode())
os.close(writing)
os.set_inheritable(reading, True)
os.environ["LAB_SECRETS_FD"] = str(reading)
os.execve(sys.executable, [sys.executable, path], os.environ)
"""
"""Replaces itself by the agent, so that the secrets which the cloud put there are in no process's environment."""


@cache
def archive() -> bytes:
    """The agent as one file that Python runs: the same bytes from the same code."""
    content = io.BytesIO()
    package = importlib.resources.files("lab.rental.agent")
    modules = sorted((item for item in package.iterdir() if item.name.endswith(".py")), key=lambda item: item.name)
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        packed.writestr(zipfile.ZipInfo("__main__.py", LONG_AGO), MAIN)
        for module in modules:
            entry = zipfile.ZipInfo(f"agent/{module.name}", LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, module.read_bytes())
    return content.getvalue()


def argv() -> tuple[str, ...]:
    """The machine's main process: a few lines of Python, the agent's hash, the agent."""
    agent = archive()
    return "python3", "-c", START, hashlib.sha256(agent).hexdigest(), base64.b64encode(agent).decode()


def environment(rental: Rental, nonce: str, mount_path: str) -> dict[str, str]:
    """Whose machine it is and how long it may live before anybody speaks to it; of the token only the hash."""
    facts, options = rental.facts, rental.options
    limit = facts.ready_seconds + facts.seconds + cost.COLLECT_SECONDS
    if facts.max_dollars and facts.max_dollars_per_hour:
        left = facts.max_dollars - cost.spent(facts, rental.now())
        limit = min(limit, left / facts.max_dollars_per_hour * cost.HOUR)
    return {
        naming.RUN: rental.run.id,
        naming.OWNER: rental.owner,
        naming.NONCE: nonce,
        naming.TOKEN_HASH: hashlib.sha256(rental.token.encode()).hexdigest(),
        "LAB_AGENT_PORT": str(PORT),
        "LAB_WORKSPACE": f"{mount_path}/lab",
        "LAB_LEASE_SECONDS": f"{options.lease_minutes * 60:.0f}",
        "LAB_LIMIT_SECONDS": f"{max(0.0, limit):.0f}",
        "LAB_SECRET_VARIABLES": ",".join(rental.provider.secret_variables),
        "LAB_SELF_STOP": json.dumps([asdict(way) for way in rental.provider.self_stop()]),
    }

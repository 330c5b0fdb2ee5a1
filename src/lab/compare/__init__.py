"""What may be said about two runs: what differs, which questions they answer together, and the figures."""

from __future__ import annotations

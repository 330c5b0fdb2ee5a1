"""Small real classes that stand in for machines, clouds and slow parts; each room appends its own."""

from __future__ import annotations

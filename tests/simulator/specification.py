"""The published specification as the judge of requests and of the simulator's own answers."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

FILE = Path(__file__).with_name("specification.json")
BASE = "urn:specification"
NEWER = ("cmd", "entrypoint", "gpu.minRamPerGpu", "gpu.minVcpuCountPerGpu", "pagination")
"""Fields that the service has gained since this edition of the document."""


@cache
def document() -> dict[str, Any]:
    """The whole document."""
    loaded: dict[str, Any] = json.loads(FILE.read_text())
    return loaded


@cache
def _registry() -> Registry[Any]:
    return Registry().with_resource(BASE, Resource(document(), DRAFT202012))


@cache
def _validator(pointer: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"{BASE}#{pointer}"}, registry=_registry())


def template(path: str) -> str | None:
    """The path of the document that a request's path is an instance of; fixed names win over parameters."""
    for pattern in sorted(document()["paths"], key=lambda known: known.count("{")):
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
            return str(pattern)
    return None


def methods(path_template: str) -> list[str]:
    """The methods that a path of the document supports."""
    return [name.upper() for name in document()["paths"][path_template] if name != "parameters"]


def request_faults(path_template: str, method: str, body: object) -> list[str]:
    """What is wrong with a request body, in the words of a validation error; empty when nothing is."""
    operation = document()["paths"][path_template][method.lower()]
    if "requestBody" not in operation:
        return []
    pointer = _pointer("paths", path_template, method.lower(), "requestBody", "content", "application/json", "schema")
    errors = _validator(pointer).iter_errors(_without_newer(body))
    return [f"{error.json_path}: {error.message}" for error in errors]


def answer_faults(path_template: str, method: str, status: int, content_type: str, body: object) -> list[str]:
    """Where an answer of ours differs from the document."""
    responses = document()["paths"][path_template][method.lower()]["responses"]
    key = str(status) if str(status) in responses else "default"
    place = ["paths", path_template, method.lower(), "responses", key]
    if "$ref" in responses[key]:
        place = responses[key]["$ref"][2:].split("/")
    content = _at(place).get("content", {})
    if not content:
        return [] if body is None else [f"{status} has a body where none belongs"]
    if content_type not in content:
        return [f"{status} is {content_type}, not {', '.join(content)}"]
    if content_type == "text/event-stream":
        return []
    errors = _validator(_pointer(*place, "content", content_type, "schema")).iter_errors(_without_newer(body))
    return [f"{status} {error.json_path}: {error.message}" for error in errors]


def _at(place: list[str]) -> dict[str, Any]:
    node: Any = document()
    for part in place:
        node = node[part]
    return dict(node)


def _pointer(*parts: str) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _without_newer(body: object) -> object:
    if not isinstance(body, dict):
        return body
    known = copy.deepcopy(body)
    for name in NEWER:
        node: Any = known
        *outer, last = name.split(".")
        for part in outer:
            node = node.get(part) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.pop(last, None)
    return known

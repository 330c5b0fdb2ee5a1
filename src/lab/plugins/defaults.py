"""What a part's options are when nobody says them, as plain values that can be shown."""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


class NoDefault(Enum):
    """Why an option has no default to show."""

    REQUIRED = "(required)"
    COMPUTED = "(computed from other options)"


def defaults(model: type[BaseModel]) -> dict[str, Any]:
    """Each option's default in JSON's types, or a `NoDefault`. Raises whatever the values do."""
    return {name: _default(field) for name, field in model.model_fields.items()}


def _default(field: FieldInfo) -> object:
    if field.is_required():
        return NoDefault.REQUIRED
    if getattr(field, "default_factory_takes_validated_data", False):  # since pydantic 2.10
        return NoDefault.COMPUTED
    default = field.get_default(call_default_factory=True)
    return json.loads(json.dumps(to_jsonable_python(default, fallback=str)))

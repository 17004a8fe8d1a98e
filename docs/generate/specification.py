"""What may be written into a job: every field of the spec, and what the API server refuses."""

from collections.abc import Iterator
from typing import Any, Final

from docs.generate.markdown import table
from rtj_api.rules import RULES
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_api.structural import Schema, structural

_WORDS: Final = {"integer": "number", "boolean": "true or false", "object": "map"}


def fields() -> str:
    """Fields with type, default and meaning; the pod template's own are Kubernetes'."""
    schema = structural(ResilientTrainingJobSpec, defaults=True)
    rows = list(_rows(schema, ""))
    return table(("field", "type", "default", "meaning"), rows)


def _rows(schema: Schema, path: str) -> Iterator[tuple[str, str, str, str]]:
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        at = f"{path}.{name}".removeprefix(".")
        optional = name not in required and "default" not in field
        if "properties" in field and optional:
            yield f"`{at}`", "map", "-", field["description"]
        if "properties" in field:
            yield from _rows(field, at)
        else:
            yield f"`{at}`", _type(field), _default(field, name in required), field["description"]


def _type(field: Schema) -> str:
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    kind: str = field["type"]
    word = _WORDS.get(kind, kind)
    if kind == "integer":
        return f"{word}, {field['minimum']} to {field['maximum']}"
    if "maxLength" in field:
        return f"{word}, at most {field['maxLength']} characters"
    return word


def _default(field: Schema, required: bool) -> str:
    if "default" not in field:
        return "required" if required else "-"
    value: Any = field["default"]
    return str(value).lower() if isinstance(value, bool) else str(value)


def refusals() -> str:
    """What the API server refuses at apply beside wrong types and unknown fields."""
    rows = [(f"`{rule.at}{rule.field_path}`".replace("`.", "`"), rule.message) for rule in RULES]
    return table(("field", "message"), rows)

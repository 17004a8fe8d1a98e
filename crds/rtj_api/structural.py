"""Pydantic's JSON schema of a model, made into the structural schema that a CRD must have.

Kubernetes takes neither `$ref` nor unions, and defaults an inner field only where its parent is
there: so references are put in place, `X | None` becomes an optional (or nullable) X, and every
parent whose fields all have defaults gets `default: {}`. What cannot be said fails loudly.
"""

import re
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import core_schema

Schema = dict[str, Any]

DROPPED: Final = frozenset({"title", "examples", "discriminator", "propertyNames", "$defs"})
KEPT: Final = frozenset(
    {
        "type",
        "format",
        "description",
        "enum",
        "required",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "pattern",
        "default",
        "nullable",
    }
)
STRUCTURE: Final = frozenset(
    {"$ref", "allOf", "anyOf", "const", "exclusiveMinimum", "exclusiveMaximum"}
    | {"items", "prefixItems", "properties", "additionalProperties"}
)


class UnsupportedSchema(ValueError):
    """A model says something that a CRD cannot."""


class _WithFactoryDefaults(GenerateJsonSchema):
    """Pydantic leaves the defaults of factories out; a CRD needs them on every parent."""

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        if "default_factory" not in schema:
            return super().get_default_value(schema)
        value: Any = schema["default_factory"]()  # type: ignore[call-arg]
        if isinstance(value, BaseModel):
            return value.model_dump(by_alias=True, exclude_defaults=True, mode="json")
        return value


def structural(model: type[BaseModel], *, defaults: bool) -> Schema:
    """Structural schema of a model.

    `defaults`: True for what users write: the server fills in what is left out, and null is
    refused. False for a status, which its writer completes: no defaults, null is allowed, and each
    map is its writer's as a whole.
    Raises UnsupportedSchema where a CRD has no words for the model.
    """
    mode: JsonSchemaMode = "validation"
    raw = model.model_json_schema(by_alias=True, mode=mode, schema_generator=_WithFactoryDefaults)
    return _Converter(raw.get("$defs", {}), defaults).convert(raw, model.__name__)


class _Converter:
    def __init__(self, definitions: Schema, defaults: bool) -> None:
        self._definitions = definitions
        self._defaults = defaults

    def convert(self, schema: Schema, where: str) -> Schema:
        schema = self._resolved(schema, where)
        for key in schema:
            if key not in KEPT | STRUCTURE | DROPPED and not key.startswith("x-kubernetes-"):
                raise UnsupportedSchema(f"{where}: {key} has no counterpart in a CRD")
        out = {
            key: value
            for key, value in schema.items()
            if key in KEPT or key.startswith("x-kubernetes-")
        }
        if "description" in out:
            out["description"] = _one_line(out["description"])
        if not self._defaults or out.get("default", ...) is None:
            out.pop("default", None)
        _bounds(schema, out)
        out |= self._children(schema, where)
        if "type" not in out and "x-kubernetes-int-or-string" not in out:
            raise UnsupportedSchema(f"{where}: has no single type")
        return out

    def _resolved(self, schema: Schema, where: str) -> Schema:
        """Put references in place and unwrap `X | None`; outer keys win over inner ones."""
        if "anyOf" in schema:
            arms = [arm for arm in schema["anyOf"] if arm != {"type": "null"}]
            if len(arms) != 1:
                raise UnsupportedSchema(f"{where}: only X | None may be a union")
            nullable = {} if self._defaults else {"nullable": True}
            outer = {k: v for k, v in schema.items() if k != "anyOf"}
            return self._resolved(arms[0] | outer, where) | nullable
        if "$ref" in schema:
            target = self._definitions[schema["$ref"].rsplit("/", 1)[-1]]
            outer = {k: v for k, v in schema.items() if k != "$ref"}
            return self._resolved(target | outer, where)
        if "allOf" in schema:
            raise UnsupportedSchema(f"{where}: allOf is not resolved by this generator")
        if "const" in schema:
            return {k: v for k, v in schema.items() if k != "const"} | {"enum": [schema["const"]]}
        return schema

    def _children(self, schema: Schema, where: str) -> Schema:
        out: Schema = {}
        if "prefixItems" in schema:
            raise UnsupportedSchema(f"{where}: a tuple of fixed length has no counterpart")
        if "properties" in schema:
            properties: Schema = schema["properties"]
            out["properties"] = {
                name: self.convert(value, f"{where}.{name}") for name, value in properties.items()
            }
        if "items" in schema:
            out["items"] = self.convert(schema["items"], f"{where}[]")
        values: Schema | bool = schema.get("additionalProperties", False)
        if values is True:
            out["x-kubernetes-preserve-unknown-fields"] = True
        elif values:
            out["additionalProperties"] = self.convert(values, f"{where}{{}}")
            if not self._defaults:
                # Server-side apply of an empty map leaves null of one that is merged by key.
                out["x-kubernetes-map-type"] = "atomic"
        return out


def _bounds(schema: Schema, out: Schema) -> None:
    """OpenAPI 3.0 says "exclusive" by a flag beside the bound."""
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.capitalize()}"
        if exclusive in schema:
            out |= {bound: schema[exclusive], exclusive: True}
    if schema.get("type") == "integer":
        out["format"] = "int64"


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()

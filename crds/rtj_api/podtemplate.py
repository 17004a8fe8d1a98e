"""The PodTemplateSpec schema that `spec.template` embeds, made from a Kubernetes server's own.

A CRD cannot refer to the server's types, and without their schema a misspelt field of the template
would be dropped in silence and `kubectl explain` would end at `template`. So the schema is taken
once from a server's `/openapi/v3/api/v1`, made structural and committed as data:

    python -m rtj_api.podtemplate --from-server https://127.0.0.1:6443/openapi/v3/api/v1
    python -m rtj_api.podtemplate --from-server api__v1_openapi.json
"""

import argparse
import json
import ssl
import urllib.request
from importlib import resources
from pathlib import Path
from typing import Any, Final

Schema = dict[str, Any]

KUBERNETES: Final = "v1.34"
DATA_FILE: Final = f"podtemplate-{KUBERNETES}.json"
ROOT: Final = "io.k8s.api.core.v1.PodTemplateSpec"
DESCRIPTION_LENGTH: Final = 120
FETCH_TIMEOUT_SECONDS: Final = 30

# What a structural schema may say; everything else of the server's document is left out.
KEPT: Final = frozenset(
    {
        "type",
        "format",
        "enum",
        "required",
        "nullable",
        "default",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
    }
)
INT_OR_STRING: Final[Schema] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}
STRING_MAP: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
# Of a template's metadata Kubernetes uses these two; names and times come from the operator.
METADATA: Final[Schema] = {
    "type": "object",
    "description": "Labels and annotations of the workers.",
    "properties": {
        "labels": STRING_MAP,
        "annotations": STRING_MAP,
        # `kubectl create --dry-run -o yaml` writes it as null, and people paste that.
        "creationTimestamp": {"type": "string", "format": "date-time", "nullable": True},
    },
}


def load() -> Schema:
    """The committed schema."""
    text = resources.files("rtj_api").joinpath("data", DATA_FILE).read_text(encoding="utf-8")
    return json.loads(text)


def from_openapi(document: Schema) -> Schema:
    """Structural schema of PodTemplateSpec; raises KeyError if the document has none."""
    schemas: Schema = document["components"]["schemas"]
    template = _structural(schemas[ROOT], schemas)
    template["properties"]["metadata"] = METADATA
    return template


def _structural(schema: Schema, schemas: Schema) -> Schema:
    if "$ref" in schema:
        return _structural(schemas[schema["$ref"].rsplit("/", 1)[-1]], schemas)
    if len(schema.get("allOf", ())) == 1:
        return _flattened(schema, schemas)
    # Quantities are a oneOf of string and number.
    if "oneOf" in schema or schema.get("format") == "int-or-string":
        return {**INT_OR_STRING, **_description(schema)}
    out = {key: value for key, value in schema.items() if key in KEPT}
    if out.get("default") in ({}, ""):
        del out["default"]
    out |= _children(schema, schemas) | _description(schema)
    if out.get("type") == "object" and not {"properties", "additionalProperties"} & out.keys():
        out["x-kubernetes-preserve-unknown-fields"] = True
    return _with_usable_keys(out)


def _flattened(schema: Schema, schemas: Schema) -> Schema:
    """`allOf` of one is how the server adds a description or default to a reference."""
    out = _structural(schema["allOf"][0], schemas) | _description(schema)
    if schema.get("default") not in (None, {}, ""):
        out["default"] = schema["default"]
    return out


def _children(schema: Schema, schemas: Schema) -> Schema:
    out: Schema = {}
    if "items" in schema:
        out["items"] = _structural(schema["items"], schemas)
    if "properties" in schema:
        properties: Schema = schema["properties"]
        out["properties"] = {k: _structural(v, schemas) for k, v in sorted(properties.items())}
    if isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = _structural(schema["additionalProperties"], schemas)
    return out


def _with_usable_keys(schema: Schema) -> Schema:
    """A list is a map only if its keys are required or have a default; the CRD rules say so."""
    if "x-kubernetes-list-map-keys" not in schema:
        return schema
    item = schema["items"]
    keys: list[str] = schema["x-kubernetes-list-map-keys"]
    if all(key in item.get("required", ()) or "default" in item["properties"][key] for key in keys):
        return schema
    out = {k: v for k, v in schema.items() if k != "x-kubernetes-list-map-keys"}
    return out | {"x-kubernetes-list-type": "atomic"}


def _description(schema: Schema) -> Schema:
    """First sentence: enough for `kubectl explain`, small enough for client-side apply."""
    text = " ".join(str(schema.get("description", "")).split())
    sentence = text.split(". ", 1)[0]
    if len(sentence) > DESCRIPTION_LENGTH:
        sentence = sentence[: DESCRIPTION_LENGTH - 3].rsplit(" ", 1)[0] + " ..."
    return {"description": sentence} if sentence else {}


def _fetch(source: str, ca_file: str | None, token: str | None) -> Schema:
    if not source.startswith("https://"):
        return json.loads(Path(source).read_text(encoding="utf-8"))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(source, headers=headers)
    context = ssl.create_default_context(cafile=ca_file)
    with urllib.request.urlopen(
        request, timeout=FETCH_TIMEOUT_SECONDS, context=context
    ) as response:
        return json.load(response)


def main() -> None:
    """Rewrite the committed schema."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--from-server", required=True, metavar="URL|FILE", dest="source")
    parser.add_argument("--ca-file", help="CA that signed the server's certificate")
    parser.add_argument("--token", help="bearer token")
    args = parser.parse_args()
    schema = from_openapi(_fetch(args.source, args.ca_file, args.token))
    target = Path(__file__).parent / "data" / DATA_FILE
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

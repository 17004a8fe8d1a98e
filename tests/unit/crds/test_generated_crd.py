"""The committed CRD is what the models say, stays small, and defaults as the models do."""

from pathlib import Path
from typing import Any

import pytest

from rtj_api import crd
from rtj_api.rules import RULES
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_api.status import ResilientTrainingJobStatus

ROOT = Path(__file__).parents[3]
SCHEMA: dict[str, Any] = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SPEC: dict[str, Any] = SCHEMA["properties"]["spec"]


def subschema(path: str) -> dict[str, Any]:
    schema = SCHEMA
    for part in path.strip(".").split("."):
        schema = schema["properties"][part]
    return schema


def with_defaults(schema: dict[str, Any], value: Any) -> Any:
    """What the API server makes of a value: parents first, then their children."""
    if not isinstance(value, dict):
        return value
    out = dict(value)
    for name, child in schema.get("properties", {}).items():
        if name not in out and "default" in child:
            out[name] = child["default"]
        if name in out and name != "template":
            out[name] = with_defaults(child, out[name])
    return out


@pytest.mark.parametrize("name", crd.COPIES)
def test_committed_file_is_what_the_generator_prints(name: str) -> None:
    committed = (ROOT / name).read_text(encoding="utf-8")
    assert committed == crd.render(), f"{name} is old: run `python -m rtj_api.crd --write .`"


def test_client_side_apply_can_keep_the_whole_object() -> None:
    assert crd.compact_size() < crd.SIZE_LIMIT_BYTES * 0.9


def test_a_second_generation_gives_the_same_bytes() -> None:
    assert crd.render() == crd.render()


def test_server_and_models_default_alike() -> None:
    written = {"nodes": 2, "instanceType": "cpu", "template": {"spec": {}}}
    want = ResilientTrainingJobSpec.model_validate(written).model_dump(
        by_alias=True, exclude_none=True
    )
    assert with_defaults(SPEC, written) == want


def test_half_written_parents_default_alike() -> None:
    written = {
        "nodes": 2,
        "instanceType": "cpu",
        "template": {"spec": {}},
        "storage": {"checkpoints": {"claimName": "a"}},
        "resilience": {"inJob": {"windowSeconds": 60}, "node": {}, "inProcess": {"enabled": False}},
    }
    want = ResilientTrainingJobSpec.model_validate(written).model_dump(
        by_alias=True, exclude_none=True
    )
    assert with_defaults(SPEC, written) == want


def test_status_has_no_defaults() -> None:
    def walk(schema: dict[str, Any]) -> None:
        assert "default" not in schema
        for child in schema.get("properties", {}).values():
            walk(child)

    walk(SCHEMA["properties"]["status"])


@pytest.mark.parametrize("column", crd.COLUMNS, ids=lambda column: column[0])
def test_each_column_prints_one_stored_value_of_its_type(column: tuple[str, str, str, int]) -> None:
    _, path, kind, _ = column
    if path.startswith(".metadata"):
        return
    assert subschema(path)["type"] == kind


@pytest.mark.parametrize("model", [ResilientTrainingJobSpec, ResilientTrainingJobStatus])
def test_every_string_list_and_map_of_ours_has_a_bound(model: type) -> None:
    part = "spec" if model is ResilientTrainingJobSpec else "status"
    unbounded: list[str] = []

    def walk(schema: dict[str, Any], where: str) -> None:
        if where == "spec.template":
            return
        kind = schema.get("type")
        if kind == "string" and not {"maxLength", "enum"} & schema.keys():
            unbounded.append(where)
        if kind == "array" and "maxItems" not in schema:
            unbounded.append(where)
        if "additionalProperties" in schema and "maxProperties" not in schema:
            unbounded.append(where)
        for name, child in schema.get("properties", {}).items():
            walk(child, f"{where}.{name}")
        for key in ("items", "additionalProperties"):
            if key in schema:
                walk(schema[key], f"{where}[]")

    walk(SCHEMA["properties"][part], part)
    assert unbounded == []


def test_every_rule_says_what_to_write_and_points_to_a_field() -> None:
    words = ("write", "remove", "name", "rename", "set")
    for rule in RULES:
        assert any(word in rule.message for word in words), rule.message
        assert rule.field_path.startswith("."), rule.rule


def test_template_reaches_the_leaves_with_descriptions() -> None:
    container = SPEC["properties"]["template"]["properties"]["spec"]["properties"]["containers"]
    image = container["items"]["properties"]["image"]
    assert image["type"] == "string"
    assert image["description"]

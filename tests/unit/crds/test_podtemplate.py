"""A server's OpenAPI document becomes a structural schema."""

from typing import Any

from rtj_api import podtemplate

QUANTITY = {"oneOf": [{"type": "string"}, {"type": "number"}], "description": "A quantity. More."}
DOCUMENT: dict[str, Any] = {
    "components": {
        "schemas": {
            podtemplate.ROOT: {
                "type": "object",
                "properties": {
                    "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}], "default": {}},
                    "spec": {"$ref": "#/components/schemas/Spec"},
                },
            },
            "Meta": {"type": "object", "properties": {"name": {"type": "string"}}},
            "Quantity": QUANTITY,
            "Spec": {
                "type": "object",
                "description": "First sentence. Second one.",
                "required": ["ports"],
                "properties": {
                    "memory": {
                        "allOf": [{"$ref": "#/components/schemas/Quantity"}],
                        "description": "How much. Truly.",
                    },
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["number", "protocol"],
                        "x-kubernetes-patch-strategy": "merge",
                        "items": {
                            "type": "object",
                            "required": ["number"],
                            "properties": {
                                "number": {"type": "integer", "format": "int32", "default": 0},
                                "protocol": {"type": "string", "default": "TCP"},
                            },
                        },
                    },
                    "loose": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["id"],
                        "items": {"type": "object", "properties": {"id": {"type": "string"}}},
                    },
                    "anything": {"type": "object"},
                },
            },
        }
    }
}
SPEC = podtemplate.from_openapi(DOCUMENT)["properties"]["spec"]


def test_references_are_in_place_with_the_first_sentence() -> None:
    assert SPEC["description"] == "First sentence"
    assert SPEC["required"] == ["ports"]


def test_quantities_are_int_or_string_with_their_own_description() -> None:
    memory = SPEC["properties"]["memory"]
    assert memory["x-kubernetes-int-or-string"] is True
    assert memory["description"] == "How much"


def test_list_keys_stay_where_required_or_defaulted_and_go_elsewhere() -> None:
    ports, loose = SPEC["properties"]["ports"], SPEC["properties"]["loose"]
    assert ports["x-kubernetes-list-map-keys"] == ["number", "protocol"]
    assert "x-kubernetes-patch-strategy" not in ports
    assert loose["x-kubernetes-list-type"] == "atomic"
    assert "x-kubernetes-list-map-keys" not in loose


def test_objects_without_fields_keep_what_is_written() -> None:
    assert SPEC["properties"]["anything"]["x-kubernetes-preserve-unknown-fields"] is True


def test_metadata_is_what_a_template_may_say_and_what_kubectl_pastes() -> None:
    metadata = podtemplate.from_openapi(DOCUMENT)["properties"]["metadata"]
    assert set(metadata["properties"]) == {"labels", "annotations", "creationTimestamp"}
    assert metadata["properties"]["creationTimestamp"]["nullable"] is True


def test_committed_schema_is_of_the_named_kubernetes_and_whole() -> None:
    pod = podtemplate.load()["properties"]["spec"]["properties"]
    assert {"containers", "tolerations", "resourceClaims", "hostUsers"} <= pod.keys()

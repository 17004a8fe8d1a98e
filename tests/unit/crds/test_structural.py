"""What the converter turns a model into, and that it refuses what a CRD cannot say."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from rtj_api.structural import UnsupportedSchema, structural


class Colour(StrEnum):
    RED = "Red"


class Inner(BaseModel):
    """Inner
    text."""

    size: Annotated[int, Field(gt=0)] = 3


class Outer(BaseModel):
    inner: Inner = Field(default_factory=Inner, description="Own words.")
    big: Inner = Field(default_factory=lambda: Inner(size=9))
    kind: Literal["only"] = "only"
    colour: Colour | None = None
    free: dict[str, Any] = Field(default_factory=dict[str, Any])
    counts: dict[str, int] = Field(default_factory=dict[str, int], max_length=4)


def properties(defaults: bool) -> dict[str, Any]:
    return structural(Outer, defaults=defaults)["properties"]


def test_parents_default_to_an_empty_object_and_children_to_their_values() -> None:
    inner = properties(defaults=True)["inner"]
    assert inner["default"] == {}
    assert inner["properties"]["size"]["default"] == 3


def test_a_factory_that_differs_defaults_to_the_difference() -> None:
    assert properties(defaults=True)["big"]["default"] == {"size": 9}


def test_field_description_wins_over_the_class_docstring() -> None:
    assert properties(defaults=True)["inner"]["description"] == "Own words."
    assert properties(defaults=True)["big"]["description"] == "Inner text."


def test_exclusive_bound_is_a_flag_beside_the_bound() -> None:
    size = properties(defaults=True)["inner"]["properties"]["size"]
    assert (size["minimum"], size["exclusiveMinimum"]) == (0, True)


def test_one_literal_is_an_enum_of_one() -> None:
    assert properties(defaults=True)["kind"]["enum"] == ["only"]


def test_optional_is_left_out_in_a_spec_and_nullable_in_a_status() -> None:
    assert "nullable" not in properties(defaults=True)["colour"]
    assert properties(defaults=False)["colour"]["nullable"] is True


def test_free_map_keeps_unknown_fields_and_typed_map_is_bounded() -> None:
    free, counts = properties(defaults=True)["free"], properties(defaults=True)["counts"]
    assert free["x-kubernetes-preserve-unknown-fields"] is True
    assert counts["additionalProperties"]["type"] == "integer"
    assert counts["maxProperties"] == 4


def test_a_map_of_a_status_is_its_writer_s_as_a_whole() -> None:
    assert properties(defaults=False)["counts"]["x-kubernetes-map-type"] == "atomic"
    assert "x-kubernetes-map-type" not in properties(defaults=True)["counts"]


class Union(BaseModel):
    value: int | str


class Pair(BaseModel):
    value: tuple[int, str]


class Anything(BaseModel):
    value: Any


@pytest.mark.parametrize(
    ("model", "want"),
    [
        pytest.param(Union, "Union.value: only X | None may be a union", id="union of two types"),
        pytest.param(Pair, "Pair.value: a tuple of fixed length", id="tuple of fixed length"),
        pytest.param(Anything, "Anything.value: has no single type", id="anything at all"),
    ],
)
def test_what_a_crd_cannot_say_fails_loudly(model: type[BaseModel], want: str) -> None:
    with pytest.raises(UnsupportedSchema, match=want.replace("|", r"\|")):
        structural(model, defaults=True)

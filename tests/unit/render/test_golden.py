"""A change of what is rendered is seen as a change of a manifest, and read by a person."""

import pytest

from tests.unit.render import golden


@pytest.mark.parametrize("instance_type", golden.INSTANCE_TYPES)
def test_manifests_are_the_golden_ones(instance_type: str) -> None:
    want = golden.path(instance_type).read_text(encoding="utf-8")
    assert golden.text(instance_type) == want, (
        "read the difference; if it is meant: python -m tests.unit.render.golden --write"
    )

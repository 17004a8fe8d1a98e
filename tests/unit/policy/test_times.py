"""Times as status holds them."""

import pytest

from rtj_operator.policy.times import rfc3339, unix


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(0.0, "1970-01-01T00:00:00Z", id="the epoch"),
        pytest.param(1_800_000_000.9, "2027-01-15T08:00:00Z", id="fractions are cut"),
    ],
)
def test_rfc3339(given: float, want: str) -> None:
    assert rfc3339(given) == want
    assert unix(want) == int(given)


def test_other_text_is_refused() -> None:
    with pytest.raises(ValueError, match="isoformat"):
        unix("yesterday")

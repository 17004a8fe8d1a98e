"""The zone that all pods share."""

from typing import Any

import pytest

from rtj_api.reasons import ConditionType, Phase, Reason
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod
from rtj_operator.policy.observation import ClaimObservation
from tests.unit.policy import build

CLAIM = {"claimName": "fsx"}


def claim(**fields: Any) -> ClaimObservation:
    return ClaimObservation(**({"name": "fsx", "exists": True, "bound": True} | fields))


@pytest.mark.parametrize(
    ("storage", "found", "want_reason", "want_zone"),
    [
        pytest.param({}, None, Reason.ZONE_NOT_NEEDED, "", id="no claim, no zone"),
        pytest.param({"zone": "a"}, None, Reason.ZONE_RESOLVED, "a", id="zone of the spec"),
        pytest.param(
            {"checkpoints": CLAIM},
            claim(zones=("b",)),
            Reason.ZONE_RESOLVED,
            "b",
            id="zone of the volume",
        ),
        pytest.param(
            {"checkpoints": CLAIM, "zone": "b"},
            claim(zones=("a", "b")),
            Reason.ZONE_RESOLVED,
            "b",
            id="one of the volume's zones",
        ),
        pytest.param(
            {"checkpoints": CLAIM}, claim(), Reason.ZONE_NOT_NEEDED, "", id="volume without a zone"
        ),
        pytest.param(
            {"checkpoints": CLAIM},
            claim(bound=False, waits_for_consumer=True),
            Reason.ZONE_NOT_NEEDED,
            "",
            id="claim that binds at the first pod",
        ),
    ],
)
def test_the_job_starts(
    storage: dict[str, Any], found: ClaimObservation | None, want_reason: Reason, want_zone: str
) -> None:
    decision = decide(build.observation(build.spec(storage=storage), claim=found))
    condition = decision.status.conditions[0]
    assert (condition.type, condition.reason) == (ConditionType.ZONE_RESOLVED, want_reason)
    assert {pod.zone for pod in build.actions(decision, CreatePod)} == {want_zone}


@pytest.mark.parametrize(
    ("storage", "found", "want_reason", "want_texts"),
    [
        pytest.param(
            {"checkpoints": CLAIM}, None, Reason.CLAIM_NOT_BOUND, ("fsx",), id="claim not read yet"
        ),
        pytest.param(
            {"checkpoints": CLAIM},
            claim(exists=False),
            Reason.CLAIM_MISSING,
            ("fsx", "claimName", "create it"),
            id="claim does not exist",
        ),
        pytest.param(
            {"checkpoints": CLAIM},
            claim(bound=False, message="no volume fits"),
            Reason.CLAIM_NOT_BOUND,
            ("fsx", "no volume fits"),
            id="claim is not bound",
        ),
        pytest.param(
            {"checkpoints": CLAIM, "zone": "c"},
            claim(zones=("a", "b")),
            Reason.STORAGE_ZONE_MISMATCH,
            ("spec.storage.zone", "a, b"),
            id="volume lies elsewhere",
        ),
    ],
)
def test_the_job_waits(
    storage: dict[str, Any],
    found: ClaimObservation | None,
    want_reason: Reason,
    want_texts: tuple[str, ...],
) -> None:
    seen = build.observation(build.spec(storage=storage), claim=found)
    decision, again = build.after(seen)
    assert decision.actions == ()
    assert (decision.status.phase, decision.status.reason) == (Phase.PENDING, want_reason)
    assert all(text in decision.status.message for text in want_texts)
    assert decide(again).status == decision.status
    arrived = build.observation(
        build.spec(storage={"checkpoints": CLAIM}), decision.status, claim=claim(zones=("a",))
    )
    assert decide(arrived).status.run == 1, "goes on when the claim appears"


def test_a_claim_that_vanishes_while_training_stops_nothing() -> None:
    spec = build.spec(storage={"checkpoints": CLAIM})
    _, started = build.after(build.observation(spec, claim=claim(zones=("a",))))
    decision = decide(build.running(spec, started.job.status, claim=claim(exists=False)))
    assert decision.status.phase is Phase.RUNNING

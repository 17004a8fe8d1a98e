"""A standby coordinator: wanted, kept, and promoted on the workers' word."""

from dataclasses import replace
from typing import Any

import pytest

from rtj_api.ladder import FaultClass, Rung
from rtj_api.messages import JobView, WorkerView
from rtj_api.reasons import ConditionType, EventReason, Reason
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod, DeletePod, EnsureChildren, SendDirective
from rtj_operator.policy.observation import Observation
from tests.unit.policy import build
from tests.unit.policy.build import NOW

SPEC = build.spec(resilience={"coordinator": {"standby": True}})


def standby_view(*workers: WorkerView) -> JobView:
    """What the standby of incarnation 1 hears of the coordinator."""
    return JobView(coordinator_incarnation=1, standby=True, workers=workers)


def says(slot: int, silent: float, **fields: Any) -> WorkerView:
    """A worker that the standby hears, and what it heard of the first."""
    return build.worker(
        slot, slot, obeys_incarnation=0, coordinator_silent_seconds=silent, **fields
    )


def pods() -> tuple[Any, ...]:
    """Workers, the coordinator and its standby."""
    standby = build.coordinator(1, node="n2", ip="10.0.0.9")
    return (build.pod(0), build.pod(1), build.pod(2), build.coordinator(), standby)


def trains(**fields: Any) -> Observation:
    """The job in steady state with its standby."""
    status = decide(build.observation(SPEC)).status
    for present in (pods()[:4], pods()):
        status = decide(build.running(SPEC, status, pods=present)).status
    return build.running(SPEC, status, **({"pods": pods()} | fields))


LOST: dict[str, Any] = {"view_connected": False, "view_lost_seconds": 2.5}
BOTH_LOST_IT = standby_view(says(0, 2.4), says(1, 2.3))


def test_a_standby_is_made_once_the_first_exists() -> None:
    first, seen = build.after(build.observation(SPEC))
    made = [p for p in build.actions(first, CreatePod) if p.role == "coordinator"]
    assert [(p.incarnation, p.standby) for p in made] == [(0, False)]
    second = decide(replace(seen, pods=(build.coordinator(),)))
    made = [p for p in build.actions(second, CreatePod) if p.role == "coordinator"]
    assert [(p.incarnation, p.standby) for p in made] == [(1, True)]


def test_both_coordinators_are_told_and_workers_learn_of_the_standby() -> None:
    sent = build.actions(decide(trains()), SendDirective)
    assert [(s.standby, s.directive.active) for s in sent] == [(False, True), (True, False)]
    assert sent[0].directive.standby_host == "10.0.0.9"
    assert sent[0].directive.standby_incarnation == 1
    assert sent[1].directive.pods == sent[0].directive.pods


def test_a_coordinator_that_neither_operator_nor_workers_hear_is_replaced_by_its_standby() -> None:
    seen = trains(**LOST, standby_view=BOTH_LOST_IT, standby_connected=True)
    decision, again = build.after(seen)
    status = decision.status
    assert status.coordinator.incarnation == 1
    assert status.run == 2
    assert status.incarnations == {}, "workers stay"
    assert status.recovery is not None
    assert (status.recovery.fault_class, status.recovery.rung) == (
        FaultClass.CONTROL_LOST,
        Rung.GANG,
    )
    (ensure,) = build.actions(decision, EnsureChildren)
    assert ensure.coordinator_incarnation == 1
    made = [p for p in build.actions(decision, CreatePod) if p.role == "coordinator"]
    assert [(p.incarnation, p.standby) for p in made] == [(2, True)], "no wait for a new pod"
    assert [d.uid for d in build.actions(decision, DeletePod)] == ["coordinator-0"]
    assert EventReason.COORDINATOR_REPLACED in build.told(decision)
    assert decide(again).status == status


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            LOST
            | {"standby_view": standby_view(says(0, 0.2), says(1, 0.3)), "standby_connected": True},
            id="only the operator is cut off",
        ),
        pytest.param(
            LOST
            | {"standby_view": standby_view(says(0, 2.4), says(1, 0.1)), "standby_connected": True},
            id="one worker still hears it",
        ),
        pytest.param(
            LOST | {"standby_view": standby_view(), "standby_connected": True},
            id="the standby hears nobody",
        ),
        pytest.param(
            LOST | {"standby_view": BOTH_LOST_IT, "standby_connected": False},
            id="the standby's view is old",
        ),
        pytest.param(
            {"standby_view": BOTH_LOST_IT, "standby_connected": True},
            id="the operator still hears the first",
        ),
        pytest.param(
            LOST
            | {
                "standby_view": standby_view(
                    says(0, 9.0, silent_seconds=9.0), says(1, 9.0, silent_seconds=9.0)
                ),
                "standby_connected": True,
            },
            id="the standby does not hear the workers itself",
        ),
    ],
)
def test_without_the_word_of_most_workers_nothing_happens(fields: dict[str, Any]) -> None:
    decision = decide(trains(**fields))
    assert decision.status.coordinator.incarnation == 0
    assert decision.status.run == 1
    assert build.actions(decision, DeletePod) == []


def test_a_coordinator_whose_container_ended_is_replaced_by_its_standby_too() -> None:
    ended = build.coordinator(phase="Failed")
    seen = trains(pods=(*pods()[:3], ended, pods()[4]), **LOST, standby_connected=True)
    assert decide(seen).status.coordinator.incarnation == 1


def test_a_lost_standby_is_made_anew_and_costs_nothing() -> None:
    gone = trains(pods=pods()[:4])
    decision = decide(gone)
    made = [p for p in build.actions(decision, CreatePod) if p.role == "coordinator"]
    assert [(p.incarnation, p.standby) for p in made] == [(2, True)]
    assert decision.status.restarts.summary == "0/0/0/0/0"
    assert decision.status.recovery is None
    degraded = next(c for c in decision.status.conditions if c.type == ConditionType.DEGRADED)
    assert degraded.reason == Reason.STANDBY_MISSING


def test_a_standby_that_ends_again_and_again_is_not_made_without_pause() -> None:
    ended = build.coordinator(1, node="n2", phase="Failed", created=NOW - 5)
    decision = decide(trains(pods=(*pods()[:4], ended)))
    assert [p for p in build.actions(decision, CreatePod) if p.role == "coordinator"] == []
    assert decision.wake_after_seconds is not None
    assert decision.wake_after_seconds <= 25


def test_without_it_in_the_spec_no_standby_is_kept() -> None:
    status = trains().job.status
    decision = decide(build.running(build.spec(), status, pods=pods()))
    assert decision.status.coordinator.standby_incarnation == 0
    assert [d.uid for d in build.actions(decision, DeletePod)] == ["coordinator-1"]

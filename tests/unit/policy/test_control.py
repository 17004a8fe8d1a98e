"""Coordinator and nvrx-control."""

from typing import Any

import pytest

from rtj_api.reasons import Reason
from rtj_api.status import CoordinatorStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod, DeletePod, EnsureChildren
from rtj_operator.policy.plan import changed
from tests.unit.policy import build


def seen_with(coordinator: Any, **fields: Any) -> Any:
    pods = (build.pod(0), build.pod(1), build.pod(2), *coordinator)
    return build.running(pods=pods, **fields)


@pytest.mark.parametrize(
    "coordinator",
    [
        pytest.param((), id="gone"),
        pytest.param((build.coordinator(deleting=True),), id="being deleted"),
        pytest.param((build.coordinator(phase="Failed"),), id="failed"),
        pytest.param((build.coordinator(disruption="EvictionByEvictionAPI"),), id="being evicted"),
    ],
)
def test_a_lost_coordinator_is_replaced_and_a_new_run_starts_in_place(coordinator: Any) -> None:
    decision, again = build.after(seen_with(coordinator))
    assert decision.status.coordinator.incarnation == 1
    assert decision.status.run == 2
    assert decision.status.restarts.summary == "0/0/0/0/1"
    assert decision.status.incarnations == {}, "workers stay"
    assert build.actions(decision, EnsureChildren) == [EnsureChildren(coordinator_incarnation=1)]
    made = build.actions(decision, CreatePod)
    assert [(p.role, p.incarnation) for p in made] == [("coordinator", 1)]
    assert decide(again).status == decision.status


def test_its_predecessor_goes() -> None:
    status = build.running_status(coordinator=CoordinatorStatus(incarnation=1, seen=True))
    both = (build.coordinator(0), build.coordinator(1))
    decision = decide(seen_with(both, status=status, view=None))
    assert [d.name for d in build.actions(decision, DeletePod)] == ["demo-coordinator-0"]


@pytest.mark.parametrize(
    ("fields", "want", "want_wake"),
    [
        pytest.param({"view_connected": True}, 0, None, id="its view still arrives: it lives"),
        pytest.param(
            {"view_connected": False, "view_lost_seconds": 30.0}, 1, None, id="no view for long"
        ),
        pytest.param(
            {"view": None, "view_connected": False, "view_lost_seconds": 6.0},
            0,
            10.0,
            id="no view yet: a while first",
        ),
    ],
)
def test_a_coordinator_on_an_unready_node(
    fields: dict[str, Any], want: int, want_wake: float | None
) -> None:
    nodes = build.nodes("n0", "n1", "n2") | {"c": build.node("c", ready="Unknown")}
    decision = decide(seen_with((build.coordinator(),), nodes=nodes, **fields))
    assert decision.status.coordinator.incarnation == want
    if want == 0:
        assert decision.wake_after_seconds == want_wake


def test_no_view_alone_replaces_nothing() -> None:
    seen = seen_with((build.coordinator(),), view=None, view_connected=False, view_lost_seconds=900)
    decision = decide(seen)
    want = changed(
        seen.job.status,
        conditions=decision.status.conditions,
        reason=Reason.COORDINATOR_UNHEARD,
        message=decision.status.message,
    )
    assert decision.status == want


def test_a_coordinator_never_seen_is_made_again_under_its_name() -> None:
    _, started = build.after(build.observation())
    decision = decide(build.observation(status=started.job.status, pods=(build.pod(0),)))
    made = [p for p in build.actions(decision, CreatePod) if p.role == "coordinator"]
    assert [p.incarnation for p in made] == [0]
    assert decision.status.run == 1


def test_one_that_never_comes_up_fails_the_job() -> None:
    status = build.running_status()
    for _ in range(8):
        dead = build.coordinator(status.coordinator.incarnation, phase="Failed")
        status = decide(seen_with((dead,), status=status, view=None)).status
    assert status.phase == "Failed"
    assert status.reason == "NoProgress"

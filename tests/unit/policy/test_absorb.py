"""Each report and each lost pod is taken in once, by whoever tells it first."""

from typing import Any

import pytest

from rtj_api.ladder import Rung
from rtj_api.messages import TerminationMessage
from rtj_api.status import CoordinatorStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod, DeletePod
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def test_a_report_is_absorbed_once() -> None:
    seen = build.running(view=build.view(faults=(build.fault("exit", 7),)))
    decision, again = build.after(seen)
    assert decision.status.coordinator.absorbed_fault == 7
    assert decision.status.restarts.summary == "0/1/0/0/0"
    assert decide(again).status == decision.status


def test_reports_wait_behind_one_that_cannot_be_judged_yet() -> None:
    silent = (build.worker(0, 0), build.worker(1, -1, connected=False), build.worker(2, 1))
    faults = (build.fault("worker", 1), build.fault("exit", 2, slot=0, round=1))
    seen = build.running(view=build.view(workers=silent, faults=faults))
    decision = decide(seen)
    assert decision.status.coordinator.absorbed_fault == 0
    assert decision.status.recovery is None
    assert decision.wake_after_seconds == 2.0


def test_reports_of_a_restarted_coordinator_process_are_absorbed() -> None:
    status = build.running_status(coordinator=CoordinatorStatus(absorbed_fault=9, seen=True))
    decision = decide(build.running(status=status, view=build.view(faults=(build.fault("exit"),))))
    assert decision.status.coordinator.absorbed_fault == 1
    assert decision.status.restarts.in_job == 1


def test_reports_that_fell_off_the_list_are_counted_by_the_counters() -> None:
    view = build.view(
        faults=(build.fault("exception", 70),), in_process_restarts=70, in_job_restarts=0
    )
    decision = decide(build.running(view=view))
    assert decision.status.restarts.summary == "70/0/0/0/0"
    assert decision.status.coordinator.absorbed_in_process == 70


def test_a_fault_that_grew_into_a_lost_pod_is_acted_on() -> None:
    _, seen = build.after(build.running(view=build.view(faults=(build.fault("exit"),))))
    silent = (build.worker(0, 0), build.worker(1, -1, connected=False), build.worker(2, 1))
    pods = (build.pod(0), build.pod(1, phase="Failed"), build.pod(2), build.coordinator())
    grown = build.view(workers=silent, faults=(build.fault("worker", 1),))
    decision = decide(build.running(status=seen.job.status, pods=pods, view=grown))
    assert decision.status.restarts.summary == "0/0/1/0/0", "one fault, its graver name"
    assert decision.status.incarnations == {"1": 1}


@pytest.mark.parametrize(
    ("pod", "view", "want_rung", "want_wake"),
    [
        pytest.param(
            {"phase": "Failed"},
            {},
            None,
            2.0,
            id="a pod that was connected: the coordinator will tell more",
        ),
        pytest.param(
            {"phase": "Failed"},
            {"workers": (build.worker(0, 0), build.worker(2, -1))},
            Rung.POD,
            None,
            id="a pod that never connected",
        ),
        pytest.param(
            {"containers": (build.terminated(1),)},
            {"workers": (build.worker(0, 0), build.worker(2, -1))},
            Rung.POD,
            None,
            id="a pod that only a sidecar keeps running",
        ),
        pytest.param(
            {
                "containers": (build.terminated(0),),
                "termination": TerminationMessage(run=1, position=1, outcome="finished"),
            },
            {"workers": (build.worker(0, 0), build.worker(2, -1))},
            None,
            None,
            id="a trainer that reached the end of training beside a sidecar",
        ),
        pytest.param({"deleting": True}, {}, Rung.POD, None, id="a pod being deleted"),
        pytest.param(
            {"disruption": "TerminationByKubelet"}, {}, Rung.NODE, None, id="a pod being evicted"
        ),
    ],
)
def test_lost_pods(
    pod: dict[str, Any], view: dict[str, Any], want_rung: Rung | None, want_wake: float | None
) -> None:
    pods = (build.pod(0), build.pod(1, **pod), build.pod(2), build.coordinator())
    decision = decide(build.running(pods=pods, view=build.view(**view)))
    recovery = decision.status.recovery
    assert (recovery.rung if recovery else None) == want_rung
    if want_wake is not None:
        assert decision.wake_after_seconds == want_wake


def test_a_node_that_only_the_cluster_calls_unready_is_left_alone() -> None:
    nodes = build.nodes("n0", "n2", "c") | {"n1": build.node("n1", ready="Unknown")}
    seen = build.running(nodes=nodes, now=NOW + 20)
    decision, again = build.after(seen)
    assert decision.status.recovery is None
    assert decide(again).status.recovery is None


def test_without_a_view_an_unready_node_is_given_up_after_a_while() -> None:
    nodes = build.nodes("n0", "n2", "c") | {"n1": build.node("n1", ready="Unknown")}
    blind: dict[str, Any] = {"nodes": nodes, "view": None, "view_connected": False}
    first, seen = build.after(build.running(**blind, view_lost_seconds=6.0))
    assert first.status.recovery is None
    assert first.wake_after_seconds == 10.0
    later = build.running(status=seen.job.status, now=NOW + 10, **blind)
    recovery = decide(later).status.recovery
    assert recovery is not None
    assert recovery.rung is Rung.NODE


def test_a_pod_that_was_seen_and_is_gone_gets_the_next_name() -> None:
    pods = (build.pod(0), build.pod(2), build.coordinator())
    decision = decide(build.running(pods=pods))
    assert [(p.slot, p.incarnation) for p in build.actions(decision, CreatePod)] == [(1, 1)]


def test_a_pod_that_was_never_seen_is_made_again_under_its_name() -> None:
    _, started = build.after(build.observation())
    decision = decide(build.observation(status=started.job.status, pods=(build.pod(0),)))
    workers = [p for p in build.actions(decision, CreatePod) if p.role == "worker"]
    assert [(p.slot, p.incarnation) for p in workers] == [(1, 0), (2, 0)]


def test_a_lost_spare_is_replaced_and_training_does_not_notice() -> None:
    pods = (build.pod(0), build.pod(1), build.pod(2, phase="Failed"), build.coordinator())
    report = build.fault("worker", slot=2, pod_uid="worker-2-0", position=-1, rank=-1)
    decision = decide(build.running(pods=pods, view=build.view(faults=(report,))))
    assert decision.status.recovery is None
    assert decision.status.phase == "Running"
    assert decision.status.restarts.summary == "0/0/1/0/0"
    assert [(p.slot, p.incarnation) for p in build.actions(decision, CreatePod)] == [(2, 1)]
    assert build.actions(decision, DeletePod) == [], "its log stays readable"


def test_a_spare_beyond_the_budget_is_left_out_until_the_window_has_passed() -> None:
    none: dict[str, Any] = {"pod": {"limit": 0}, "node": {"limit": 0}, "gang": {"limit": 0}}
    pods = (build.pod(0), build.pod(1), build.pod(2, phase="Failed"), build.coordinator())
    report = build.fault("worker", slot=2, pod_uid="worker-2-0", position=-1, rank=-1)
    view = build.view(faults=(report,))
    decision, again = build.after(build.running(build.spec(resilience=none), pods=pods, view=view))
    assert decision.status.phase == "Running"
    assert build.actions(decision, CreatePod) == []
    assert decide(again).status == decision.status
    assert decision.wake_after_seconds is not None

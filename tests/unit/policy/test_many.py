"""Many workers lost in one break: one recovery, paid for once, told in few words."""

from dataclasses import replace
from typing import Any

import pytest

from rtj_api.ladder import FaultClass, Rung
from rtj_api.messages import FaultReport
from rtj_api.reasons import ConditionType, EventReason, Phase, Reason
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import Decision, EmitEvent, TaintNode
from rtj_operator.policy.observation import Observation, PodObservation
from tests.unit.policy import build, crowd
from tests.unit.policy.build import NOW


def spent(decision: Decision) -> dict[Rung, int]:
    return {rung: len(times) for rung, times in decision.status.windows.items()}


def hit(lost: int, *, spec: dict[str, Any] | None = None, **fields: Any) -> Observation:
    """That many nodes not ready, each with its worker's report."""
    slots = range(lost)
    view = crowd.view(silent=slots, faults=crowd.losses(slots))
    around: dict[str, Any] = {"nodes": crowd.nodes(unready=slots), "view": view}
    return crowd.steady(crowd.spec(**(spec or {})), **(around | fields))


@pytest.mark.parametrize(
    ("lost", "want_excluded"), [(1, 1), (2, 2), (12, 12), (17, 17), (21, 21), (31, 31)]
)
def test_one_break_is_one_recovery_however_many_it_takes(lost: int, want_excluded: int) -> None:
    decision, again = build.after(hit(lost))
    status = decision.status
    assert status.phase is Phase.RECOVERING
    assert (status.run, status.restarts.summary) == (1, "0/0/0/1/0")
    assert spent(decision) == {Rung.NODE: 1}
    assert len(status.incarnations) == lost
    assert len(status.nodes.excluded) == want_excluded
    assert status.coordinator.absorbed_fault == lost
    assert len(build.actions(decision, EmitEvent)) <= 9
    assert decide(again).status == status


@pytest.mark.parametrize("lost", [32, 40, 63])
@pytest.mark.parametrize("unready", [False, True])
def test_half_or_more_lost_at_once_gives_nothing_up(lost: int, unready: bool) -> None:
    """Neither while their nodes look ready, nor when the cluster does not hear them either."""
    slots = range(lost)
    around: dict[str, Any] = {"nodes": crowd.nodes(unready=slots if unready else ())}
    decision, seen = build.after(hit(lost, **around))
    for at in range(2, 300, 20):
        decision, seen = build.after(replace(seen, now=NOW + at))
        assert decision.status.phase is Phase.RECOVERING
        assert decision.status.incarnations == {}
        assert decision.status.nodes.excluded == ()
        assert spent(decision) == {}
        assert build.actions(decision, TaintNode) == []
    degraded = next(c for c in decision.status.conditions if c.type == ConditionType.DEGRADED)
    assert degraded.reason == Reason.NODES_UNREACHABLE


def test_a_wave_that_opens_the_breaker_late_acquits_its_first_nodes() -> None:
    """Thirty are judged before the others fall silent; none of them stays excluded."""
    _, seen = build.after(hit(30, nodes=crowd.nodes()))
    first, seen = build.after(replace(seen, now=NOW + 2))
    assert len(first.status.nodes.excluded) == 30
    slots = range(50)
    view = crowd.view(silent=slots, faults=crowd.losses(slots))
    decision = decide(replace(seen, view=view, now=NOW + 3))
    assert decision.status.nodes.excluded == ()
    assert len(decision.status.incarnations) == 30


def test_lost_pods_are_replaced_in_spite_of_the_breaker_where_others_are_free() -> None:
    """Two witnesses call them dead, and there is somewhere to go; no node is accused for it."""
    decision = decide(hit(40, matching_nodes=120, matching_nodes_bad=40))
    assert len(decision.status.incarnations) == 40
    assert decision.status.nodes.excluded == ()


def test_events_of_one_kind_are_told_together() -> None:
    decision = decide(hit(12))
    events = build.actions(decision, EmitEvent)
    assert [e.message.partition("; the first: ")[0] for e in events] == ["12 at once"] * 4
    assert {e.reason for e in events} == {
        EventReason.FAULT_DETECTED,
        EventReason.NODE_EXCLUDED,
        EventReason.NODE_TAINTED,
        EventReason.POD_REPLACED,
    }
    few = build.actions(decide(hit(2)), EmitEvent)
    assert len([e for e in few if e.reason is EventReason.POD_REPLACED]) == 2


def test_a_break_beyond_the_budget_is_one_new_run() -> None:
    status = decide(hit(12, spec={"resilience": {"node": {"limit": 0}}})).status
    assert (status.run, status.restarts.summary) == (2, "0/0/0/0/1")
    assert len(status.incarnations) == len(status.nodes.excluded) == 12


def test_a_graver_loss_of_the_same_break_is_one_more_rung() -> None:
    pods = tuple(_ended(pod) if pod.slot < 2 else pod for pod in hit(4).pods)
    nodes = crowd.nodes(unready=(2, 3))
    decision = decide(hit(4, pods=pods, nodes=nodes))
    assert spent(decision) == {Rung.POD: 1, Rung.NODE: 1}
    assert [e.name for e in decision.status.nodes.excluded] == ["n2", "n3"]


def test_a_fault_that_counts_is_not_free_because_an_eviction_came_first() -> None:
    pods = tuple(
        replace(p, disruption="EvictionByEvictionAPI") if p.name == "demo-worker-0-0" else p
        for p in hit(3).pods
    )
    decision = decide(hit(3, pods=pods, nodes=crowd.nodes(unready=(1, 2))))
    assert spent(decision) == {Rung.NODE: 1}
    recovery = decision.status.recovery
    assert recovery is not None
    assert recovery.fault_class is FaultClass.NODE_LOST


def _ended(pod: PodObservation) -> PodObservation:
    return replace(pod, phase="Failed") if pod.role == "worker" else pod


def test_a_pod_that_fails_again_and_again_in_one_recovery_costs_each_time() -> None:
    _, seen = build.after(hit(2, nodes=crowd.nodes(unready=(0, 1))))
    for incarnation in (1, 2, 3):
        new = build.pod(1, incarnation, created=NOW + incarnation, phase="Failed", node="n9")
        back = build.pod(0, 1, created=NOW, node="n8")
        pods = (*(p for p in seen.pods if p.slot > 1 or p.role == "coordinator"), back, new)
        _, seen = build.after(replace(seen, pods=pods, now=NOW + 10 * incarnation))
    assert seen.job.status.windows[Rung.POD] == tuple(
        f"2027-01-15T08:00:{seconds}Z" for seconds in (10, 20, 30)
    )


@pytest.mark.parametrize("recovered", [None, 3.0])
def test_a_break_that_a_new_leader_hears_of_late_is_one_recovery_too(
    recovered: float | None,
) -> None:
    """Spares took all the places while nobody led."""
    spec = crowd.spec(spares=12)
    slots = range(12)
    reports = tuple(_over(r, recovered) for r in crowd.losses(slots))
    base = crowd.steady(spec)
    workers = (
        *(build.worker(slot, -1, connected=False) for slot in slots),
        *(build.worker(slot, slot) for slot in range(12, 64)),
        *(build.worker(64 + position, position) for position in slots),
    )
    view = crowd.view(workers=workers, faults=reports, round=1, step=30)
    nodes = crowd.nodes(76, unready=slots)
    decision, again = build.after(replace(base, view=view, nodes=nodes))
    assert decision.status.run == 1
    assert spent(decision) == {Rung.NODE: 1}
    assert len(decision.status.incarnations) == 12
    assert len(decision.status.nodes.excluded) == 12
    assert decision.status.phase is Phase.RUNNING
    assert len(decision.status.history) == 1
    assert decide(again).status == decision.status


def _over(report: FaultReport, seconds: float | None) -> FaultReport:
    return build.fault(
        "worker",
        report.number,
        slot=report.slot,
        pod_uid=report.pod_uid,
        position=report.position,
        rank=report.rank,
        recovered_seconds=seconds,
        resumed_step=10,
    )


def test_spares_lost_together_cost_once_and_none_of_it_is_the_workers() -> None:
    spares = range(64, 76)
    spec = crowd.spec(spares=12)
    reports = tuple(
        build.fault("worker", n, slot=s, pod_uid=f"worker-{s}-0", position=-1, rank=-1)
        for n, s in enumerate(spares, 1)
    )
    view = crowd.view(
        workers=(
            *(build.worker(slot, slot) for slot in range(64)),
            *(build.worker(slot, -1, connected=False) for slot in spares),
        ),
        faults=reports,
    )
    seen = crowd.steady(spec, view=view, nodes=crowd.nodes(76, unready=spares))
    decision = decide(seen)
    assert decision.status.phase is Phase.RUNNING
    assert spent(decision) == {Rung.NODE: 1}
    assert len(decision.status.incarnations) == 12
    assert len(decision.status.history) == 1


@pytest.mark.parametrize("count", [8, 31])
def test_silent_workers_are_judged_side_by_side(count: int) -> None:
    slots = range(count)
    view = crowd.view(silent=slots, faults=crowd.losses(slots))
    first, seen = build.after(crowd.steady(view=view))
    assert first.status.incarnations == {}
    assert len(first.status.pending) >= count
    assert first.wake_after_seconds == 2.0
    then = decide(replace(seen, now=NOW + 2))
    assert len(then.status.incarnations) == count
    assert spent(then) == {Rung.NODE: 1}
    assert then.status.run == 1


def test_workers_that_were_silent_together_and_came_back_cost_once() -> None:
    reports = tuple(_over(r, None) for r in crowd.losses(range(crowd.SIZE)))
    silent = crowd.view(silent=range(crowd.SIZE), faults=reports)
    _, seen = build.after(crowd.steady(view=silent))
    back = crowd.view(faults=tuple(_over(r, 9.0) for r in reports), round=1, step=30)
    for at in (8, 11):
        decision, seen = build.after(replace(seen, view=back, now=NOW + at))
    assert spent(decision) == {Rung.IN_JOB: 1}
    assert decision.status.restarts.summary == "0/1/0/0/0"
    assert decision.status.phase is Phase.RUNNING
    assert decision.status.incarnations == {}

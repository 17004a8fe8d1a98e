"""Pods that die on one node again and again, refusals by its kubelet, and displacements."""

from dataclasses import replace
from typing import Any

from rtj_api.ladder import FaultClass, Rung
from rtj_api.status import ResilientTrainingJobStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import Decision
from rtj_operator.policy.incident import budgets
from rtj_operator.policy.observation import PodObservation
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def lose_pod(
    status: ResilientTrainingJobStatus, n: int, **pod: Any
) -> tuple[Decision, ResilientTrainingJobStatus]:
    """The pod of slot 1 is lost for the nth time, its next one runs on the same node and trains."""
    incarnation = status.incarnations.get("1", 0)
    now, step = NOW + 60 * n, 20 * n + 20
    others = (build.pod(0), build.pod(2), build.coordinator())
    lost: PodObservation = build.pod(1, incarnation, created=now - 30, **pod)
    view = build.view(
        step=step, workers=(build.worker(0, 0), build.worker(1, -1, incarnation, connected=False))
    )
    decision = decide(build.running(status=status, pods=(*others, lost), view=view, now=now))
    # Judged for two seconds, then trained on.
    later = build.running(status=decision.status, pods=(*others, lost), view=view, now=now + 3)
    decision = decide(later)
    back = build.pod(1, decision.status.incarnations.get("1", 0), created=now + 5)
    trains = build.running(
        status=decision.status,
        pods=(*others, back),
        view=build.view(step=step + 10, workers=(build.worker(0, 0), build.worker(1, 1))),
        now=now + 20,
    )
    return decision, decide(trains).status


def test_pods_that_die_on_one_node_strike_it_out() -> None:
    status = build.running_status()
    for n in range(4):
        _, status = lose_pod(status, n, phase="Failed", containers=(build.terminated(1),))
    assert [e.name for e in status.nodes.excluded] == ["n1"]
    assert status.nodes.excluded[0].suspicion == "Faults"


def test_a_kubelet_that_refuses_twice_is_left_and_the_script_pays_nothing() -> None:
    refused: dict[str, Any] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    first, status = lose_pod(build.running_status(), 0, **refused)
    assert first.status.last_fault is not None
    assert first.status.last_fault.fault_class is FaultClass.ADMISSION_FAILED
    assert status.nodes.excluded == (), "a kubelet that restarts does so once"
    _, status = lose_pod(status, 1, **refused)
    assert [e.name for e in status.nodes.excluded] == ["n1"]
    assert Rung.POD not in status.windows
    assert status.restarts_without_progress == 0


def test_evictions_blame_nobody_until_there_are_too_many() -> None:
    """A program that fills its disk is evicted wherever it runs."""
    given = build.spec(resilience={"displaced": {"limit": 3}, "node": {"limit": 2}})
    status = build.running_status()
    for n in range(14):
        incarnation = status.incarnations.get("1", 0)
        pods = (
            build.pod(0),
            build.pod(1, incarnation, phase="Failed", reason="Evicted", created=NOW + n),
            build.pod(2),
            build.coordinator(),
        )
        seen = build.running(given, status, pods=pods, now=NOW + 20 * n, view=build.view(step=50))
        silent = tuple(
            build.worker(1, -1, incarnation, connected=False) if w.slot == 1 else w
            for w in build.view().workers
        )
        status = decide(replace(seen, view=build.view(step=50 + n, workers=silent))).status
    assert len(status.displacements) == 3
    assert len(status.windows[Rung.NODE]) == 2
    assert status.nodes.excluded == ()


def test_budgets_grow_with_the_job() -> None:
    small = build.plan(build.running())
    assert budgets.limit_of(small, small.limits(Rung.POD)) == 10
    given = build.spec(nodes=1000)
    status = build.running_status()
    status = status.model_copy(
        update={"workers": status.workers.model_copy(update={"desired": 1000})}
    )
    large = build.plan(build.running(given, status))
    assert budgets.limit_of(large, large.limits(Rung.POD)) == 20
    strict = build.spec(nodes=1000, resilience={"pod": {"limit": 0}})
    plan = build.plan(build.running(strict, status))
    assert budgets.limit_of(plan, plan.limits(Rung.POD)) == 0

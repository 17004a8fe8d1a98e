"""Which worker pods should exist."""

from dataclasses import replace
from typing import Any

import pytest

from rtj_api.status import ExcludedNode
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod, DeletePod
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.wanted import worker_pods
from tests.unit.policy import build


def test_the_next_incarnation_is_above_status_and_every_live_pod() -> None:
    pods = (build.pod(0), build.pod(1, 5, deleting=True))
    plan = worker_pods.next_incarnations(build.plan(build.running(pods=pods)), (1,))
    assert plan.status.incarnations == {"1": 6}
    assert plan.status.awaited == (1,)


@pytest.mark.parametrize(
    ("old", "want"),
    [
        pytest.param((build.pod(1),), ["demo-worker-1-0"], id="one that runs goes"),
        pytest.param((build.pod(1, deleting=True),), [], id="one that goes already is left"),
        pytest.param((build.pod(1, phase="Failed"),), [], id="the newest that failed stays"),
        pytest.param(
            (build.pod(1, phase="Failed"), build.pod(1, 1, phase="Failed")),
            ["demo-worker-1-0"],
            id="an older one that failed goes",
        ),
        pytest.param((build.pod(1, phase="Succeeded"),), ["demo-worker-1-0"], id="a finished goes"),
    ],
)
def test_superseded_pods(old: tuple[PodObservation, ...], want: list[str]) -> None:
    status = build.running_status(incarnations={"1": 2})
    pods = (build.pod(0), build.pod(1, 2), build.pod(2), build.coordinator(), *old)
    decision = decide(build.running(status=status, pods=pods))
    assert [d.name for d in build.actions(decision, DeletePod)] == want


def test_a_pod_whose_node_object_is_gone_is_deleted_by_force() -> None:
    status = build.running_status(incarnations={"1": 1})
    stuck = build.pod(1, deleting=True, node="gone")
    pods = (build.pod(0), build.pod(1, 1), build.pod(2), build.coordinator(), stuck)
    decision = decide(build.running(status=status, pods=pods))
    assert build.actions(decision, DeletePod) == [
        DeletePod(name="demo-worker-1-0", uid="worker-1-0", force=True)
    ]


def test_new_pods_stay_off_excluded_nodes() -> None:
    status = build.running_status()
    out = tuple(
        ExcludedNode(name=name, uid=uid, since="2027-01-15T08:00:00Z")
        for name, uid in (("n1", "n1-uid"), ("n2", "uid of a former machine"), ("n8", "any"))
    )
    status = status.model_copy(
        update={
            "nodes": status.nodes.model_copy(update={"excluded": out}),
            "incarnations": {"1": 1},
            "awaited": (1,),
        }
    )
    pods = (build.pod(0), build.pod(2), build.coordinator())
    made = build.actions(decide(build.running(status=status, pods=pods)), CreatePod)
    assert [pod.excluded_nodes for pod in made] == [("n1",)]


def test_a_surplus_slot_goes_only_while_it_is_a_spare() -> None:
    fewer = build.spec(spares=0)
    spare = decide(build.running(fewer))
    assert [d.name for d in build.actions(spare, DeletePod)] == ["demo-worker-2-0"]
    taken = build.view(workers=(build.worker(0, 0), build.worker(1, -1), build.worker(2, 1)))
    member = decide(build.running(fewer, view=taken))
    assert build.actions(member, DeletePod) == []


def test_more_spares_are_made_at_once() -> None:
    decision = decide(build.running(build.spec(spares=2)))
    assert [(p.slot, p.incarnation) for p in build.actions(decision, CreatePod)] == [(3, 1)]
    assert decision.status.recovery is None


HOLDS = build.view(workers=(build.worker(0, 0), build.worker(1, -1), build.worker(2, 1)))


@pytest.mark.parametrize(
    ("left", "view", "want_made", "want_deleted"),
    [
        pytest.param(None, {}, [(2, 1)], [], id="its pod is gone"),
        pytest.param({"deleting": True}, {}, [(2, 1)], [], id="its pod is on its way out"),
        pytest.param({}, {}, [(2, 1)], ["worker-2-0"], id="its deletion is not seen yet"),
        pytest.param({}, {"view": HOLDS}, [], [], id="it trains and was never let go"),
    ],
)
def test_a_spare_that_was_given_up_and_is_wanted_again_was_not_lost(
    left: dict[str, Any] | None,
    view: dict[str, Any],
    want_made: list[tuple[int, int]],
    want_deleted: list[str],
) -> None:
    _, fewer = build.after(build.running(build.spec(spares=0), **view))
    assert fewer.job.status.slots == 2
    spare = () if left is None else (build.pod(2, **left),)
    pods = (build.pod(0), build.pod(1), *spare, build.coordinator())
    decision, again = build.after(build.running(status=fewer.job.status, pods=pods, **view))
    made = build.actions(decision, CreatePod)
    assert [(p.slot, p.incarnation) for p in made] == want_made
    assert [d.uid for d in build.actions(decision, DeletePod)] == want_deleted
    assert (decision.status.history, decision.status.last_fault) == ((), None)
    assert decide(again).status == decision.status


def test_a_name_that_an_earlier_job_s_dead_pod_holds_is_passed_over() -> None:
    """Deleted and applied again: its old pod is Terminating on a dead node for as long as that."""
    _, seen = build.after(build.observation())
    held = replace(seen, occupied={1: 3}, coordinator_occupied=0)
    decision, again = build.after(held)
    made = build.actions(decision, CreatePod)
    assert [(p.role, p.slot, p.incarnation) for p in made] == [
        ("coordinator", 0, 1),
        ("worker", 0, 0),
        ("worker", 1, 4),
        ("worker", 2, 0),
    ]
    assert decide(again).status == decision.status


def test_a_child_that_cannot_be_read_is_told_and_holds_nothing_up() -> None:
    pods = (build.pod(0), build.pod(1, phase="Failed"), build.pod(2), build.coordinator())
    problems = {"NetworkPolicy/demo-ingress": "403 Forbidden"}
    told = decide(build.running(child_problems=problems)).status
    degraded = next(c for c in told.conditions if c.type == "Degraded")
    assert (degraded.reason, "403" in degraded.message) == ("ChildUnreadable", True)
    _, seen = build.after(build.running(child_problems=problems, pods=pods, view=None))
    assert seen.job.status.incarnations == {"1": 1}

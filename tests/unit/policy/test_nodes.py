"""Nodes a job keeps away from."""

from typing import Any

import pytest

from rtj_api.names import TAINT_FAULTY
from rtj_api.reasons import EventReason
from rtj_api.status import EXCLUDED_MAX, ExcludedNode, ResilientTrainingJobStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod, DeletePod, ReleaseNode, TaintNode
from rtj_operator.policy.nodes import exclusion as nodes
from tests.unit.policy import build
from tests.unit.policy.build import NOW

OURS = (TAINT_FAULTY, "job-uid", "NoSchedule")


def excluded(*entries: ExcludedNode) -> ResilientTrainingJobStatus:
    status = build.running_status()
    return status.model_copy(
        update={"nodes": status.nodes.model_copy(update={"excluded": entries})}
    )


def entry(name: str = "n9", **fields: Any) -> ExcludedNode:
    values = {
        "name": name,
        "uid": f"{name}-uid",
        "reason": "silent",
        "since": "2027-01-15T08:00:00Z",
    }
    return ExcludedNode.model_validate(values | fields)


def cluster(**fields: Any) -> dict[str, Any]:
    return {"nodes": build.nodes("n0", "n1", "n2", "c") | {"n9": build.node("n9", **fields)}}


@pytest.mark.parametrize(
    ("remediation", "node", "want_entry", "want_taints", "want_told"),
    [
        pytest.param("enforce", {}, (False, False), 0, [], id="a beat alone taints nothing"),
        pytest.param(
            "enforce",
            {"ready": "Unknown"},
            (True, True),
            1,
            [EventReason.NODE_TAINTED],
            id="the cluster confirms: tainted",
        ),
        pytest.param(
            "observe",
            {"ready": "Unknown"},
            (True, False),
            0,
            [EventReason.NODE_TAINTED],
            id="observe: told, not done",
        ),
        pytest.param(
            "enforce",
            {"ready": "Unknown", "uid": "of another machine"},
            (True, False),
            0,
            [],
            id="another machine under the old name is not touched",
        ),
    ],
)
def test_confirmation(
    remediation: str,
    node: dict[str, Any],
    want_entry: tuple[bool, bool],
    want_taints: int,
    want_told: list[EventReason],
) -> None:
    spec = build.spec(remediation=remediation)
    decision, again = build.after(build.running(spec, excluded(entry()), **cluster(**node)))
    (got,) = decision.status.nodes.excluded
    assert (got.confirmed, got.tainted) == want_entry
    assert len(build.actions(decision, TaintNode)) == want_taints
    assert build.told(decision) == want_told
    assert build.told(decide(again)) == [], "told once"


def test_a_node_deleted_from_the_cluster_is_confirmed_and_nothing_is_tainted() -> None:
    decision = decide(build.running(status=excluded(entry())))
    (got,) = decision.status.nodes.excluded
    assert (got.confirmed, got.tainted) == (True, False)
    assert build.actions(decision, TaintNode) == []


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param({"ready": "False"}, 1, id="missing"),
        pytest.param({"ready": "False", "taints": (OURS,)}, 0, id="there already"),
        pytest.param({"ready": "True"}, 0, id="node is well again: an admin took it off"),
    ],
)
def test_a_reserved_taint_is_put_on_until_it_is_there(node: dict[str, Any], want: int) -> None:
    status = excluded(entry(confirmed=True, tainted=True))
    decision = decide(build.running(status=status, **cluster(**node)))
    assert len(build.actions(decision, TaintNode)) == want


def test_a_node_that_is_well_for_a_stable_period_is_released_in_two_steps() -> None:
    status = excluded(entry(confirmed=True, tainted=True))
    tainted, bare = cluster(taints=(OURS,)), cluster()
    first, seen = build.after(build.running(status=status, **tainted))
    assert first.status.nodes.excluded[0].tainted
    later: dict[str, Any] = {"now": NOW + 600}
    second, seen = build.after(build.running(status=seen.job.status, **later, **tainted))
    assert not second.status.nodes.excluded[0].tainted
    assert build.actions(second, ReleaseNode) == [ReleaseNode(name="n9", uid="n9-uid")]
    third = decide(build.running(status=seen.job.status, **later, **bare))
    assert third.status.nodes.excluded == ()
    assert build.told(third) == [EventReason.NODE_RELEASED]


@pytest.mark.parametrize(
    ("suspicion", "seconds", "want"),
    [
        pytest.param("Silence", 599, ["n9"], id="was silent, not long ago"),
        pytest.param("Silence", 600, [], id="was silent, training has been stable since"),
        pytest.param("Faults", 3599, ["n9"], id="its faults still count"),
        pytest.param("Faults", 3600, [], id="its faults have left the window"),
    ],
)
def test_suspicion_passes_with_time(suspicion: str, seconds: int, want: list[str]) -> None:
    _, seen = build.after(build.running(status=excluded(entry(suspicion=suspicion)), **cluster()))
    later = build.running(status=seen.job.status, now=NOW + seconds, **cluster())
    assert [e.name for e in decide(later).status.nodes.excluded] == want


def test_a_suspect_is_used_again_where_nothing_else_is_free() -> None:
    """Last, and not before a dead node would be called not ready."""
    since = "2027-01-15T07:59:00Z"
    status = excluded(entry(suspicion="Silence", since=since)).model_copy(
        update={"incarnations": {"1": 1}}
    )
    waits = build.pod(
        1,
        1,
        phase="Pending",
        node="",
        created=NOW - 30,
        unschedulable="Unschedulable: 0/4 nodes",
        excluded_nodes=("n9",),
    )
    pods = (build.pod(0), waits, build.pod(2), build.coordinator())
    early = build.running(status=status, pods=pods, now=NOW - 5, **cluster())
    assert [e.name for e in decide(early).status.nodes.excluded] == ["n9"]
    decision = decide(build.running(status=status, pods=pods, **cluster()))
    assert decision.status.nodes.excluded == ()
    assert decision.status.incarnations == {"1": 2}
    assert EventReason.NODE_RELEASED in build.told(decision)


@pytest.mark.parametrize(
    ("tainted", "want_gone"),
    [
        pytest.param(0, "m0", id="the oldest goes"),
        pytest.param(2, "m2", id="the oldest that holds no taint of ours"),
        pytest.param(EXCLUDED_MAX, "n1", id="with taints on all nobody goes, nor comes"),
    ],
)
def test_exclusions_are_bounded_and_no_taint_is_forgotten(tainted: int, want_gone: str) -> None:
    names = [f"m{i}" for i in range(EXCLUDED_MAX)]
    many = excluded(
        *(entry(n, confirmed=i < tainted, tainted=i < tainted) for i, n in enumerate(names))
    )
    seen = build.running(status=many, nodes=build.nodes("n0", "n1", "n2", "c", *names))
    plan = nodes.exclude(build.plan(seen), "n1", "why", "Silence")
    kept = [e.name for e in plan.status.nodes.excluded]
    assert kept == [n for n in (*names, "n1") if n != want_gone]
    told = plan.events[-1].message
    assert ("is not excluded" in told) is (want_gone == "n1")


def test_the_exclusion_of_a_node_that_is_gone_goes_even_if_it_was_tainted() -> None:
    names = [f"m{i}" for i in range(EXCLUDED_MAX)]
    many = excluded(*(entry(n, confirmed=True, tainted=True) for n in names))
    seen = build.running(status=many, nodes=build.nodes("n0", "n1", "n2", "c", *names[:-1]))
    plan = nodes.exclude(build.plan(seen), "n1", "why", "Silence")
    assert [e.name for e in plan.status.nodes.excluded] == [*names[:-1], "n1"]


NOT_READY = ("node.kubernetes.io/not-ready", "", "NoSchedule")
UNREACHABLE = ("node.kubernetes.io/unreachable", "", "NoSchedule")


@pytest.mark.parametrize(
    ("node", "given", "want"),
    [
        pytest.param({}, [], ["n9"], id="healthy: only the pod's words keep it off"),
        pytest.param({"uid": "other"}, [], [], id="another machine under the old name"),
        pytest.param(None, [], [], id="gone"),
        pytest.param({"taints": (NOT_READY,)}, [], [], id="not ready: a taint keeps pods off"),
        pytest.param({"taints": (UNREACHABLE,)}, [], [], id="unreachable: likewise"),
        pytest.param({"taints": (OURS,)}, [], [], id="our taint: likewise"),
        pytest.param(
            {"taints": ((NOT_READY[0], "", "NoExecute"),)}, [], ["n9"], id="an effect we tolerate"
        ),
        pytest.param(
            {"taints": (("nvidia.com/gpu", "", "NoSchedule"),)}, [], ["n9"], id="a taint of others"
        ),
        pytest.param(
            {"taints": (OURS,)}, [{"operator": "Exists"}], ["n9"], id="the template tolerates all"
        ),
        pytest.param(
            {"taints": (NOT_READY,)},
            [{"key": NOT_READY[0], "operator": "Exists", "effect": "NoSchedule"}],
            ["n9"],
            id="the template tolerates this one",
        ),
        pytest.param(
            {"taints": (OURS,)},
            [{"key": TAINT_FAULTY, "value": "another job"}],
            [],
            id="the template tolerates another value",
        ),
    ],
)
def test_new_pods_name_only_nodes_that_nothing_else_keeps_them_off(
    node: dict[str, Any] | None, given: list[dict[str, str]], want: list[str]
) -> None:
    spec = build.spec(template={"spec": {"containers": [], "tolerations": given}})
    around = cluster(**node) if node is not None else {}
    plan = build.plan(build.running(spec, excluded(entry(confirmed=True)), **around))
    assert list(nodes.excluded_names(plan)) == want


WAITS: dict[str, Any] = {
    "phase": "Pending",
    "node": "",
    "unschedulable": "Unschedulable: 0/4 nodes",
    "excluded_nodes": ("n1", "n2"),
}


@pytest.mark.parametrize(
    ("fields", "given", "want"),
    [
        pytest.param({}, ("n1",), True, id="one that it avoids is excluded no more"),
        pytest.param({}, ("n1", "n2"), False, id="it avoids what is excluded"),
        pytest.param({}, ("n0", "n1", "n2"), False, id="one more is excluded since"),
        pytest.param({"excluded_nodes": ()}, ("n1",), False, id="it avoids none"),
        pytest.param({"phase": "Running", "node": "n0"}, (), False, id="it runs"),
        pytest.param({"node": "n0"}, (), False, id="it starts on a node"),
        pytest.param({"unschedulable": ""}, (), False, id="the scheduler has not looked yet"),
        pytest.param({"created": NOW - 4}, (), False, id="it has not waited long"),
        pytest.param({"deleting": True}, (), False, id="it is on its way out"),
    ],
)
def test_pods_that_keep_off_a_node_in_vain(
    fields: dict[str, Any], given: tuple[str, ...], want: bool
) -> None:
    status = excluded(*(entry(name) for name in given))
    plan = build.plan(build.running(status=status))
    pod = build.pod(1, **(WAITS | fields))
    after, in_vain = nodes.kept_off_in_vain(plan, pod)
    assert in_vain is want
    assert after.wakes == ((NOW + 6,) if "created" in fields else ())


def test_a_worker_that_waits_in_vain_is_made_anew_as_nobodys_fault() -> None:
    pods = (build.pod(0), build.pod(1), build.pod(2, **WAITS), build.coordinator())
    decision, again = build.after(build.running(pods=pods))
    made = [(p.slot, p.incarnation, p.excluded_nodes) for p in build.actions(decision, CreatePod)]
    assert made == [(2, 1, ())]
    assert [d.name for d in build.actions(decision, DeletePod)] == ["demo-worker-2-0"]
    assert decision.status.recovery is None
    assert decision.status.restarts.summary == "0/0/0/0/0"
    assert decide(again).status == decision.status


def test_so_is_a_coordinator_and_the_run_stays() -> None:
    pods = (build.pod(0), build.pod(1), build.pod(2), build.coordinator(**WAITS))
    decision, again = build.after(build.running(pods=pods, view=None, view_connected=False))
    made = [(p.role, p.incarnation) for p in build.actions(decision, CreatePod)]
    assert made == [("coordinator", 1)]
    assert [d.name for d in build.actions(decision, DeletePod)] == ["demo-coordinator-0"]
    assert (decision.status.run, decision.status.restarts.summary) == (1, "0/0/0/0/0")
    assert decide(again).status == decision.status

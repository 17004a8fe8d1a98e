"""So many that look bad at once that something else is to blame."""

from dataclasses import replace
from typing import Any

import pytest

from rtj_api.ladder import Rung
from rtj_api.reasons import ConditionType, EventReason, Phase, Reason
from rtj_api.status import ExcludedNode
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import DeletePod
from rtj_operator.policy.observation import Observation
from rtj_operator.policy.signals import breaker
from tests.unit.policy import build, crowd
from tests.unit.policy.build import NOW
from tests.unit.policy.test_nodes import entry, excluded


@pytest.mark.parametrize(
    ("others", "matching", "want"),
    [
        pytest.param((), (9, 0), False, id="one bad node"),
        pytest.param(("n0",), (9, 0), True, id="two of three"),
        pytest.param((), (4, 3), True, id="most of the cluster's matching nodes"),
        pytest.param((), (1, 1), False, id="a single bad node is never too many"),
    ],
)
def test_breaker(others: tuple[str, ...], matching: tuple[int, int], want: bool) -> None:
    plan = build.plan(
        build.running(
            status=excluded(*(entry(name) for name in (*others, "n1"))),
            matching_nodes=matching[0],
            matching_nodes_bad=matching[1],
        )
    )
    assert breaker.breaker_open(plan) is want


def test_exclusions_long_ago_do_not_open_the_breaker() -> None:
    old = entry("n0", since="2027-01-15T07:54:00Z")
    status = excluded(old, entry("n1"))
    assert not breaker.breaker_open(build.plan(build.running(status=status)))


def test_a_coordinator_that_hears_nobody_accuses_no_node() -> None:
    nobody = (build.worker(0, -1, connected=False), build.worker(1, -1, connected=False))
    assert breaker.breaker_open(build.plan(build.running(view=build.view(workers=nobody))))


# --- an operator that is cut off ---

LOST: dict[str, Any] = {"view_connected": False, "view_lost_seconds": 11.0}
NEW_LEADER: dict[str, Any] = {"view": None, "view_connected": False}
ALL = {name: build.node(name, ready="Unknown") for name in ("n0", "n1", "n2", "c")}
# Two workers and the coordinator of this job, but most nodes of the cluster are well.
OWN = ALL | build.nodes("n2")


def later(seen: Observation, seconds: float) -> Observation:
    """The same world at NOW + seconds, after a pass at NOW and one each ten seconds."""
    for at in (*range(0, int(seconds), 10), seconds):
        _, seen = build.after(replace(seen, now=NOW + at))
    return seen


@pytest.mark.parametrize("view", [pytest.param(LOST, id="lost"), pytest.param(NEW_LEADER, id="no")])
@pytest.mark.parametrize(
    ("nodes", "cluster_bad", "seconds", "want_held"),
    [
        pytest.param(ALL, 20, 20, True, id="all nodes, after UNREADY_SECONDS"),
        pytest.param(ALL, 20, 3590, True, id="all nodes, for as long as a start may take"),
        pytest.param(ALL, 20, 3620, False, id="all nodes, for ever"),
        pytest.param(OWN, 3, 290, True, id="most of the job's nodes, for a while"),
        pytest.param(OWN, 3, 330, False, id="most of the job's nodes, for ever"),
        pytest.param(build.nodes("n0", "n1", "n2"), 1, 20, False, id="the coordinator's is gone"),
    ],
)
def test_pods_on_nodes_that_are_not_ready_are_not_given_up_unheard(
    view: dict[str, Any], nodes: dict[str, Any], cluster_bad: int, seconds: int, want_held: bool
) -> None:
    around: dict[str, Any] = {"matching_nodes": 20, "matching_nodes_bad": cluster_bad}
    seen = later(build.running(nodes=nodes, **around, **view), seconds)
    decision = decide(seen)
    assert (decision.status.phase is Phase.RUNNING) is want_held
    assert (decision.status.run == 1) is want_held
    assert (build.actions(decision, DeletePod) == []) is want_held
    degraded = next(c for c in decision.status.conditions if c.type == ConditionType.DEGRADED)
    assert (degraded.reason == Reason.NODES_UNREACHABLE) is want_held
    if want_held:
        assert decision.wake_after_seconds is not None
        assert decision.wake_after_seconds <= breaker.BREAKER_SECONDS
        assert decide(seen).status == seen.job.status, "nothing is written meanwhile"


def test_it_is_told_once_and_over_when_a_view_arrives() -> None:
    blind: dict[str, Any] = {"nodes": ALL, "matching_nodes": 4, "matching_nodes_bad": 4}
    seen = later(build.running(**blind, **NEW_LEADER), 9)
    first, seen = build.after(replace(seen, now=NOW + 10))
    assert build.told(first) == [EventReason.FAULT_DETECTED]
    again, seen = build.after(replace(seen, now=NOW + 20))
    assert build.told(again) == []
    heard = decide(replace(seen, view=build.view(), view_connected=True, now=NOW + 30))
    assert [entry.signal for entry in heard.status.pending] == ["Breaker"]
    assert heard.status.restarts.summary == "0/0/0/0/0"
    degraded = next(c for c in heard.status.conditions if c.type == ConditionType.DEGRADED)
    assert degraded.reason == Reason.HEALTHY


@pytest.mark.parametrize(
    ("free", "want"),
    [
        pytest.param(0, {}, id="nowhere to go: it is kept"),
        pytest.param(9, {"1": 1}, id="others are free: it is replaced"),
    ],
)
def test_a_worker_that_view_and_cluster_call_lost(free: int, want: dict[str, int]) -> None:
    silent = (build.worker(0, 0), build.worker(1, -1, connected=False), build.worker(2, 1))
    report = build.fault("worker")
    decision = decide(
        build.running(
            nodes=ALL,
            matching_nodes=4 + free,
            matching_nodes_bad=4,
            view=build.view(workers=silent, faults=(report,)),
        )
    )
    assert decision.status.incarnations == want
    assert decision.status.nodes.excluded == ()


# --- a coordinator that is cut off ---


def test_a_coordinator_that_hears_nobody_is_not_believed_at_once() -> None:
    deaf = crowd.view(silent=range(crowd.SIZE), faults=crowd.losses(range(crowd.SIZE)))
    seen = later(crowd.steady(view=deaf), 50)
    assert seen.job.status.phase is Phase.RECOVERING
    assert seen.job.status.incarnations == {}
    back = decide(replace(seen, view=crowd.view(silent=range(1, 64), faults=deaf.faults)))
    assert back.status.incarnations == {}, "who speaks again is given time anew"
    end = later(seen, 60).job.status
    assert end.incarnations == {}, "it is the coordinator that is cut off"
    assert end.coordinator.incarnation == 1
    assert end.nodes.excluded == ()
    assert end.restarts.summary == "0/0/0/0/1"
    assert end.recovery is not None
    assert end.recovery.rung is Rung.GANG


# --- many workers, no view ---


@pytest.mark.parametrize(
    ("unready", "view", "seconds", "want_replaced"),
    [
        pytest.param(17, LOST, 0, 0, id="none of them yet"),
        pytest.param(17, LOST, 11, 17, id="all of them after UNREADY_SECONDS"),
        pytest.param(64, NEW_LEADER, 60, 0, id="a new leader that sees all nodes not ready"),
    ],
)
def test_many_workers_on_nodes_that_are_not_ready(
    unready: int, view: dict[str, Any], seconds: int, want_replaced: int
) -> None:
    seen = crowd.steady(nodes=crowd.nodes(unready=range(unready)), **view)
    status = later(seen, seconds).job.status
    assert len(status.incarnations) == want_replaced
    assert status.phase is not Phase.FAILED
    assert status.run == 1
    assert sum(len(times) for times in status.windows.values()) <= 1


@pytest.mark.parametrize("count", [17, 64])
def test_clocks_of_healthy_nodes_stop_nobody_else_s(count: int) -> None:
    names = [f"x{i}" for i in range(count)]
    entries: list[ExcludedNode] = [entry(name, confirmed=True) for name in names]
    base = crowd.steady(nodes=crowd.nodes() | build.nodes(*names))
    status = base.job.status.model_copy(update={"nodes": excluded(*entries).nodes})
    _, seen = build.after(replace(base, job=replace(base.job, status=status)))

    gone = tuple(p for p in seen.pods if p.slot != 5 or p.role != "worker")
    assert decide(replace(seen, pods=gone)).status.phase is Phase.RECOVERING

    suspended = decide(replace(seen, job=replace(seen.job, spec=crowd.spec(suspend=True))))
    assert suspended.status.phase is Phase.SUSPENDING

    silent = crowd.view(silent=(3,), faults=crowd.losses((3,)))
    assert decide(replace(seen, view=silent)).status.incarnations == {}

"""Nodes a job keeps away from."""

from typing import Any

import pytest

from rtj_api.names import TAINT_FAULTY
from rtj_api.reasons import EventReason
from rtj_api.status import EXCLUDED_MAX, ExcludedNode, ResilientTrainingJobStatus
from rtj_operator.policy import nodes
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import ReleaseNode, TaintNode
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


def test_a_node_that_only_a_beat_accused_stays_out() -> None:
    _, seen = build.after(build.running(status=excluded(entry()), **cluster()))
    later = build.running(status=seen.job.status, now=NOW + 10_000, **cluster())
    assert [e.name for e in decide(later).status.nodes.excluded] == ["n9"]


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
            status=excluded(*(entry(name) for name in others)),
            matching_nodes=matching[0],
            matching_nodes_bad=matching[1],
        )
    )
    assert nodes.breaker_open(plan, "n1") is want


def test_exclusions_long_ago_do_not_open_the_breaker() -> None:
    old = entry("n0", since="2027-01-15T07:54:00Z")
    assert not nodes.breaker_open(build.plan(build.running(status=excluded(old))), "n1")


def test_exclusions_are_bounded_and_the_newest_stay() -> None:
    many = excluded(*(entry(f"m{i}") for i in range(EXCLUDED_MAX)))
    plan = nodes.exclude(build.plan(build.running(status=many)), "n1", "why")
    names = [e.name for e in plan.status.nodes.excluded]
    assert len(names) == EXCLUDED_MAX
    assert (names[0], names[-1]) == ("m1", "n1")

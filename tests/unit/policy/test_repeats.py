"""Faults that come again before any new step: whose they are, and how far they reach."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from rtj_api.ladder import FaultClass, Rung
from rtj_api.reasons import EventReason, Phase, Reason
from rtj_api.status import ExcludedNode, HistoryEntry, NodeRef, NodesStatus, Recovery
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod, Decision
from rtj_operator.policy.observation import Observation
from tests.unit.policy import build
from tests.unit.policy.build import NOW

TIME = "2027-01-15T07:59:00Z"
N1 = NodeRef(name="n1", uid="n1-uid")


def recovering(rung: Rung, **fields: Any) -> Recovery:
    """A recovery of rank 2 in slot 1 on n1 that has brought no new step."""
    values: dict[str, Any] = {
        "number": 3,
        "rung": rung,
        "fault_class": FaultClass.PROCESS_DIED,
        "slot": 1,
        "incarnation": 0,
        "node": N1,
        "rank": 2,
        "detected_time": TIME,
        "detected_unix": NOW - 60,
        "deadline_time": "2027-01-15T08:04:00Z",
        "step": 10,
        "run": 1,
        "round": 0,
    }
    return Recovery(**(values | fields))


def ended(number: int, suspect: str, seconds: float | None = None, **fields: Any) -> HistoryEntry:
    """A recovery in history."""
    values: dict[str, Any] = {
        "number": number,
        "rung": Rung.IN_JOB,
        "fault_class": FaultClass.PROCESS_DIED,
        "suspect": suspect,
        "suspect_uid": f"{suspect}-uid" if suspect else "",
        "detected_time": TIME,
        "recovered_seconds": seconds,
    }
    return HistoryEntry(**(values | fields))


def comes_again(
    current: Recovery, kind: str = "exit", *, status: dict[str, Any] | None = None, **fault: Any
) -> Observation:
    """The job in that recovery, with a fault of the next round."""
    whose = {"round": 1, "pod_uid": f"worker-{fault.get('slot', 1)}-0"} | fault
    given = build.running_status(recovery=current, **(status or {}))
    report = build.fault(kind, 2, **whose)
    return build.running(
        build.spec(resilience={"progress": {"maxRestartsWithoutProgress": 50}}),
        given,
        view=build.view(step=-1, highest_step=10, faults=(report,), round=1),
    )


def outcome(decision: Decision) -> tuple[Rung | None, str | None, list[str]]:
    """Rung, suspect and excluded nodes."""
    recovery = decision.status.recovery
    node = recovery.node.name if recovery and recovery.node else None
    excluded = [e.name for e in decision.status.nodes.excluded]
    return recovery.rung if recovery else None, node, excluded


@pytest.mark.parametrize(
    ("kind", "before", "want"),
    [
        pytest.param("exception", Rung.IN_PROCESS, (Rung.IN_JOB, "n1", []), id="to in-job"),
        pytest.param("exit", Rung.IN_PROCESS, (Rung.IN_JOB, "n1", []), id="graver by itself"),
        pytest.param("exit", Rung.IN_JOB, (Rung.POD, "n1", []), id="to pod"),
        pytest.param("exit", Rung.POD, (Rung.NODE, "n1", ["n1"]), id="to node, which is excluded"),
        pytest.param("launcher", Rung.POD, (Rung.NODE, "n1", ["n1"]), id="of a launcher too"),
        pytest.param("exit", Rung.NODE, (Rung.GANG, "n1", []), id="to gang"),
        pytest.param("exit", Rung.GANG, (Rung.GANG, "n1", []), id="gang up to the limit"),
        pytest.param("control", Rung.IN_JOB, (Rung.GANG, None, []), id="control is another's"),
    ],
)
def test_on_the_same_node_it_climbs(
    kind: str, before: Rung, want: tuple[Rung | None, str | None, list[str]]
) -> None:
    decision = decide(comes_again(recovering(before), kind))
    assert outcome(decision) == want


def test_an_exception_that_comes_again_restarts_the_processes() -> None:
    again = comes_again(
        recovering(Rung.IN_PROCESS, fault_class=FaultClass.APPLICATION), "exception"
    )
    assert decide(again).status.restart_requests == 1


def test_no_node_is_given_up_where_there_is_no_other() -> None:
    seen = comes_again(recovering(Rung.POD))
    assert seen.view is not None
    alone = with_fields(seen.view, workers=seen.view.workers[:2])
    assert outcome(decide(replace(seen, view=alone))) == (Rung.GANG, "n1", [])
    idle = replace(seen, view=alone, matching_nodes=5, matching_nodes_bad=1)
    assert outcome(decide(idle)) == (Rung.NODE, "n1", ["n1"])


NOBODY = (Rung.GANG, None, [])


@pytest.mark.parametrize(
    ("current", "status", "fault", "want"),
    [
        pytest.param(
            {}, {}, {"slot": 0, "rank": 0}, (Rung.IN_JOB, "n0", []), id="once: another's fault"
        ),
        pytest.param(
            {},
            {"history": (ended(1, "n0"),), "restarts_without_progress": 1},
            {"slot": 0, "rank": 0},
            NOBODY,
            id="to and fro: the program's",
        ),
        pytest.param(
            {},
            {"history": (ended(1, "n1"),), "restarts_without_progress": 1},
            {"slot": 0, "rank": 0},
            (Rung.IN_JOB, "n0", []),
            id="twice here, then there: another's",
        ),
        pytest.param(
            {},
            {"history": (ended(1, "n0", 3.0),)},
            {"slot": 0, "rank": 0},
            (Rung.IN_JOB, "n0", []),
            id="what was recovered from says nothing",
        ),
        pytest.param({}, {}, {"slot": 2}, NOBODY, id="the rank fails on the spare's node too"),
        pytest.param(
            {}, {}, {"slot": 2, "rank": 3}, NOBODY, id="so does another one of the position"
        ),
        pytest.param({"node": None}, {}, {}, NOBODY, id="nobody was to blame before"),
        pytest.param(
            {"slot": None, "node": None, "rank": None},
            {},
            {},
            (Rung.IN_JOB, "n1", []),
            id="nobody stood out before",
        ),
        pytest.param(
            {"fault_class": FaultClass.NODE_LOST, "rung": Rung.NODE},
            {},
            {},
            (Rung.IN_JOB, "n1", []),
            id="a lost node is something else",
        ),
    ],
)
def test_on_another_node_it_is_another_fault_or_the_programs(
    current: dict[str, Any],
    status: dict[str, Any],
    fault: dict[str, Any],
    want: tuple[Rung | None, str | None, list[str]],
) -> None:
    before = recovering(**({"rung": Rung.IN_JOB} | current))
    assert outcome(decide(comes_again(before, status=status, **fault))) == want


@pytest.mark.parametrize(("confirmed", "want"), [(False, []), (True, ["n9"])])
def test_a_node_is_acquitted_when_the_fault_comes_to_another_one_too(
    confirmed: bool, want: list[str]
) -> None:
    n9 = ExcludedNode(name="n9", uid="n9-uid", since=TIME, confirmed=confirmed)
    before = recovering(Rung.NODE, node=NodeRef(name="n9", uid="n9-uid"))
    status = {"nodes": NodesStatus(excluded=(n9,))}
    decision = decide(comes_again(before, status=status))
    assert outcome(decision) == (Rung.GANG, None, want)
    assert (EventReason.NODE_RELEASED in build.told(decision)) is not confirmed


@pytest.mark.parametrize(
    ("history", "position", "want"),
    [
        pytest.param((ended(2, "n9"),), 1, ["n9"], id="came there twice, is over without it"),
        pytest.param((ended(2, "n8"),), 1, [], id="came there once"),
        pytest.param((ended(2, "n9", 2.0),), 1, [], id="training had moved on meanwhile"),
        pytest.param((ended(2, "n9"),), -1, [], id="it trains there again"),
        pytest.param((), 1, [], id="the first of all"),
    ],
)
def test_a_node_that_is_proven_bad_is_excluded_and_its_new_worker_leaves(
    history: tuple[HistoryEntry, ...], position: int, want: list[str]
) -> None:
    """Slot 1's pod on n9 was replaced, came back there, and slot 2 has or has not its place."""
    pods = (build.pod(0), build.pod(1, 1, node="n9"), build.pod(2), build.coordinator())
    workers = (
        build.worker(0, 0),
        build.worker(1, -1 if position == 1 else 1, 1),
        build.worker(2, position),
    )
    node = NodeRef(name="n9", uid="n9-uid")
    status = build.running_status(
        recovery=recovering(Rung.POD, node=node), history=history, incarnations={"1": 1}
    )
    view = build.view(step=20, workers=workers, round=1)
    nodes = build.nodes("n0", "n1", "n2", "n9", "c")
    seen = build.running(status=status, pods=pods, nodes=nodes, view=view)
    decision, again = build.after(seen)
    assert decision.status.recovery is None
    assert [e.name for e in decision.status.nodes.excluded] == want
    made = [(p.slot, p.incarnation, p.excluded_nodes) for p in build.actions(decision, CreatePod)]
    assert made == [(1, 2, ("n9",)) for _ in want]
    assert decide(again).status == decision.status


def test_workers_that_end_in_one_break_are_no_nodes_fault() -> None:
    """As of a command that cannot be started."""
    fields: dict[str, Any] = {"view": None, "view_connected": False}
    pods = (build.pod(0, phase="Failed"), build.pod(1, phase="Failed"))
    _, seen = build.after(build.running(pods=(*pods, build.pod(2), build.coordinator()), **fields))
    assert seen.job.status.recovery is not None
    assert seen.job.status.recovery.node is None
    new = (build.pod(0, 1, phase="Failed"), build.pod(1, 1))
    later = replace(seen, pods=(*new, build.pod(2), build.coordinator()), now=NOW + 5)
    assert outcome(decide(later)) == NOBODY


def test_pods_that_fail_in_their_turn_before_any_round_are_no_single_break() -> None:
    launcher = build.fault("launcher", 1, exit_code=2)
    decision, seen = build.after(
        build.running(
            view=build.view(step=-1, highest_step=10, ranks_training=0, faults=(launcher,))
        )
    )
    for turn in range(1, 6):
        made = NOW + 10 * turn
        incarnation = decision.status.incarnations.get("1", 0)
        pods = (build.pod(0), build.pod(1, incarnation, created=made), build.pod(2))
        again = build.fault(
            "launcher",
            turn + 1,
            exit_code=2,
            incarnation=incarnation,
            pod_uid=f"worker-1-{incarnation}",
            run=decision.status.run,
            detected_unix=made + 5,
        )
        view = build.view(
            step=-1, highest_step=10, ranks_training=0, run=decision.status.run, faults=(again,)
        )
        next_seen = replace(seen, now=made + 6, pods=(*pods, build.coordinator()), view=view)
        decision, seen = build.after(next_seen)
        if decision.status.phase is Phase.FAILED:
            break
    assert decision.status.reason == Reason.NO_PROGRESS
    assert "exit code 2" in decision.status.message

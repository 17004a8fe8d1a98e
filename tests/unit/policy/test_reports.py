"""What happened: the coordinator's reports, judged with what the cluster knows."""

from typing import Any

import pytest

from rtj_api.ladder import FaultClass, Rung
from rtj_api.messages import FaultReport
from rtj_api.status import PendingSignal
from rtj_operator.policy.incident.carry_out import opening
from rtj_operator.policy.incident.transitions import entry
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.signals.fault import Fault
from rtj_operator.policy.signals.reports import became_a_loss, is_replaced, judge_report
from rtj_operator.policy.signals.sight import Sight
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def judge(plan: Plan, report: FaultReport) -> tuple[Plan, Fault | None]:
    """The plan with its clocks, and the fault."""
    sight = Sight(plan)
    fault = judge_report(sight, report)
    return sight.plan, fault


def test_every_class_has_an_entry_rung() -> None:
    assert all(entry(fault_class) in Rung for fault_class in FaultClass)


@pytest.mark.parametrize(
    ("kind", "fields", "want_class", "want_rung"),
    [
        pytest.param("exception", {}, FaultClass.APPLICATION, Rung.IN_PROCESS, id="exception"),
        pytest.param("exit", {"exit_code": -9}, FaultClass.PROCESS_DIED, Rung.IN_JOB, id="exit"),
        pytest.param(
            "exit",
            {"out_of_memory": True},
            FaultClass.OUT_OF_MEMORY,
            Rung.IN_JOB,
            id="killed for want of memory",
        ),
        pytest.param("hang", {}, FaultClass.HANG, Rung.IN_JOB, id="hang"),
        pytest.param(
            "launcher", {"exit_code": 1}, FaultClass.POD_DIED, Rung.POD, id="launcher ended"
        ),
        pytest.param("control", {}, FaultClass.CONTROL_LOST, Rung.GANG, id="nvrx-control ended"),
    ],
)
def test_a_report_alone_tells_the_class(
    kind: str, fields: dict[str, Any], want_class: FaultClass, want_rung: Rung
) -> None:
    _, fault = judge(build.plan(build.running()), build.fault(kind, **fields))
    assert fault is not None
    assert (fault.fault_class, opening(fault).next) == (want_class, want_rung)


@pytest.mark.parametrize(
    ("pod", "node", "want_class", "want_rung"),
    [
        pytest.param(
            {"phase": "Failed", "containers": (build.terminated(137),)},
            {},
            FaultClass.POD_DIED,
            Rung.POD,
            id="container ended, node fine",
        ),
        pytest.param(
            {"phase": "Failed", "containers": (build.terminated(137, reason="OOMKilled"),)},
            {},
            FaultClass.OUT_OF_MEMORY,
            Rung.POD,
            id="container killed for want of memory",
        ),
        pytest.param({}, {"ready": "Unknown"}, FaultClass.NODE_LOST, Rung.NODE, id="node unknown"),
        pytest.param({"node": "other"}, {}, FaultClass.NODE_LOST, Rung.NODE, id="node is gone"),
        pytest.param(
            {"deleting": True}, {}, FaultClass.DISPLACED, Rung.POD, id="deleted by somebody"
        ),
        pytest.param(
            {"disruption": "EvictionByEvictionAPI"},
            {},
            FaultClass.DISPLACED,
            Rung.NODE,
            id="evicted through the API",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "Evicted"},
            {},
            FaultClass.DISPLACED,
            Rung.NODE,
            id="evicted by the kubelet, without container statuses",
        ),
    ],
)
def test_the_cluster_tells_how_a_worker_was_lost(
    pod: dict[str, Any], node: dict[str, Any], want_class: FaultClass, want_rung: Rung
) -> None:
    nodes = build.nodes("n0", "n2", "c") | {"n1": build.node("n1", **node)}
    pods = (build.pod(0), build.pod(1, **pod), build.pod(2), build.coordinator())
    plan = build.plan(build.running(pods=pods, nodes=nodes))
    _, fault = judge(plan, build.fault("worker"))
    assert fault is not None
    assert (fault.fault_class, opening(fault).next) == (want_class, want_rung)
    assert fault.lost


def judging(seconds_ago: int) -> dict[str, Any]:
    sign = PendingSignal(
        signal="Judging",
        subject="demo-worker-1-0",
        first_seen_time=f"2027-01-15T07:59:{60 - seconds_ago:02d}Z",
    )
    return {"pending": (sign,)}


SILENT = (build.worker(0, 0), build.worker(1, -1, connected=False), build.worker(2, 1))


def test_a_silent_worker_whose_pod_looks_fine_is_judged_later() -> None:
    plan, fault = judge(
        build.plan(build.running(view=build.view(workers=SILENT))), build.fault("worker")
    )
    assert fault is None
    assert plan.wakes == (NOW + 2.0,)


@pytest.mark.parametrize(
    ("workers", "want_class", "want_rung", "want_lost"),
    [
        pytest.param(SILENT, FaultClass.NODE_LOST, Rung.NODE, True, id="still silent"),
        pytest.param(build.view().workers, FaultClass.HANG, Rung.IN_JOB, False, id="it came back"),
    ],
)
def test_a_silent_worker_is_judged_when_the_cluster_had_its_time(
    workers: Any, want_class: FaultClass, want_rung: Rung, want_lost: bool
) -> None:
    status = build.running_status(**judging(2))
    plan = build.plan(build.running(status=status, view=build.view(workers=workers)))
    _, fault = judge(plan, build.fault("worker"))
    assert fault is not None
    got = (fault.fault_class, opening(fault).next, fault.lost)
    assert got == (want_class, want_rung, want_lost)


@pytest.mark.parametrize(
    ("kind", "fields", "want"),
    [
        pytest.param("exit", {}, False, id="of now"),
        pytest.param("exit", {"incarnation": 0}, False, id="of the incarnation that counts"),
        pytest.param("exit", {"slot": 9}, True, id="of a slot that is no more"),
        pytest.param("exit", {"run": 0}, True, id="process of an older run"),
        pytest.param("worker", {"run": 0}, False, id="pod lost in an older run and not replaced"),
        pytest.param("control", {"run": 0}, True, id="control of an older run"),
        pytest.param("control", {"slot": -1}, False, id="control of this run"),
    ],
)
def test_is_replaced(kind: str, fields: dict[str, Any], want: bool) -> None:
    assert is_replaced(build.plan(build.running()), build.fault(kind, **fields)) is want


def test_a_pod_that_was_replaced_reports_nothing_new() -> None:
    plan = build.plan(build.running(status=build.running_status(incarnations={"1": 1})))
    assert is_replaced(plan, build.fault("worker"))
    assert not is_replaced(plan, build.fault("worker", incarnation=1))


@pytest.mark.parametrize(
    ("kind", "fields", "want"),
    [
        pytest.param("exit", {}, False, id="a process is no loss"),
        pytest.param("worker", {}, True, id="a pod was lost after all"),
        pytest.param("worker", {"recovered_seconds": 1.0}, False, id="and recovered from"),
        pytest.param("worker", {"pod_uid": "other", "incarnation": -1}, False, id="of an old pod"),
    ],
)
def test_became_a_loss(kind: str, fields: dict[str, Any], want: bool) -> None:
    plan = build.plan(build.running(view=build.view(workers=SILENT)))
    assert became_a_loss(plan, build.fault(kind, **fields)) is want


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"detected_seconds": 610.0}, True, id="all ranks stood still"),
        pytest.param({"detected_seconds": 30.0}, False, id="the wrapper ended it"),
        pytest.param(
            {"detected_seconds": 610.0, "exit_code": -9}, False, id="the rank monitor ended it"
        ),
    ],
)
def test_only_a_stall_needs_an_order_to_restart(fields: dict[str, Any], want: bool) -> None:
    _, fault = judge(build.plan(build.running()), build.fault("hang", **fields))
    assert fault is not None
    assert fault.stalled is want


@pytest.mark.parametrize(
    ("kind", "exit_code", "want"),
    [
        pytest.param("exit", 93, True, id="a rank says that a restart is useless"),
        pytest.param("launcher", 93, True, id="ft_launcher says so"),
        pytest.param("exit", 1, False, id="a rank failed otherwise"),
        pytest.param("hang", 93, False, id="the code of a rank that was ended is not its word"),
    ],
)
def test_only_exit_code_93_is_fatal(kind: str, exit_code: int, want: bool) -> None:
    _, fault = judge(build.plan(build.running()), build.fault(kind, exit_code=exit_code))
    assert fault is not None
    assert fault.fatal is want


def test_the_words_say_who_where_code_and_last_lines() -> None:
    report = build.fault("exit", exit_code=1, message="ValueError: nan\n")
    _, fault = judge(build.plan(build.running()), report)
    assert fault is not None
    want = "rank 2 in pod demo-worker-1-0 on node n1 ended with exit code 1: ValueError: nan"
    assert fault.reason == want

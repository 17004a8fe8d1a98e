"""How far recoveries reach: entered, joined, begun anew, climbed, ended for good."""

from typing import Any

import pytest

from rtj_api.ladder import FaultClass, Rung
from rtj_api.messages import FaultReport
from rtj_api.reasons import Phase, Reason
from rtj_api.status import HistoryEntry, NodeRef, NodesStatus, Recovery, ResilientTrainingJobStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod, DeletePod, SendDirective
from rtj_operator.policy.incident.transitions import higher
from rtj_operator.policy.observation import Observation
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def with_faults(
    *faults: FaultReport,
    status: ResilientTrainingJobStatus | None = None,
    spec: dict[str, Any] | None = None,
    **view: Any,
) -> Observation:
    """The running job whose coordinator tells of these faults."""
    return build.running(
        build.spec(**(spec or {})), status, view=build.view(faults=tuple(faults), **view)
    )


def test_higher_is_by_cost() -> None:
    assert higher(Rung.NODE, Rung.POD) is Rung.NODE


# --- entering ---


@pytest.mark.parametrize(
    ("kind", "want_counters", "want_run", "want_replaced"),
    [
        pytest.param("exception", "1/0/0/0/0", 1, [], id="exception: NVRx acts, we count"),
        pytest.param("exit", "0/1/0/0/0", 1, [], id="exit: the launcher acts, we count"),
        pytest.param("launcher", "0/0/1/0/0", 1, [(1, 1)], id="launcher: its pod is replaced"),
        pytest.param("control", "0/0/0/0/1", 2, [], id="control: a new run, pods untouched"),
    ],
)
def test_entry(
    kind: str, want_counters: str, want_run: int, want_replaced: list[tuple[int, int]]
) -> None:
    decision = decide(with_faults(build.fault(kind)))
    assert decision.status.phase is Phase.RECOVERING
    assert decision.status.restarts.summary == want_counters
    assert decision.status.run == want_run
    made = build.actions(decision, CreatePod)
    assert [(p.slot, p.incarnation) for p in made] == want_replaced
    deleted = [d.uid for d in build.actions(decision, DeletePod)]
    assert deleted == ["worker-1-0" for _ in want_replaced]


def test_a_stalled_job_is_told_to_restart() -> None:
    stall = build.fault("hang", slot=-1, position=-1, rank=-1, detected_seconds=611.0)
    decision = decide(with_faults(stall))
    assert decision.status.restart_requests == 1
    (sent,) = build.actions(decision, SendDirective)
    assert sent.directive.restart == 1


def test_a_spent_budget_sends_the_fault_a_rung_up() -> None:
    spec = {"resilience": {"inJob": {"limit": 0}}}
    decision = decide(with_faults(build.fault("exit"), spec=spec))
    assert decision.status.restarts.summary == "0/0/1/0/0"


@pytest.mark.parametrize(
    ("pod", "node", "limit", "want_counters", "want_excluded"),
    [
        pytest.param({"phase": "Failed"}, {}, 3, "0/0/1/0/0", [], id="within Pod's budget"),
        pytest.param(
            {"phase": "Failed"}, {}, 0, "0/0/0/1/0", [], id="a spent budget accuses no node"
        ),
        pytest.param({}, {"ready": "Unknown"}, 0, "0/0/0/1/0", ["n1"], id="a lost node is accused"),
    ],
)
def test_who_is_excluded_when_pod_s_budget_is_spent(
    pod: dict[str, Any],
    node: dict[str, Any],
    limit: int,
    want_counters: str,
    want_excluded: list[str],
) -> None:
    nodes = build.nodes("n0", "n2", "c") | {"n1": build.node("n1", **node)}
    pods = (build.pod(0), build.pod(1, **pod), build.pod(2), build.coordinator())
    spec = build.spec(resilience={"pod": {"limit": limit}})
    view = build.view(faults=(build.fault("worker"),))
    decision = decide(build.running(spec, pods=pods, nodes=nodes, view=view))
    assert decision.status.restarts.summary == want_counters
    assert [e.name for e in decision.status.nodes.excluded] == want_excluded
    assert decision.status.incarnations == {"1": 1}


def test_a_node_that_struck_out_is_excluded() -> None:
    spec = {"resilience": {"node": {"strikes": 1}}}
    decision = decide(with_faults(build.fault("exit"), spec=spec))
    assert decision.status.restarts.summary == "0/0/0/1/0"
    assert [e.name for e in decision.status.nodes.excluded] == ["n1"]


def test_with_no_budget_left_the_job_fails_and_names_all() -> None:
    none = {rung: {"limit": 0} for rung in ("inJob", "pod", "node", "gang")}
    report = build.fault("exit", exit_code=137, message="last words")
    decision = decide(with_faults(report, spec={"resilience": none}))
    assert decision.status.phase is Phase.FAILED
    assert decision.status.reason == Reason.RESTART_BUDGET_EXCEEDED
    for part in ("spec.resilience.inJob.limit", "demo-worker-1-0", "n1", "137", "last words"):
        assert part in decision.status.message


@pytest.mark.parametrize("kind", ["exit", "launcher"])
def test_exit_code_93_fails_at_once(kind: Any) -> None:
    decision = decide(with_faults(build.fault(kind, exit_code=93, message="gave up")))
    assert decision.status.reason == Reason.DO_NOT_RESTART
    assert "93" in decision.status.message
    assert build.actions(decision, CreatePod) == []


# --- joining and beginning anew ---


@pytest.mark.parametrize(
    ("second", "want_counters", "want_rung"),
    [
        pytest.param(
            build.fault("exit", 2, slot=0, pod_uid="worker-0-0", rank=0),
            "0/1/0/0/0",
            Rung.IN_JOB,
            id="what breaks in the same round is a consequence",
        ),
        pytest.param(
            build.fault("launcher", 2),
            "0/0/1/0/0",
            Rung.POD,
            id="a graver sign of the same round takes the soft one's place",
        ),
        pytest.param(
            build.fault("exit", 2, round=1),
            "0/1/1/0/0",
            Rung.POD,
            id="in a later round it is the same one again",
        ),
    ],
)
def test_a_second_fault(second: FaultReport, want_counters: str, want_rung: Rung) -> None:
    decision = decide(with_faults(build.fault("exit"), second, round=1))
    assert decision.status.restarts.summary == want_counters
    assert decision.status.recovery is not None
    assert decision.status.recovery.rung is want_rung


def test_two_lost_pods_are_two_replacements_and_one_recovery() -> None:
    pods = (
        build.pod(0, phase="Failed"),
        build.pod(1, phase="Failed"),
        build.pod(2),
        build.coordinator(),
    )
    faults = (
        build.fault("worker", 1, slot=0, pod_uid="worker-0-0", position=0),
        build.fault("worker", 2),
    )
    decision = decide(build.running(pods=pods, view=build.view(faults=faults)))
    assert decision.status.restarts.summary == "0/0/1/0/0"
    assert len(decision.status.windows[Rung.POD]) == 1
    assert decision.status.incarnations == {"0": 1, "1": 1}
    assert decision.status.restarts_without_progress == 0
    assert decision.status.history == ()


def test_a_script_that_fails_at_once_fails_the_job_with_its_last_words() -> None:
    _, seen = build.after(build.observation())
    faults: tuple[FaultReport, ...] = ()
    phases: list[Phase | None] = []
    for round_ in range(7):
        told: dict[str, Any] = {"run": seen.job.status.run, "round": round_, "step": -1}
        slot = round_ % 2
        whose = {"slot": slot, "pod_uid": f"worker-{slot}-0", "rank": slot * 2}
        report = build.fault("exit", round_ + 1, exit_code=1, message="boom", **whose, **told)
        faults = (*faults, report)
        view = build.view(faults=faults, **told)
        decision, seen = build.after(
            build.running(status=seen.job.status, view=view, now=NOW + 5 * round_)
        )
        phases.append(decision.status.phase)
    assert phases.index(Phase.FAILED) == 5, "after five recoveries without a step"
    assert seen.job.status.reason == Reason.NO_PROGRESS
    assert "boom" in seen.job.status.message
    assert seen.job.status.restarts.summary == "0/5/0/0/0"
    assert seen.job.status.nodes.excluded == ()
    assert seen.job.status.nodes.strikes == {}, "a program's fault is no node's"


@pytest.mark.parametrize(
    ("rank", "want"),
    [
        pytest.param(2, Reason.OUT_OF_MEMORY, id="the same rank: the limit is too low"),
        pytest.param(3, Reason.RECOVERING, id="another rank"),
    ],
)
def test_out_of_memory_twice(rank: int, want: Reason) -> None:
    oom = build.fault("exit", 1, out_of_memory=True, recovered_seconds=5.0)
    again = build.fault("exit", 2, out_of_memory=True, rank=rank, round=1, step=20)
    decision = decide(with_faults(oom, again, step=20))
    assert decision.status.reason == want
    if want is Reason.OUT_OF_MEMORY:
        assert "resources.limits.memory" in decision.status.message


# --- climbing ---


def recovering(rung: Rung, **fields: Any) -> ResilientTrainingJobStatus:
    """Status of the running job in a recovery of slot 1 that is overdue."""
    recovery = Recovery(
        **(
            {
                "number": 1,
                "rung": rung,
                "fault_class": FaultClass.PROCESS_DIED,
                "slot": 1,
                "incarnation": 0,
                "node": NodeRef(name="n1", uid="n1-uid"),
                "reason": "first words",
                "detected_time": "2027-01-15T07:50:00Z",
                "detected_unix": NOW - 600,
                "deadline_time": "2027-01-15T07:55:00Z",
                "step": 10,
                "run": 1,
                "round": 0,
            }
            | fields
        )
    )
    return build.running_status(recovery=recovery)


STANDS: dict[str, Any] = {"step": -1, "highest_step": 10, "ranks_training": 0}


@pytest.mark.parametrize(
    ("rung", "fields", "want_rung", "want"),
    [
        pytest.param(
            Rung.IN_PROCESS, {}, Rung.IN_JOB, {"restart_requests": 1}, id="in-process to in-job"
        ),
        pytest.param(Rung.IN_JOB, {}, Rung.POD, {"incarnations": {"1": 1}}, id="in-job to pod"),
        pytest.param(Rung.IN_JOB, {"slot": None}, Rung.GANG, {"run": 2}, id="no suspect: to gang"),
        pytest.param(Rung.POD, {}, Rung.NODE, {"incarnations": {"1": 1}}, id="pod to node"),
        pytest.param(
            Rung.POD,
            {"node": NodeRef(name="n9", uid="n9-uid")},
            Rung.GANG,
            {"run": 2, "nodes": NodesStatus()},
            id="the replacement runs elsewhere: to gang, without blame",
        ),
        pytest.param(
            Rung.POD,
            {"node": None},
            Rung.GANG,
            {"run": 2, "nodes": NodesStatus()},
            id="nobody was to blame: to gang",
        ),
        pytest.param(Rung.NODE, {}, Rung.GANG, {"run": 2}, id="node to gang"),
        pytest.param(Rung.GANG, {}, Rung.FAILED, {"phase": Phase.FAILED}, id="gang to the end"),
    ],
)
def test_an_overdue_recovery_climbs(
    rung: Rung, fields: dict[str, Any], want_rung: Rung, want: dict[str, Any]
) -> None:
    status = recovering(rung, **fields)
    decision, again = build.after(build.running(status=status, view=build.view(**STANDS)))
    recovery = decision.status.recovery
    assert recovery is not None
    assert recovery.rung is want_rung
    assert {name: getattr(decision.status, name) for name in want} == want
    assert decision.status.restarts_without_progress == 1
    assert [e.recovered_seconds for e in decision.status.history] == [None]
    assert decide(again).status == decision.status


def test_climbing_to_node_excludes_it() -> None:
    decision = decide(build.running(status=recovering(Rung.POD), view=build.view(**STANDS)))
    assert [e.name for e in decision.status.nodes.excluded] == ["n1"]


def test_words_of_a_climb_keep_the_first_cause() -> None:
    _, seen = build.after(
        build.running(status=recovering(Rung.IN_PROCESS), view=build.view(**STANDS))
    )
    later = build.running(status=seen.job.status, view=build.view(**STANDS), now=NOW + 400)
    recovery = decide(later).status.recovery
    assert recovery is not None
    assert recovery.reason.startswith("no new step ")
    assert recovery.reason.count("first words") == 1
    assert recovery.reason.count("no new step") == 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"pods": (build.pod(0), build.coordinator())}, id="workers are missing"),
        pytest.param({"view": None, "view_connected": False}, id="the coordinator is not heard"),
    ],
)
def test_no_climb_while(changes: dict[str, Any]) -> None:
    status = recovering(Rung.NODE).model_copy(update={"awaited": (1, 2)})
    fields: dict[str, Any] = {"view": build.view(**STANDS)} | changes
    decision = decide(build.running(status=status, **fields))
    assert decision.status.recovery is not None
    assert decision.status.recovery.rung is Rung.NODE
    assert decision.status.run == 1


def test_a_job_that_trained_is_not_failed_for_a_view_that_does_not_arrive() -> None:
    blind: dict[str, Any] = {"view": None, "view_connected": False}
    _, seen = build.after(build.running(status=recovering(Rung.NODE), **blind))
    later = decide(build.running(status=seen.job.status, now=NOW + 10_000, **blind))
    assert later.status.phase is Phase.RECOVERING


def test_a_deadline_is_put_off_while_training_catches_up_and_only_then() -> None:
    behind: dict[str, Any] = {"step": 4, "highest_step": 10, "ranks_training": 4}
    first, seen = build.after(
        build.running(status=recovering(Rung.NODE), view=build.view(**behind))
    )
    assert first.status.recovery is not None
    assert first.status.recovery.rung is Rung.NODE
    assert first.status.recovery.replayed_step == 4
    later: dict[str, Any] = {"status": seen.job.status, "now": NOW + 301}
    moved = decide(
        build.running(view=build.view(step=7, highest_step=10, ranks_training=4), **later)
    )
    assert moved.status.recovery is not None
    assert moved.status.recovery.rung is Rung.NODE
    stuck = decide(build.running(view=build.view(**behind), **later))
    assert stuck.status.recovery is not None
    assert stuck.status.recovery.rung is Rung.GANG


@pytest.mark.parametrize(
    ("stepped", "ranks", "want"),
    [
        pytest.param(None, 4, None, id="all ranks of a script that tells no steps run"),
        pytest.param(None, 3, Rung.POD, id="not all of them"),
        pytest.param("2027-01-15T07:00:00Z", 4, Rung.POD, id="a script that told steps before"),
    ],
)
def test_without_steps_running_ranks_are_the_end_of_a_recovery(
    stepped: str | None, ranks: int, want: Rung | None
) -> None:
    silent = build.view(step=-1, highest_step=-1, ranks_training=ranks)
    status = recovering(Rung.IN_JOB, step=-1).model_copy(update={"first_step_time": stepped})
    after = decide(build.running(status=status, view=silent)).status
    assert (after.recovery.rung if after.recovery else None) is want
    assert after.restarts_without_progress == (0 if want is None else 1)
    assert [entry.recovered_seconds for entry in after.history] == [None]


# --- coming down ---


@pytest.mark.parametrize(
    ("ended", "slot", "want"),
    [
        pytest.param("2027-01-15T07:55:00Z", 1, Rung.POD, id="soon after: where it had to climb"),
        pytest.param("2027-01-15T07:49:00Z", 1, Rung.IN_JOB, id="after a stable period: anew"),
        pytest.param("2027-01-15T07:55:00Z", 0, Rung.IN_JOB, id="another suspect: anew"),
    ],
)
def test_de_escalation(ended: str, slot: int, want: Rung) -> None:
    climbed = HistoryEntry(
        number=1,
        rung=Rung.POD,
        fault_class=FaultClass.PROCESS_DIED,
        slot=slot,
        detected_time=ended,
        recovered_seconds=1.0,
    )
    status = build.running_status(history=(climbed,))
    recovery = decide(with_faults(build.fault("exit"), status=status)).status.recovery
    assert recovery is not None
    assert recovery.rung is want


def test_a_displaced_pod_uses_no_budget() -> None:
    pods = (
        build.pod(0),
        build.pod(1, disruption="EvictionByEvictionAPI"),
        build.pod(2),
        build.coordinator(),
    )
    none = {rung: {"limit": 0} for rung in ("inJob", "pod", "node", "gang")}
    decision = decide(build.running(build.spec(resilience=none), pods=pods))
    assert decision.status.phase is Phase.RECOVERING
    assert decision.status.windows == {}
    assert decision.status.nodes.excluded == ()
    assert decision.status.incarnations == {"1": 1}

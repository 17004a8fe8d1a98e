"""That a rung which is reserved is carried out, however an incident came to it."""

from dataclasses import replace
from typing import Any

import pytest

from rtj_api.ladder import FaultClass, Rung
from rtj_api.reasons import Phase, Reason
from rtj_api.status import HistoryEntry, NodesStatus, ResilientTrainingJobStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import TaintNode
from rtj_operator.policy.times import rfc3339
from tests.unit.policy import build, crowd
from tests.unit.policy.build import NOW
from tests.unit.policy.test_nodes import entry


def test_a_third_strike_moves_the_worker_off_its_node() -> None:
    strikes = {"n1-uid": (rfc3339(NOW - 200), rfc3339(NOW - 100))}
    status = build.running_status(nodes=NodesStatus(strikes=strikes))
    after = decide(build.running(status=status, view=build.view(faults=(build.fault("exit"),))))
    assert [e.name for e in after.status.nodes.excluded] == ["n1"]
    assert after.status.incarnations == {"1": 1}


@pytest.mark.parametrize(
    ("last", "slot", "want_incarnations", "want_run"),
    [
        pytest.param(Rung.POD, 1, {"1": 1}, 1, id="the pod is replaced again"),
        pytest.param(Rung.GANG, 1, {}, 2, id="the gang is restarted again"),
        pytest.param(Rung.GANG, None, {}, 2, id="the gang, of a hang of nobody"),
    ],
)
def test_a_rung_that_is_remembered_is_carried_out(
    last: Rung, slot: int | None, want_incarnations: dict[str, int], want_run: int
) -> None:
    kind = "exit" if slot is not None else "hang"
    fault_class = FaultClass.PROCESS_DIED if slot is not None else FaultClass.HANG
    ended = HistoryEntry(
        number=1,
        rung=last,
        fault_class=fault_class,
        slot=slot,
        detected_time=rfc3339(NOW - 80),
        recovered_seconds=4.0,
    )
    told: dict[str, Any] = {} if slot is not None else {"slot": -1, "position": -1, "rank": -1}
    report = build.fault(kind, **told, detected_seconds=610.0 if slot is None else 0.2)
    status = build.running_status(history=(ended,))
    after = decide(build.running(status=status, view=build.view(faults=(report,)))).status
    assert (after.incarnations, after.run) == (want_incarnations, want_run)


def test_control_that_ends_in_every_run_before_the_first_step_ends_the_job() -> None:
    status = decide(build.observation()).status
    for n in range(8):
        view = build.view(
            run=status.run,
            step=-1,
            highest_step=-1,
            ranks_training=0,
            control="dead",
            faults=tuple(
                build.fault("control", i + 1, run=i + 1, slot=-1, rank=-1, step=-1)
                for i in range(status.run)
            ),
        )
        status = decide(build.running(status=status, view=view, now=NOW + 5 * n)).status
    assert (status.phase, status.reason) == (Phase.FAILED, Reason.NO_PROGRESS)


def test_a_kubelet_that_refuses_again_within_one_recovery_is_left() -> None:
    """Without a spare the second refusal comes before any step."""
    status = build.running_status()
    for n in range(2):
        refused = build.pod(
            1, n, phase="Failed", reason="UnexpectedAdmissionError", created=NOW + 5 * n
        )
        pods = (build.pod(0), refused, build.coordinator())
        view = build.view(workers=(build.worker(0, 0),))
        seen = build.running(build.spec(spares=0), status, pods=pods, view=view, now=NOW + 5 * n)
        status = decide(seen).status
    assert [e.name for e in status.nodes.excluded] == ["n1"]


def test_one_refusal_and_one_dead_pod_exclude_no_node() -> None:
    strikes = {"n1-uid": (rfc3339(NOW - 100),)}
    status = build.running_status(nodes=NodesStatus(strikes=strikes))
    refused = build.pod(1, phase="Failed", reason="UnexpectedAdmissionError")
    pods = (build.pod(0), refused, build.coordinator())
    view = build.view(workers=(build.worker(0, 0),))
    after = decide(build.running(build.spec(spares=0), status, pods=pods, view=view)).status
    assert after.nodes.excluded == ()


def test_what_the_breaker_acquits_does_not_close_it() -> None:
    """Ten nodes of 64 were given up, then 28 more fall silent: none of them is."""
    entries = [entry(f"n{i}", since=rfc3339(NOW - 90), suspicion="Silence") for i in range(10)]
    base = crowd.steady()
    status = base.job.status.model_copy(update={"nodes": NodesStatus(excluded=tuple(entries))})
    slots = range(10, 38)
    view = crowd.view(silent=slots, faults=crowd.losses(slots))
    seen = replace(base, job=replace(base.job, status=status), view=view)
    for at in (0, 2, 4, 30):
        decision, seen = build.after(replace(seen, now=NOW + at))
        assert decision.status.nodes.excluded == ()
        assert decision.status.incarnations == {}
        assert decide(seen).status == decision.status


def _suspended(status: ResilientTrainingJobStatus) -> Any:
    return build.observation(build.spec(suspend=True), status)


def test_a_job_at_rest_taints_no_node_in_an_outage() -> None:
    status = build.running_status()
    _, seen = build.after(build.running(build.spec(suspend=True), status, pods=()))
    rest = seen.job.status.model_copy(
        update={
            "nodes": NodesStatus(
                excluded=(entry("n1", since=rfc3339(NOW - 30), suspicion="Silence"),)
            )
        }
    )
    outage = replace(
        _suspended(rest),
        nodes=build.nodes("n0", "n2") | {"n1": build.node("n1", ready="Unknown")},
        matching_nodes=100,
        matching_nodes_bad=90,
    )
    decision = decide(outage)
    assert build.actions(decision, TaintNode) == []
    assert not any(e.tainted for e in decision.status.nodes.excluded)


def test_an_exception_of_another_rank_in_the_round_that_restarts_joins_it() -> None:
    first = build.fault("exception", 1)
    again = build.fault("exception", 2, detected_unix=NOW + 5)
    _, seen = build.after(build.running(view=build.view(faults=(first,))))
    _, seen = build.after(replace(seen, view=build.view(faults=(first, again)), now=NOW + 5))
    assert seen.job.status.recovery is not None
    assert seen.job.status.recovery.rung is Rung.IN_JOB
    other = build.fault("exception", 3, slot=0, pod_uid="worker-0-0", rank=0, detected_unix=NOW + 7)
    view = build.view(faults=(first, again, other))
    status = decide(replace(seen, view=view, now=NOW + 7)).status
    assert status.recovery is not None
    assert status.recovery.rung is Rung.IN_JOB

"""Before the first step, and edits of what a run is made from."""

from dataclasses import replace
from typing import Any

import pytest

from rtj_api.ladder import FaultClass, Rung
from rtj_api.messages import FaultReport, Outcome
from rtj_api.reasons import Phase, Reason
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod
from rtj_operator.policy.observation import Observation
from rtj_operator.policy.times import unix
from tests.unit.policy import build
from tests.unit.policy.build import NOW

NO_STEP: dict[str, Any] = {"step": -1, "highest_step": -1, "ranks_training": 0}


def starting(now: float, status: Any, **fields: Any) -> Observation:
    """A job whose pods run and that has made no step yet."""
    around: dict[str, Any] = {"view": build.view(**NO_STEP)} | fields
    return build.running(status=status, now=now, **around)


def test_nodes_that_come_and_go_cost_a_start_no_budget() -> None:
    """Twelve lost pods within five minutes of apply, and the budgets are as they were."""
    status = decide(build.observation()).status
    for n in range(12):
        slot, incarnation = n % 2, n // 2
        nodes = build.nodes("n0", "n1", "n2", "c")
        nodes[f"n{slot}"] = build.node(f"n{slot}", ready="Unknown")
        present = [build.pod(s, status.incarnations.get(str(s), 0)) for s in (0, 1, 2)]
        workers = tuple(
            build.worker(p.slot, -1 if p.slot == slot else p.slot, p.incarnation) for p in present
        )
        silent = replace_worker(workers, slot)
        report = build.fault(
            "worker",
            n + 1,
            slot=slot,
            incarnation=incarnation,
            pod_uid=f"worker-{slot}-{incarnation}",
            position=slot,
            rank=-1,
            step=-1,
        )
        view = build.view(faults=(report,), workers=silent, **NO_STEP)
        seen = starting(
            NOW + 20 * n,
            status,
            pods=(*present, build.coordinator()),
            nodes=nodes,
            view=view,
            matching_nodes=9,
            matching_nodes_bad=1,
        )
        status = decide(seen).status
    assert status.phase is not Phase.FAILED
    assert status.windows == {}
    assert status.restarts_without_progress == 0
    assert status.incarnations == {"0": 6, "1": 6}


def replace_worker(workers: tuple[Any, ...], slot: int) -> tuple[Any, ...]:
    """The workers, one of which is not heard any more."""
    lost = build.worker(slot, -1, workers[slot].incarnation, connected=False)
    return tuple(lost if worker.slot == slot else worker for worker in workers)


def test_a_script_that_cannot_load_is_a_start_that_failed_and_ends_with_its_last_line() -> None:
    status = decide(build.observation()).status
    faults: tuple[FaultReport, ...] = ()
    for round_ in range(7):
        report = build.fault(
            "exit",
            round_ + 1,
            round=round_,
            step=-1,
            exit_code=1,
            before_step=True,
            backoff_seconds=5.0 * 2**round_,
            slot=round_ % 2,
            pod_uid=f"worker-{round_ % 2}-0",
            rank=2 * (round_ % 2),
            message="HTTPError: 429",
        )
        faults = (*faults, report)
        view = build.view(faults=faults, round=round_, **NO_STEP)
        decision = decide(starting(NOW + 200 * round_, status, view=view))
        status = decision.status
        if round_ == 0:
            assert status.last_fault is not None
            assert status.last_fault.fault_class is FaultClass.START_FAILED
            assert "429" in status.message
            assert "next start in 5 s" in status.message
    assert status.reason == Reason.NO_PROGRESS
    assert "429" in status.message
    assert status.nodes.strikes == {}


def test_a_trained_job_whose_ranks_fail_at_load_stays_in_job() -> None:
    """A storage that is away for two minutes costs no pod, no node and no gang."""
    first = build.fault("exit", 1, before_step=True, step=10)
    _, seen = build.after(build.running(view=build.view(faults=(first,))))
    other = build.fault(
        "exit", 2, before_step=True, step=10, round=1, slot=0, pod_uid="worker-0-0", rank=0
    )
    view = build.view(step=-1, highest_step=10, round=1, faults=(first, other))
    status = decide(replace(seen, view=view, now=NOW + 10)).status
    assert status.recovery is not None
    assert status.recovery.rung is Rung.IN_JOB
    assert status.restarts.summary == "0/2/0/0/0"


# --- edits ---

EDITED = build.spec(template={"spec": {"containers": [{"name": "trainer", "image": "trainer:2"}]}})


def test_an_edit_that_no_pass_saw_coming_is_a_save_and_a_new_run() -> None:
    """Suspended, edited and resumed between two looks: the new image never joins the old gang."""
    status = build.running_status()
    assert status.run_spec_hash
    decision, seen = build.after(build.running(EDITED, status))
    assert decision.status.phase is Phase.SUSPENDING
    suspended = next(c for c in decision.status.conditions if c.type == "Suspended")
    assert suspended.reason == Reason.SPEC_CHANGED
    assert build.actions(decision, CreatePod) == []
    left = replace(seen, view=build.view(outcome=Outcome(state="saved")), now=NOW + 5)
    after = decide(left).status
    assert after.run == 2
    assert after.run_spec_hash not in ("", status.run_spec_hash)
    assert after.incarnations == {"0": 1, "1": 1, "2": 1}


def test_a_job_that_has_never_trained_takes_an_edit_at_once() -> None:
    """An image that cannot be pulled needs no suspension to be corrected."""
    _, seen = build.after(build.observation())
    pending = (build.pod(0, phase="Pending"), build.pod(1, phase="Pending"), build.coordinator())
    status = decide(build.observation(EDITED, seen.job.status, pods=pending)).status
    assert status.run == 2
    assert status.phase is not Phase.SUSPENDING
    assert status.incarnations == {"0": 1, "1": 1, "2": 1}


def test_more_spares_are_no_other_run() -> None:
    decision = decide(build.running(build.spec(spares=2), build.running_status()))
    assert decision.status.phase is Phase.RUNNING


# --- nobody leads ---


@pytest.mark.parametrize(
    ("unled", "want"),
    [
        pytest.param(0.0, Phase.FAILED, id="all of the hour was led"),
        pytest.param(3500.0, Phase.RECOVERING, id="an hour in which nobody could make the pod"),
    ],
)
def test_no_deadline_runs_while_nobody_leads(unled: float, want: Phase) -> None:
    gone = (build.pod(0), build.pod(2), build.coordinator())
    view = build.view(workers=(build.worker(0, 0),))
    spare_less = build.spec(spares=0)
    first, seen = build.after(
        build.running(spare_less, pods=(gone[0], gone[2]), view=view, epoch=4)
    )
    assert first.status.epoch == 4
    late = replace(seen, now=NOW + 3601, epoch=5, unled_seconds=unled)
    decision, again = build.after(late)
    assert decision.status.phase is want
    assert decide(again).status == decision.status, "put off once, not at each look"
    if want is Phase.RECOVERING:
        recovery = decision.status.recovery
        assert recovery is not None
        assert unix(recovery.deadline_time) > NOW + 3601 - 300


def test_a_new_leader_of_a_job_without_clocks_writes_nothing() -> None:
    status = build.running_status()
    decision = decide(build.running(status=status, epoch=9, unled_seconds=60.0))
    assert decision.status == status


def test_a_change_of_leaders_in_the_middle_of_a_recovery_writes_nothing() -> None:
    """Else operators that follow one another fast would only ever write that they lead."""
    _, seen = build.after(build.running(view=build.view(faults=(build.fault("exit"),)), epoch=4))
    assert seen.job.status.recovery is not None
    decision = decide(replace(seen, epoch=5, unled_seconds=4.0))
    assert decision.status == seen.job.status

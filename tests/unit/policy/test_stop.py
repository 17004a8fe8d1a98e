"""How a job ends or rests."""

from typing import Any

import pytest

from rtj_api.messages import JobView, Outcome, TerminationMessage
from rtj_api.reasons import ConditionType, EventReason, Phase, Reason
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import (
    CreatePod,
    Decision,
    DeleteJob,
    DeletePod,
    EmitEvent,
    SendDirective,
)
from rtj_operator.policy.observation import ContainerObservation, ProfileObservation
from tests.unit.policy import build
from tests.unit.policy.build import NOW

SUCCEEDED = Outcome(state="succeeded")


def stop(decision: Decision) -> str:
    (sent,) = build.actions(decision, SendDirective)
    return sent.directive.stop


def deleted(decision: Decision) -> list[str]:
    return [d.name.removeprefix("demo-") for d in build.actions(decision, DeletePod)]


# --- completion ---


def test_complete_lets_workers_end_by_themselves() -> None:
    decision, again = build.after(build.running(view=build.view(outcome=SUCCEEDED)))
    assert (decision.status.phase, decision.status.reason) == (
        Phase.COMPLETE,
        Reason.TRAINING_FINISHED,
    )
    assert stop(decision) == "now"
    assert deleted(decision) == []
    assert build.told(decision) == [EventReason.COMPLETED]
    assert decide(again).status == decision.status


def test_then_coordinator_and_spares_go_and_logs_stay() -> None:
    _, seen = build.after(build.running(view=build.view(outcome=SUCCEEDED)))
    ended = (
        build.pod(0, phase="Succeeded", termination=finished(0)),
        build.pod(1, phase="Succeeded", termination=finished(1)),
        build.pod(2, phase="Succeeded", termination=finished(-1)),
    )
    later = build.running(status=seen.job.status, pods=(*ended, build.coordinator()))
    assert deleted(decide(later)) == ["worker-2-0", "coordinator-0"]


def test_the_last_step_of_a_complete_job_is_the_highest() -> None:
    view = build.view(step=8, highest_step=10, outcome=SUCCEEDED)
    assert decide(build.running(view=view)).status.progress.step == 10


SIDECAR = ContainerObservation(name="logs", state="running")


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(build.view(outcome=SUCCEEDED), id="complete"),
        pytest.param(build.view(faults=(build.fault("exit", exit_code=93),)), id="the suspect"),
    ],
)
def test_a_pod_that_only_a_sidecar_keeps_goes_with_its_trainer(view: JobView) -> None:
    _, seen = build.after(build.running(view=view))
    assert seen.job.status.phase in (Phase.COMPLETE, Phase.FAILED)
    over = (build.terminated(0), SIDECAR)
    pods = (
        build.pod(0, containers=over, termination=finished(0)),
        build.pod(1, containers=over, termination=finished(1)),
        build.coordinator(),
    )
    decision = decide(build.running(status=seen.job.status, pods=pods))
    assert deleted(decision) == ["worker-0-0", "worker-1-0", "coordinator-0"]


EVERYBODY = ["worker-0-0", "worker-1-0", "worker-2-0", "coordinator-0"]


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"now": NOW + 89}, [], id="within the grace"),
        pytest.param({"now": NOW + 89, "view": None}, [], id="a new leader has no view yet"),
        pytest.param({"now": NOW + 90}, EVERYBODY, id="the grace is over"),
        pytest.param(
            {"pods": (build.pod(0), build.pod(1), build.pod(2))},
            EVERYBODY[:3],
            id="no coordinator could tell them",
        ),
        pytest.param(
            {"nodes": build.nodes("n0", "n2", "c")}, ["worker-1-0"], id="one is on a lost node"
        ),
    ],
)
def test_workers_that_do_not_end_are_deleted(fields: dict[str, Any], want: list[str]) -> None:
    _, seen = build.after(build.running(view=build.view(outcome=SUCCEEDED)))
    assert sorted(deleted(decide(build.running(status=seen.job.status, **fields)))) == sorted(want)


def finished(position: int, **fields: Any) -> TerminationMessage:
    values: dict[str, Any] = {"run": 1, "position": position, "outcome": "finished"}
    return TerminationMessage(**(values | fields))


@pytest.mark.parametrize(
    ("messages", "want"),
    [
        pytest.param((finished(0), finished(1)), True, id="every position finished"),
        pytest.param((finished(0), finished(-1)), False, id="a spare's word is no position's"),
        pytest.param((finished(0), finished(0)), False, id="one position twice"),
        pytest.param((finished(0), finished(1, run=0)), False, id="of an older run"),
        pytest.param((finished(0), finished(1, outcome="saved")), False, id="saved and left"),
    ],
)
def test_success_while_the_operator_was_away(
    messages: tuple[TerminationMessage, ...], want: bool
) -> None:
    ended = (
        build.pod(i, phase="Succeeded", termination=message, containers=(build.terminated(0),))
        for i, message in enumerate(messages)
    )
    decision = decide(build.running(pods=tuple(ended), view=None, view_connected=False))
    assert (decision.status.phase is Phase.COMPLETE) is want


def test_a_refusal_to_restart_fails_the_job() -> None:
    view = build.view(outcome=Outcome(state="refused", message="hardware is sick"))
    decision = decide(build.running(view=view))
    assert (decision.status.phase, decision.status.reason) == (Phase.FAILED, Reason.DO_NOT_RESTART)
    assert "hardware is sick" in decision.status.message


def test_an_outcome_of_an_older_run_ends_nothing() -> None:
    status = build.running_status(run=2)
    decision = decide(build.running(status=status, view=build.view(outcome=SUCCEEDED)))
    assert decision.status.phase is not Phase.COMPLETE


# --- failure ---


def test_a_failed_job_keeps_the_suspect_readable_and_stops_the_others() -> None:
    report = build.fault("exit", exit_code=1)
    none: dict[str, Any] = {rung: {"limit": 0} for rung in ("inJob", "pod", "node", "gang")}
    seen = build.running(build.spec(resilience=none), view=build.view(faults=(report,)))
    decision, again = build.after(seen)
    assert decision.status.phase is Phase.FAILED
    assert stop(decision) == "now"
    assert deleted(decision) == ["worker-0-0", "worker-2-0"]
    ended = (build.pod(1, phase="Failed"), build.coordinator())
    assert deleted(decide(build.running(status=again.job.status, pods=ended))) == ["coordinator-0"]
    assert build.actions(decide(again), CreatePod) == []


# --- suspension and deadlines ---


@pytest.mark.parametrize(
    ("view", "want_phase", "want_stop"),
    [
        pytest.param({}, Phase.SUSPENDING, "save", id="ranks are asked to save"),
        pytest.param(
            {"outcome": Outcome(state="saved")}, Phase.SUSPENDED, "now", id="all saved and left"
        ),
        pytest.param(
            {"outcome": Outcome(state="stopped")}, Phase.SUSPENDED, "now", id="nothing trains"
        ),
        pytest.param(
            {"outcome": SUCCEEDED}, Phase.COMPLETE, "now", id="the end was reached meanwhile"
        ),
        pytest.param(
            {"step": -1, "ranks_training": 0}, Phase.SUSPENDED, "now", id="nothing to save yet"
        ),
    ],
)
def test_suspend(view: dict[str, Any], want_phase: Phase, want_stop: str) -> None:
    seen = build.running(build.spec(suspend=True), view=build.view(**view))
    decision, again = build.after(seen)
    assert decision.status.phase is want_phase
    assert stop(decision) == want_stop
    assert decide(again).status == decision.status
    if want_phase is Phase.SUSPENDED:
        assert len(deleted(decision)) == 4
        assert build.told(decision) == [EventReason.SUSPENDED]


SAVED = build.view(outcome=Outcome(state="saved"))
UNHEARD = "The coordinator does not run, so training ends at its last checkpoint"


@pytest.mark.parametrize(
    ("workers", "view", "want"),
    [
        pytest.param({}, build.view(), UNHEARD, id="nobody leads the ranks out"),
        pytest.param({}, None, UNHEARD, id="nor was it ever heard"),
        pytest.param({}, SAVED, "All ranks left", id="ranks had left before it ended"),
        pytest.param({"phase": "Succeeded"}, None, "All ranks left", id="no worker runs"),
    ],
)
def test_without_a_coordinator_nobody_is_waited_for_and_the_words_say_so(
    workers: dict[str, Any], view: JobView | None, want: str
) -> None:
    pods = (build.pod(0, **workers), build.pod(1, **workers), build.coordinator(phase="Failed"))
    blind: dict[str, Any] = {"pods": pods, "view": view, "view_connected": False}
    decision = decide(build.running(build.spec(suspend=True), **blind))
    assert decision.status.phase is Phase.SUSPENDED
    assert f"{want}; pods are deleted" in [e.message for e in build.actions(decision, EmitEvent)]
    late = decide(build.running(build.spec(activeDeadlineSeconds=100), now=NOW + 100, **blind))
    assert late.status.reason == Reason.ACTIVE_DEADLINE_EXCEEDED
    assert want in late.status.message


def test_ranks_that_do_not_leave_are_left_behind_after_the_grace() -> None:
    suspend = build.spec(
        suspend=True, template={"spec": {"terminationGracePeriodSeconds": 30, "containers": []}}
    )
    first, seen = build.after(build.running(suspend))
    assert first.wake_after_seconds == 30.0
    decision = decide(build.running(suspend, seen.job.status, now=NOW + 30))
    assert decision.status.phase is Phase.SUSPENDED
    (event,) = build.actions(decision, EmitEvent)
    assert event.message.startswith("Not all ranks left within 30 s")


def test_ranks_on_gpus_have_more_time_to_save() -> None:
    gpus = ProfileObservation(
        name="p5.48xlarge", processes_per_node=8, device="cuda", grace_seconds=600.0
    )
    first, _ = build.after(build.running(build.spec(suspend=True), profile=gpus))
    assert first.wake_after_seconds == 600.0


def test_faults_while_saving_start_no_recovery() -> None:
    view = build.view(faults=(build.fault("exit"),))
    decision = decide(build.running(build.spec(suspend=True), view=view))
    assert decision.status.recovery is None
    assert decision.status.restarts.summary == "0/0/0/0/0"


def test_the_active_deadline_saves_then_fails() -> None:
    limited = build.spec(activeDeadlineSeconds=100)
    ahead = decide(build.running(limited))
    assert ahead.wake_after_seconds == 100.0
    late = build.running(limited, now=NOW + 100)
    decision, seen = build.after(late)
    assert (decision.status.phase, stop(decision)) == (Phase.SUSPENDING, "save")
    view = build.view(outcome=Outcome(state="saved"))
    end = decide(build.running(limited, seen.job.status, now=NOW + 101, view=view))
    assert end.status.reason == Reason.ACTIVE_DEADLINE_EXCEEDED
    assert "spec.activeDeadlineSeconds" in end.status.message


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param(NOW + 99, Phase.SUSPENDED, id="before the deadline"),
        pytest.param(NOW + 100, Phase.FAILED, id="after it"),
    ],
)
def test_a_suspension_asked_for_in_time_is_none_that_the_deadline_ends(
    asked: float, want: Phase
) -> None:
    both = build.spec(suspend=True, activeDeadlineSeconds=100)
    _, seen = build.after(build.running(both, now=asked))
    view = build.view(outcome=Outcome(state="saved"))
    end = decide(build.running(both, seen.job.status, now=NOW + 110, view=view))
    assert end.status.phase is want


def test_the_start_deadline_fails_with_what_was_missing() -> None:
    _, seen = build.after(build.observation())
    stuck = (build.pod(0), build.pod(1, phase="Pending", unschedulable="0/3 nodes fit"))
    changes: dict[str, Any] = {"pods": (*stuck, build.coordinator())}
    waiting, seen = build.after(build.observation(status=seen.job.status, **changes))
    assert waiting.status.reason == Reason.UNSCHEDULABLE
    late = build.observation(status=seen.job.status, now=NOW + 3600, **changes)
    decision = decide(late)
    assert decision.status.reason == Reason.START_DEADLINE_EXCEEDED
    assert "0/3 nodes fit" in decision.status.message
    assert "startDeadlineSeconds" in decision.status.message


def test_a_recovery_s_deadline_counts_from_when_all_workers_are_there() -> None:
    pods = (build.pod(0), build.pod(1, phase="Failed"), build.coordinator())
    few = build.spec(spares=0)
    view = build.view(workers=(build.worker(0, 0),))
    _, seen = build.after(build.running(few, pods=pods, view=view))
    assert seen.job.status.recovery is not None
    back = (build.pod(0), build.pod(1, 1), build.coordinator())
    workers = (build.worker(0, 0), build.worker(1, 1, 1))
    stands = build.view(step=-1, highest_step=10, workers=workers)
    decision = decide(build.running(few, seen.job.status, pods=back, view=stands, now=NOW + 1000))
    assert decision.status.recovery is not None
    assert decision.status.recovery.deadline_time == "2027-01-15T08:21:40Z"


@pytest.mark.parametrize(
    ("blip", "want"),
    [
        pytest.param({"view": None, "view_connected": False}, "08:05:00", id="only the view"),
        pytest.param(
            {"view": build.view(workers=(build.worker(0, 0),))}, "08:05:00", id="a late agent"
        ),
        pytest.param(
            {"pods": (build.pod(0), build.coordinator()), "view_connected": False},
            "08:07:00",
            id="a pod",
        ),
        pytest.param(
            {
                "pods": (build.pod(0), build.pod(1), build.coordinator(phase="Pending")),
                "view_connected": False,
            },
            "08:07:00",
            id="the coordinator's pod",
        ),
    ],
)
def test_only_a_pod_that_was_missing_puts_the_deadline_off(blip: dict[str, Any], want: str) -> None:
    few = build.spec(spares=0)
    view = build.view(step=-1, highest_step=10, faults=(build.fault("exit"),))
    steady: dict[str, Any] = {
        "pods": (build.pod(0), build.pod(1), build.coordinator()),
        "view": view,
    }
    _, seen = build.after(build.running(few, **steady))
    awaited = seen.job.status.model_copy(update={"awaited": (1,)})
    _, seen = build.after(build.running(few, awaited, **(steady | {"now": NOW + 60} | blip)))
    assert [sign.signal for sign in seen.job.status.pending] == ["GangIncomplete"]
    _, seen = build.after(build.running(few, seen.job.status, **steady, now=NOW + 120))
    recovery = seen.job.status.recovery
    assert recovery is not None
    assert recovery.deadline_time == f"2027-01-15T{want}Z"


@pytest.mark.parametrize(
    ("ttl", "age", "want", "want_wake"),
    [
        pytest.param(None, 10_000, 0, None, id="kept for ever"),
        pytest.param(600, 599, 0, 1.0, id="not yet"),
        pytest.param(600, 600, 1, None, id="over"),
    ],
)
def test_time_to_live(ttl: int | None, age: int, want: int, want_wake: float | None) -> None:
    spec = build.spec(ttlSecondsAfterFinished=ttl)
    _, seen = build.after(build.running(spec, view=build.view(outcome=SUCCEEDED)))
    decision = decide(build.running(spec, seen.job.status, pods=(), now=NOW + age))
    assert len(build.actions(decision, DeleteJob)) == want
    assert decision.wake_after_seconds == want_wake


def test_a_suspended_condition_says_how_to_go_on() -> None:
    decision = decide(build.observation(build.spec(suspend=True)))
    condition = next(c for c in decision.status.conditions if c.type == ConditionType.SUSPENDED)
    assert "spec.suspend" in condition.message

"""Objects for policy tests: small, valid, and told apart only by what a case is about."""

from dataclasses import replace
from typing import Any

from rtj_api.messages import FaultReport, JobView, LauncherState, WorkerView
from rtj_api.reasons import EventReason
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_api.status import ResilientTrainingJobStatus
from rtj_operator.policy.accept import accept
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import Decision, EmitEvent
from rtj_operator.policy.observation import (
    ContainerObservation,
    JobObservation,
    NodeObservation,
    Observation,
    PodObservation,
    ProfileObservation,
)
from rtj_operator.policy.plan import Plan

NOW = 1_800_000_000.0
JOB = "demo"
CPU = ProfileObservation(name="cpu", processes_per_node=2, device="cpu")


def spec(**fields: Any) -> ResilientTrainingJobSpec:
    """Two nodes of two ranks and a spare, unless said otherwise."""
    given: dict[str, Any] = {
        "nodes": 2,
        "spares": 1,
        "instanceType": "cpu",
        "template": {"spec": {"containers": [{"name": "trainer", "image": "trainer"}]}},
    }
    # Without a standby coordinator unless a case is about it: it would be one pod more everywhere.
    resilience = {"coordinator": {"standby": False}} | fields.pop("resilience", {})
    return ResilientTrainingJobSpec.model_validate(given | fields | {"resilience": resilience})


def job(
    given: ResilientTrainingJobSpec | None = None,
    status: ResilientTrainingJobStatus | None = None,
    **fields: Any,
) -> JobObservation:
    """The job, newly made unless it has a status."""
    values: dict[str, Any] = {
        "namespace": "default",
        "name": JOB,
        "uid": "job-uid",
        "generation": 1,
        "resource_version": "1",
        "spec": given or spec(),
        "status": status or ResilientTrainingJobStatus(),
    }
    return JobObservation(**(values | fields))


def observation(
    given: ResilientTrainingJobSpec | None = None,
    status: ResilientTrainingJobStatus | None = None,
    **fields: Any,
) -> Observation:
    """A snapshot at NOW of a cpu job and four idle nodes."""
    values: dict[str, Any] = {
        "now": NOW,
        "job": job(given, status),
        "profile": CPU,
        "nodes": nodes("n0", "n1", "n2", "c"),
    }
    return Observation(**(values | fields))


def pod(slot: int, incarnation: int = 0, **fields: Any) -> PodObservation:
    """A running worker on node n<slot>."""
    values: dict[str, Any] = {
        "name": f"{JOB}-worker-{slot}-{incarnation}",
        "uid": f"worker-{slot}-{incarnation}",
        "role": "worker",
        "slot": slot,
        "incarnation": incarnation,
        "phase": "Running",
        "created": NOW - 600,
        "node": f"n{slot}",
    }
    return PodObservation(**(values | fields))


def coordinator(incarnation: int = 0, **fields: Any) -> PodObservation:
    """A running coordinator on node c."""
    return pod(
        0,
        incarnation,
        **{
            "name": f"{JOB}-coordinator-{incarnation}",
            "uid": f"coordinator-{incarnation}",
            "role": "coordinator",
            "node": "c",
        }
        | fields,
    )


def node(name: str, **fields: Any) -> NodeObservation:
    """A ready node."""
    values: dict[str, Any] = {"name": name, "uid": f"{name}-uid"}
    return NodeObservation(**(values | fields))


def nodes(*names: str) -> dict[str, NodeObservation]:
    """Ready nodes by name."""
    return {name: node(name) for name in names}


def worker(slot: int, position: int, incarnation: int = 0, **fields: Any) -> WorkerView:
    """A connected worker as the coordinator sees it; position -1 is a spare."""
    values: dict[str, Any] = {
        "slot": slot,
        "incarnation": incarnation,
        "pod_uid": f"worker-{slot}-{incarnation}",
        "connected": True,
        "position": position,
        "launcher": LauncherState(state="training" if position >= 0 else "parked"),
    }
    return WorkerView(**(values | fields))


def view(*, step: int = 10, faults: tuple[FaultReport, ...] = (), **fields: Any) -> JobView:
    """Two workers in training and a spare, at a step."""
    values: dict[str, Any] = {
        "coordinator_incarnation": 0,
        "run": 1,
        "round": 0,
        "control": "running",
        "workers": (worker(0, 0), worker(1, 1), worker(2, -1)),
        "step": step,
        "highest_step": step,
        "ranks_training": 4,
        "faults": faults,
    }
    return JobView(**(values | fields))


def fault(kind: str, number: int = 1, **fields: Any) -> FaultReport:
    """A report about rank 2 in slot 1 at step 10 of round 0."""
    values: dict[str, Any] = {
        "number": number,
        "kind": kind,
        "run": 1,
        "round": 0,
        "slot": 1,
        "incarnation": 0,
        "pod_uid": "worker-1-0",
        "position": 1,
        "rank": 2,
        "step": 10,
        "detected_unix": NOW - 0.5,
        "detected_seconds": 0.2,
    }
    return FaultReport(**(values | fields))


def terminated(exit_code: int, **fields: Any) -> ContainerObservation:
    """A trainer container that ended."""
    values: dict[str, Any] = {"name": "trainer", "state": "terminated", "exit_code": exit_code}
    return ContainerObservation(**(values | fields))


def running_status(**fields: Any) -> ResilientTrainingJobStatus:
    """Status of the job that `running` shows, in steady state."""
    started = decide(observation()).status
    settled = decide(running(status=started)).status
    return settled.model_copy(update=fields)


def running(
    given: ResilientTrainingJobSpec | None = None,
    status: ResilientTrainingJobStatus | None = None,
    **fields: Any,
) -> Observation:
    """A job that trains: two workers, a spare, the coordinator and its view."""
    values: dict[str, Any] = {
        "pods": (pod(0), pod(1), pod(2), coordinator()),
        "view": view(),
        "view_connected": True,
    }
    if status is None:
        status = running_status()
    return observation(given, status, **(values | fields))


def plan(seen: Observation) -> Plan:
    """The plan of a snapshot, before any rule."""
    accepted = accept(seen)
    assert not isinstance(accepted, Decision)
    return accepted


def after(seen: Observation, **changes: Any) -> tuple[Decision, Observation]:
    """What is decided, and the snapshot after its status was written, with other changes."""
    decision = decide(seen)
    written = replace(seen.job, status=decision.status)
    return decision, replace(seen, **({"job": written} | changes))


def actions[A](decision: Decision, kind: type[A]) -> list[A]:
    """Actions of one kind, in order."""
    return [action for action in decision.actions if isinstance(action, kind)]


def told(decision: Decision) -> list[EventReason]:
    """Reasons of the Events, in order."""
    return [event.reason for event in actions(decision, EmitEvent)]

"""What rules ask of a job in more than one file."""

from typing import Any

import pytest

from rtj_api.status import PendingSignal, WorkersStatus
from rtj_operator.policy.observation import ContainerObservation
from rtj_operator.policy.plan import changed, dead, ended, runs
from tests.unit.policy import build
from tests.unit.policy.build import NOW

OVER = (build.terminated(0), ContainerObservation(name="sidecar", state="running"))


def test_an_unchanged_model_stays_the_very_same() -> None:
    workers = WorkersStatus(desired=2)
    assert changed(workers, desired=2) is workers
    assert changed(workers, desired=3).desired == 3


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        pytest.param({}, {}, False, id="trains"),
        pytest.param({"suspend": True}, {}, True, id="spec.suspend stops"),
        pytest.param({"activeDeadlineSeconds": 5}, {}, False, id="deadline is ahead"),
        pytest.param({"activeDeadlineSeconds": 5}, {"now": NOW + 5}, True, id="deadline passed"),
        pytest.param(
            {},
            {"pending": True},
            True,
            id="a suspension begun goes on though spec.suspend was taken back",
        ),
    ],
)
def test_stopping(spec: dict[str, Any], status: dict[str, Any], want: bool) -> None:
    fields = {}
    if status.get("pending"):
        sign = PendingSignal(
            signal="Suspending", subject="job", first_seen_time="2027-01-15T08:00:00Z"
        )
        fields = {"pending": (sign,)}
    seen = build.running(
        build.spec(**spec), build.running_status(**fields), now=status.get("now", NOW)
    )
    assert build.plan(seen).stopping is want


@pytest.mark.parametrize(
    ("incarnation", "connected", "want"),
    [
        pytest.param(0, True, True, id="of the coordinator that counts"),
        pytest.param(1, True, False, id="of another coordinator"),
        pytest.param(0, False, False, id="no connection, no live view"),
    ],
)
def test_live_view(incarnation: int, connected: bool, want: bool) -> None:
    seen = build.running(
        view=build.view(coordinator_incarnation=incarnation), view_connected=connected
    )
    assert (build.plan(seen).live_view is not None) is want


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, True, id="connected and speaking"),
        pytest.param({"connected": False}, False, id="connection closed"),
        pytest.param({"silent_seconds": 6.0}, False, id="frozen with its connection open"),
    ],
)
def test_hears(fields: dict[str, Any], want: bool) -> None:
    assert build.plan(build.running()).hears(build.worker(0, 0, **fields)) is want


def test_superseded_pods_are_those_of_another_incarnation() -> None:
    status = build.running_status(incarnations={"1": 2})
    pods = (build.pod(0), build.pod(1, 1), build.pod(1, 2), build.coordinator(3))
    plan = build.plan(build.running(status=status, pods=pods))
    assert [pod.name for pod in plan.superseded()] == ["demo-worker-1-1", "demo-coordinator-3"]
    assert {slot: pod.incarnation for slot, pod in plan.worker_pods().items()} == {0: 0, 1: 2}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, (True, False), id="works"),
        pytest.param({"phase": "Failed"}, (False, True), id="ended"),
        pytest.param({"containers": OVER}, (False, True), id="a sidecar outlives the trainer"),
        pytest.param(
            {"containers": OVER, "deleting": True}, (False, False), id="the trainer was told to end"
        ),
        pytest.param(
            {"containers": (build.terminated(1, name="sidecar"),)},
            (True, False),
            id="the trainer outlives a sidecar",
        ),
    ],
)
def test_a_pod_works_as_long_as_its_trainer(
    fields: dict[str, Any], want: tuple[bool, bool]
) -> None:
    pod = build.pod(0, **fields)
    assert (runs(pod), dead(pod)) == want


def test_a_deleting_pod_does_not_run_and_has_not_ended() -> None:
    pod = build.pod(0, deleting=True)
    assert not runs(pod)
    assert not ended(pod)

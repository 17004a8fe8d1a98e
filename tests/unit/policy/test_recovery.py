"""The recovery under way and its end."""

from typing import Any

import pytest

from rtj_api.ladder import Rung
from rtj_api.reasons import EventReason, Phase
from rtj_api.status import HISTORY_MAX, HistoryEntry
from rtj_operator.policy.decide import decide
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def test_a_reservation_names_pod_and_node_by_uid() -> None:
    nodes = build.nodes("n0", "n2", "c") | {"n1": build.node("n1", provider_id="aws:///i-1")}
    report = build.fault("launcher", exit_code=1)
    recovery = decide(build.running(nodes=nodes, view=build.view(faults=(report,)))).status.recovery
    assert recovery is not None
    assert recovery.pod is not None
    assert recovery.node is not None
    assert (recovery.pod.uid, recovery.node.uid) == ("worker-1-0", "n1-uid")
    assert recovery.node.provider_id == "aws:///i-1"
    assert (recovery.slot, recovery.incarnation, recovery.rank) == (1, 0, 2)
    assert recovery.detected_unix == NOW - 0.5
    assert recovery.deadline_time == "2027-01-15T08:05:00Z"


@pytest.mark.parametrize(
    ("view", "report", "want_seconds", "want_lost_steps"),
    [
        pytest.param(
            {"step": 11},
            {"recovered_seconds": 4.25, "resumed_step": 7},
            4.25,
            3,
            id="as the coordinator measured it",
        ),
        pytest.param(
            {"step": 11}, {}, 10.5, None, id="by the view, when the report says nothing yet"
        ),
    ],
)
def test_a_new_step_ends_it(
    view: dict[str, Any], report: dict[str, Any], want_seconds: float, want_lost_steps: int | None
) -> None:
    _, seen = build.after(build.running(view=build.view(faults=(build.fault("exit"),))))
    after = build.view(faults=(build.fault("exit", **report),), **view)
    decision = decide(build.running(status=seen.job.status, now=NOW + 10, view=after))
    (entry,) = decision.status.history
    assert (entry.recovered_seconds, entry.lost_steps) == (want_seconds, want_lost_steps)
    assert (entry.rung, entry.suspect, entry.rank) == (Rung.IN_JOB, "n1", 2)
    assert decision.status.phase is Phase.RUNNING
    assert decision.status.recovery is None
    assert build.told(decision) == [EventReason.RECOVERED]
    assert decision.counted == (("InJob", "ProcessDied"),)


@pytest.mark.parametrize(
    "view",
    [
        pytest.param({"step": 10}, id="the highest step again is no new one"),
        pytest.param({"step": 4, "highest_step": 10}, id="steps made a second time"),
        pytest.param({"step": 11, "run": 0}, id="of an older run"),
        pytest.param({"step": 11, "coordinator_incarnation": 9}, id="of another coordinator"),
    ],
)
def test_it_goes_on_without_one(view: dict[str, Any]) -> None:
    _, seen = build.after(build.running(view=build.view(faults=(build.fault("exit"),))))
    after = build.view(faults=(build.fault("exit"),), **view)
    decision = decide(build.running(status=seen.job.status, now=NOW + 10, view=after))
    assert decision.status.recovery is not None
    assert decision.status.history == ()


def test_faults_that_came_and_went_unseen_are_all_in_history() -> None:
    faults = (
        build.fault("exception", 1, recovered_seconds=1.0),
        build.fault("exception", 2, step=20, recovered_seconds=2.0),
    )
    decision = decide(build.running(view=build.view(step=40, faults=faults)))
    assert [entry.recovered_seconds for entry in decision.status.history] == [1.0, 2.0]
    assert [entry.number for entry in decision.status.history] == [1, 2]
    assert decision.status.phase is Phase.RUNNING


def test_history_keeps_the_newest_and_numbers_go_on() -> None:
    old = tuple(
        HistoryEntry.model_validate({"number": n, "rung": "Pod", "class": "PodDied"})
        for n in range(1, HISTORY_MAX + 1)
    )
    status = build.running_status(history=old)
    report = build.fault("exit", recovered_seconds=1.0)
    history = decide(build.running(status=status, view=build.view(faults=(report,)))).status.history
    assert len(history) == HISTORY_MAX
    assert history[-1].number == HISTORY_MAX + 1

"""A job's history names what broke before its end, whenever the operator hears of it."""

import pytest

from rtj_api.messages import FaultReport, Outcome
from rtj_api.reasons import Phase
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod, DeletePod
from tests.unit.policy import build

SUCCEEDED = Outcome(state="succeeded")
SILENT = (build.worker(0, 0), build.worker(1, -1, connected=False), build.worker(2, 1))


def over(kind: str, number: int = 1, **fields: object) -> FaultReport:
    return build.fault(kind, number, **{"recovered_seconds": 3.0, "resumed_step": 8, **fields})


@pytest.mark.parametrize(
    ("reports", "want", "summary"),
    [
        pytest.param((), [], "0/0/0/0/0", id="nothing broke"),
        pytest.param(
            (over("exception"), over("exit", 2, round=1)),
            [("Application", "InProcess", 3.0, 2), ("ProcessDied", "InJob", 3.0, 2)],
            "1/1/0/0/0",
            id="each in its place",
        ),
        pytest.param(
            (over("worker"),),
            [("NodeLost", "Node", 3.0, 2)],
            "0/0/0/1/0",
            id="no time to wait for the cluster's word",
        ),
        pytest.param(
            (build.fault("launcher"),),
            [],
            "0/0/0/0/0",
            id="what ends with the training is no fault",
        ),
    ],
)
def test_reports_that_no_pass_took_in(
    reports: tuple[FaultReport, ...], want: list[object], summary: str
) -> None:
    view = build.view(faults=reports, workers=SILENT, outcome=SUCCEEDED)
    decision, again = build.after(build.running(view=view))
    history = decision.status.history
    assert decision.status.phase is Phase.COMPLETE
    assert [(e.fault_class, e.rung, e.recovered_seconds, e.lost_steps) for e in history] == want
    assert decision.status.restarts.summary == summary
    assert decide(again).status == decision.status


def test_nothing_is_done_about_them_but_to_keep_away_from_the_node() -> None:
    view = build.view(faults=(over("worker"),), workers=SILENT, outcome=SUCCEEDED)
    decision = decide(build.running(view=view))
    assert [node.name for node in decision.status.nodes.excluded] == ["n1"]
    assert decision.status.incarnations == {}
    assert build.actions(decision, CreatePod) == build.actions(decision, DeletePod) == []


def test_the_recovery_under_way_is_one_that_worked() -> None:
    reports = (build.fault("exit"),)
    _, seen = build.after(build.running(view=build.view(faults=reports)))
    assert seen.job.status.recovery is not None
    view = build.view(faults=(over("exit"),), outcome=SUCCEEDED)
    status = decide(build.running(status=seen.job.status, view=view)).status
    assert [(e.fault_class, e.recovered_seconds) for e in status.history] == [("ProcessDied", 3.0)]
    assert (status.recovery, status.restarts.summary) == (None, "0/1/0/0/0")

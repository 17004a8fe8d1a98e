"""Whose fault it was."""

from typing import Any

import pytest

from rtj_api.ladder import FaultClass
from rtj_api.messages import FaultReport
from rtj_operator.policy.decide import decide
from rtj_operator.policy.incident.ends import summarize
from rtj_operator.policy.signals.fault import Fault
from tests.unit.policy import build


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"pod": build.pod(1), "slot": 1, "rank": 3}, "PodDied (n1, rank 3)", id="node and rank"
        ),
        pytest.param({"pod": build.pod(1), "slot": 1}, "PodDied (n1)", id="node"),
        pytest.param({"slot": 1, "rank": 3}, "PodDied (slot 1, rank 3)", id="pod is gone"),
        pytest.param({}, "PodDied", id="nobody"),
    ],
)
def test_summary(fields: dict[str, Any], want: str) -> None:
    fault = Fault(fault_class=FaultClass.POD_DIED, reason="", told_by="cluster", **fields)
    assert summarize(fault) == want


def deaths(*steps: int, rank: int = 2) -> tuple[FaultReport, ...]:
    """Processes of slot 1 that died at these steps, each recovered from."""
    return tuple(
        build.fault("exit", n + 1, round=n, step=step, rank=rank, recovered_seconds=3.0)
        for n, step in enumerate(steps)
    )


def test_soft_faults_of_one_node_add_up_and_exclude_it() -> None:
    view = build.view(step=100, faults=deaths(10, 20, 30), round=3)
    decision = decide(build.running(view=view))
    assert decision.status.restarts.summary == "0/2/0/1/0"
    assert [e.name for e in decision.status.nodes.excluded] == ["n1"]
    assert decision.status.nodes.strikes == {}


def test_fewer_than_the_limit_do_not() -> None:
    view = build.view(step=100, faults=deaths(10, 20), round=2)
    decision = decide(build.running(view=view))
    assert decision.status.nodes.excluded == ()
    assert len(decision.status.nodes.strikes["n1-uid"]) == 2


def test_before_the_first_step_no_node_is_struck() -> None:
    decision = decide(build.running(view=build.view(faults=(build.fault("exit", step=-1),))))
    assert decision.status.nodes.strikes == {}


def test_a_second_worker_failing_in_the_same_round_lifts_the_blame() -> None:
    other = build.fault("exit", 2, slot=0, pod_uid="worker-0-0", rank=0)
    decision = decide(build.running(view=build.view(faults=(build.fault("exit"), other))))
    assert decision.status.nodes.strikes == {}
    assert decision.status.recovery is not None
    assert decision.status.recovery.node is None

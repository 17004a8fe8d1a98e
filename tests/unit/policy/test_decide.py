"""The whole chain: order of rules, order of effects, nothing done twice."""

from dataclasses import replace
from typing import Any

import pytest

from rtj_api.messages import Outcome
from rtj_api.reasons import Phase
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import EmitEvent
from tests.unit.policy import build


def test_steady_state_changes_nothing_and_has_no_event() -> None:
    seen = build.running()
    decision = decide(seen)
    assert decision.status is seen.job.status or decision.status == seen.job.status
    assert build.actions(decision, EmitEvent) == []
    assert decision.counted == ()


def test_effects_come_in_the_order_in_which_they_help() -> None:
    pods = (build.pod(0), build.pod(1, deleting=False), build.pod(2), build.coordinator())
    view = build.view(faults=(build.fault("launcher"),))
    kinds = [
        type(action).__name__ for action in decide(build.running(pods=pods, view=view)).actions
    ]
    effects = [kind for kind in kinds if kind != "EmitEvent"]
    assert effects == ["SendDirective", "EnsureChildren", "DeletePod", "CreatePod"]


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"view": build.view(outcome=Outcome(state="succeeded"), faults=(build.fault("exit"),))},
            Phase.COMPLETE,
            id="success comes before faults on the way out",
        ),
        pytest.param(
            {
                "pods": (build.pod(0), build.pod(1), build.pod(2)),
                "view": build.view(faults=(build.fault("control"),)),
            },
            Phase.RECOVERING,
            id="a lost coordinator explains its reports",
        ),
    ],
)
def test_order_of_rules(fields: dict[str, Any], want: Phase) -> None:
    decision = decide(build.running(**fields))
    assert decision.status.phase is want
    assert decision.status.restarts.in_job == 0
    assert decision.status.restarts.gang <= 1


@pytest.mark.parametrize("kind", ["exception", "exit", "hang", "launcher", "worker", "control"])
@pytest.mark.parametrize("crash_after", [0, 1, 2, 3])
def test_effects_lost_in_a_crash_are_found_again(kind: str, crash_after: int) -> None:
    seen = build.running(view=build.view(faults=(build.fault(kind),)))
    decision = decide(seen)
    again = decide(replace(seen, job=replace(seen.job, status=decision.status)))
    assert again.status == decision.status
    lost = [a for a in decision.actions if not isinstance(a, EmitEvent)][crash_after:]
    assert all(action in again.actions for action in lost)


def test_a_thousand_nodes_are_decided_in_a_moment() -> None:
    spec = build.spec(nodes=1000, spares=10)
    _, seen = build.after(build.observation(spec))
    pods = tuple(build.pod(slot) for slot in range(1010))
    workers = tuple(build.worker(slot, slot if slot < 1000 else -1) for slot in range(1010))
    names = [f"n{slot}" for slot in range(1010)]
    running = build.running(
        spec,
        seen.job.status,
        pods=(*pods, build.coordinator()),
        nodes=build.nodes("c", *names),
        view=build.view(workers=workers, ranks_training=2000),
    )
    decision = decide(running)
    assert decision.status.phase is Phase.RUNNING
    assert decision.status.workers.summary == "1000/1000"

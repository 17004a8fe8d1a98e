"""The whole intent for a job's pods."""

from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import SendDirective
from tests.unit.policy import build


def test_members_are_the_pods_of_incarnations_that_count() -> None:
    status = build.running_status(incarnations={"1": 1})
    pods = (build.pod(0), build.pod(1), build.pod(1, 1), build.pod(2), build.coordinator())
    (action,) = build.actions(decide(build.running(status=status, pods=pods)), SendDirective)
    directive = action.directive
    assert directive.pods == {"worker-0-0": 0, "worker-1-1": 1, "worker-2-0": 2}
    assert directive.excluded == ("worker-1-0",)


def test_an_ended_member_is_listed_until_it_is_replaced() -> None:
    pods = (build.pod(0), build.pod(1, phase="Failed"), build.pod(2), build.coordinator())
    (action,) = build.actions(decide(build.running(pods=pods)), SendDirective)
    assert "worker-1-0" in action.directive.pods


def test_settings_of_the_spec_are_passed_on() -> None:
    spec = build.spec(
        resilience={
            "heartbeat": {"intervalSeconds": 2, "timeoutSeconds": 9, "rankTimeoutSeconds": 30},
            "inProcess": {"enabled": False},
        }
    )
    (action,) = build.actions(decide(build.running(spec)), SendDirective)
    got = action.directive
    assert (got.beat_interval_seconds, got.beat_timeout_seconds) == (2.0, 9.0)
    assert (got.rank_timeout_seconds, got.in_process) == (30.0, False)
    assert (got.run, got.nodes, got.processes_per_node, got.stop) == (1, 2, 2, "none")


def test_equal_content_is_equal_for_the_sender_to_skip() -> None:
    first, second = (
        build.actions(decide(build.running()), SendDirective),
        build.actions(decide(build.running(view=build.view(step=99))), SendDirective),
    )
    assert first == second


def test_a_job_not_started_directs_nobody() -> None:
    decision = decide(build.observation(build.spec(suspend=True)))
    assert build.actions(decision, SendDirective) == []

"""From the API's objects to what decide() sees."""

import json
from typing import Any

import msgspec
import pytest

from rtj_operator.kube.objects import Node, Pod, StorageClass, Volume
from rtj_operator.policy.observation import PodObservation
from rtj_operator.work.read import (
    UnreadableStatus,
    node_observation,
    pod_observation,
    read_spec,
    read_status,
)
from rtj_operator.work.storage import class_zones, volume_zones

SPEC = {"nodes": 2, "instanceType": "cpu", "template": {"spec": {"containers": []}}}


def decoded[T](view: type[T], manifest: dict[str, Any]) -> T:
    return msgspec.json.decode(json.dumps(manifest), type=view)


def a_pod(status: dict[str, Any], **labels: str) -> PodObservation | None:
    wanted = {"role": "worker", "slot": "3", "incarnation": "2", **labels}
    return pod_observation(
        decoded(
            Pod,
            {
                "metadata": {
                    "name": "a-worker-3-2",
                    "uid": "u",
                    "labels": {f"resilience.training/{k}": v for k, v in wanted.items()},
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                },
                "spec": {"nodeName": "n1"},
                "status": status,
            },
        )
    )


def ended(**state: Any) -> dict[str, Any]:
    return {
        "phase": "Failed",
        "containerStatuses": [{"name": "trainer", "state": {"terminated": state}}],
    }


def test_pod_is_read_with_its_place_and_containers() -> None:
    pod = a_pod(ended(exitCode=137, reason="OOMKilled"))
    assert pod is not None
    assert (pod.role, pod.slot, pod.incarnation, pod.node) == ("worker", 3, 2, "n1")
    assert pod.created == 1767225600.0
    (container,) = pod.containers
    assert (container.state, container.exit_code, container.reason) == (
        "terminated",
        137,
        "OOMKilled",
    )


@pytest.mark.parametrize(
    ("message", "want_run"),
    [
        pytest.param('{"run":4,"outcome":"saved"}', 4, id="agent's JSON"),
        pytest.param("Traceback: boom", None, id="something else's text is no message"),
        pytest.param("", None, id="none"),
    ],
)
def test_termination_message(message: str, want_run: int | None) -> None:
    pod = a_pod(ended(exitCode=1, message=message))
    assert pod is not None
    assert (pod.termination.run if pod.termination else None) == want_run


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({"resilience.training/excluded-nodes": "a,b", "x": "y"}, ("a", "b"), id="two"),
        pytest.param({"x": "y"}, (), id="none"),
    ],
)
def test_nodes_that_a_pod_was_made_to_keep_off(
    annotations: dict[str, str], want: tuple[str, ...]
) -> None:
    labels = {"resilience.training/role": "coordinator", "resilience.training/incarnation": "0"}
    manifest = {"metadata": {"labels": labels, "annotations": annotations}}
    pod = pod_observation(decoded(Pod, manifest))
    assert pod is not None
    assert pod.excluded_nodes == want


def test_pod_whose_labels_do_not_say_what_it_is_is_left_out() -> None:
    assert a_pod({}, slot="x") is None
    assert a_pod({}, role="other") is None


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        pytest.param(
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"},
            {"unschedulable": "Unschedulable: no"},
            id="scheduler's words",
        ),
        pytest.param(
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
            {"disruption": "EvictionByEvictionAPI"},
            id="eviction",
        ),
    ],
)
def test_pod_condition(condition: dict[str, str], want: dict[str, Any]) -> None:
    pod = a_pod({"phase": "Running", "conditions": [condition]})
    assert {name: getattr(pod, name) for name in want} == want


def test_node_without_a_ready_condition_is_unknown() -> None:
    node = node_observation(decoded(Node, {"metadata": {"name": "n"}}))
    assert node.ready == "Unknown"


READY = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
FULL = {"type": "DiskPressure", "status": "True", "message": "98%"}


@pytest.mark.parametrize(
    ("conditions", "same"),
    [
        pytest.param(
            [{**READY, "lastHeartbeatTime": "2026-01-01T00:00:10Z"}, FULL], True, id="a heartbeat"
        ),
        pytest.param(
            [READY, {**FULL, "message": "99%"}], True, id="words of a condition that no rule reads"
        ),
        pytest.param([{**READY, "status": "Unknown"}, FULL], False, id="not ready"),
    ],
)
def test_what_of_a_node_is_news_for_its_jobs(conditions: list[dict[str, str]], same: bool) -> None:
    def having(conditions: list[dict[str, str]]) -> Node:
        return decoded(Node, {"metadata": {"name": "n"}, "status": {"conditions": conditions}})

    before, after = node_observation(having([READY, FULL])), node_observation(having(conditions))
    assert (before == after) == same


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({"nodes": 0}, "spec.nodes: ", id="too small"),
        pytest.param({"instanceType": None}, "spec.instanceType: ", id="of another type"),
        pytest.param(
            {"resilience": {"inJob": {"limit": -1}}}, "spec.resilience.inJob.limit: ", id="nested"
        ),
    ],
)
def test_problem_of_a_spec_names_the_field(change: dict[str, Any], want: str) -> None:
    spec, problem = read_spec({**SPEC, **change})
    assert spec is None
    assert problem.startswith(want)


def test_status_of_a_newer_operator_is_not_read() -> None:
    assert read_status({"format": 99, "phase": "Levitating"}).format == 99


def test_unreadable_status_stops_the_job_and_says_what_to_do() -> None:
    with pytest.raises(UnreadableStatus, match=r"status\.run: .*kubectl edit"):
        read_status({"format": 1, "run": "many"})


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param(
            {
                "spec": {
                    "nodeAffinity": {
                        "required": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {
                                            "key": "topology.ebs.csi.aws.com/zone",
                                            "operator": "In",
                                            "values": ["b", "a"],
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            ("a", "b"),
            id="affinity with a driver's own key",
        ),
        pytest.param(
            {"metadata": {"labels": {"failure-domain.beta.kubernetes.io/zone": "a__b"}}},
            ("a", "b"),
            id="label of a legacy volume",
        ),
        pytest.param({}, (), id="FSx says nothing"),
    ],
)
def test_zones_of_a_volume(volume: dict[str, Any], want: tuple[str, ...]) -> None:
    assert volume_zones(decoded(Volume, {"metadata": {}, **volume})) == want


def test_zones_of_a_class() -> None:
    topologies = [
        {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["c"]}]}
    ]
    found = decoded(StorageClass, {"metadata": {}, "allowedTopologies": topologies})
    assert class_zones(found) == ("c",)

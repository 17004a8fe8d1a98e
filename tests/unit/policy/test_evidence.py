"""How the cluster says a pod was lost."""

from typing import Any

import pytest

from rtj_api.ladder import Rung
from rtj_api.messages import TerminationMessage
from rtj_operator.policy.incident.transitions import Suspect, entry, higher
from rtj_operator.policy.observation import ContainerObservation
from rtj_operator.policy.signals.evidence import finding
from tests.unit.policy import build

SIDECAR = ContainerObservation(name="sidecar", state="running")


def found(pod: dict[str, Any], node: dict[str, Any]) -> str | None:
    nodes = {"n1": build.node("n1", **node)}
    plan = build.plan(build.running(nodes=nodes))
    result = finding(plan, build.pod(1, **pod))
    if result is None:
        return None
    suspect = Suspect.NODE if result.off_node else Suspect.WORKER
    rung = higher(entry(result.fault_class, suspect), Rung.POD)
    return f"{result.fault_class} {rung}: {result.reason}"


@pytest.mark.parametrize(
    ("pod", "node", "want"),
    [
        pytest.param({}, {}, None, id="nothing is wrong"),
        pytest.param({"phase": "Pending", "node": ""}, {}, None, id="not scheduled yet"),
        pytest.param(
            {},
            {"ready": "Unknown", "ready_reason": "NodeStatusUnknown"},
            "NodeLost Node: node n1 of pod demo-worker-1-0 is not ready "
            "(Ready=Unknown NodeStatusUnknown)",
            id="node does not report",
        ),
        pytest.param(
            {"deleting": True, "disruption": "DeletionByTaintManager"},
            {"ready": "Unknown"},
            "NodeLost Node: node n1 of pod demo-worker-1-0 is not ready (Ready=Unknown)",
            id="deleted because its node is lost is lost with the node",
        ),
        pytest.param(
            {"node": "gone"},
            {},
            "NodeLost Node: node gone of pod demo-worker-1-0 is gone",
            id="node was deleted",
        ),
        pytest.param(
            {"disruption": "EvictionByEvictionAPI", "message": "drained"},
            {},
            "Displaced Node: pod demo-worker-1-0 was put off node n1 (EvictionByEvictionAPI): "
            "drained",
            id="drained",
        ),
        pytest.param(
            {"phase": "Failed", "containers": (build.terminated(1, message="Traceback"),)},
            {},
            "PodDied Pod: container trainer in pod demo-worker-1-0 on node n1 ended "
            "(exit code 1): Traceback",
            id="container failed with words",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "containers": (build.terminated(1),),
                "termination": TerminationMessage(outcome="failed", message="no key file"),
            },
            {},
            "PodDied Pod: container trainer in pod demo-worker-1-0 on node n1 ended "
            "(exit code 1): no key file",
            id="agent left its reason",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices"},
            {},
            "AdmissionFailed Pod: the kubelet of node n1 refused pod demo-worker-1-0 "
            "(UnexpectedAdmissionError): no devices",
            id="kubelet refused it, without container statuses",
        ),
        pytest.param(
            {"phase": "Succeeded", "containers": (build.terminated(0),)},
            {"ready": "Unknown"},
            "PodDied Pod: container trainer in pod demo-worker-1-0 on node n1 ended (exit code 0)",
            id="ended before its node was lost",
        ),
        pytest.param(
            {"containers": (SIDECAR, build.terminated(137, reason="OOMKilled"))},
            {},
            "OutOfMemory Pod: container trainer in pod demo-worker-1-0 on node n1 ended "
            "(OOMKilled, exit code 137)",
            id="a sidecar outlives the trainer",
        ),
        pytest.param(
            {"containers": (build.terminated(1, name="sidecar"), build.terminated(0))},
            {},
            "PodDied Pod: container trainer in pod demo-worker-1-0 on node n1 ended (exit code 0)",
            id="the trainer is named before a sidecar that failed too",
        ),
        pytest.param(
            {"containers": (build.terminated(1, name="sidecar"),)},
            {},
            None,
            id="a sidecar alone ended",
        ),
        pytest.param(
            {"deleting": True, "containers": (SIDECAR, build.terminated(143))},
            {},
            "Displaced Pod: pod demo-worker-1-0 on node n1 is being deleted",
            id="deleted by somebody, the trainer ended first",
        ),
        pytest.param(
            {"deleting": True},
            {},
            "Displaced Pod: pod demo-worker-1-0 on node n1 is being deleted",
            id="deleted by somebody",
        ),
    ],
)
def test_finding(pod: dict[str, Any], node: dict[str, Any], want: str | None) -> None:
    assert found(pod, node) == want


def test_long_words_are_cut_to_their_end() -> None:
    message = "x" * 5_000 + "the error"
    text = found({"phase": "Failed", "containers": (build.terminated(1, message=message),)}, {})
    assert text is not None
    assert len(text) < 1_200
    assert text.endswith("the error")

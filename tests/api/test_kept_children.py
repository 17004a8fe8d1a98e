"""Children that somebody deleted or changed are put right; one that is not readable blocks none."""

import json

import pytest

from tests.api.conftest import OperatorFactory
from tests.api.support import audit
from tests.api.support.api import Api, Json, until
from tests.api.support.jobs import core, job, jobs, policies
from tests.api.support.kubectl import Kubectl
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer
from tests.api.support.waits import all_pods, leads, pod_names, pods

JSON_PATCH = "application/json-patch+json"
JOBS_ROLE = "rtj-resilient-training-operator-jobs"


async def started(api: Api, namespace: str) -> Json:
    """The job, once it is in its first run and all its pods were seen."""
    await api.create(jobs(namespace), job(namespace, "a"))
    await all_pods(api, namespace, pod_names("a"))

    async def seen() -> Json | None:
        found = await api.get(jobs(namespace, "a"))
        status = found.get("status", {})
        whole = status.get("coordinator", {}).get("seen") and not status.get("awaited")
        return found if whole else None

    found = await until("all pods were seen", seen)
    assert found is not None
    return found


async def lose_a_pod(api: Api, namespace: str, slot: int = 1) -> None:
    """A worker's pod goes, and is made anew."""
    before = await pods(api, namespace)
    (old,) = (name for name in before if name.startswith(f"a-worker-{slot}-"))
    await api.delete(core(namespace, "pods", old), grace_seconds=0)

    async def replaced() -> bool:
        now = await pods(api, namespace)
        return len(now) == len(before) and old not in now

    await until("the pod has a successor", replaced)


async def spec_is(api: Api, path: str, want: Json) -> None:
    """Wait until an object is there with that spec."""

    async def same() -> bool:
        found = await api.find(path)
        return found is not None and found["spec"] == want

    await until(f"{path} is as it was", same)


@pytest.mark.usefixtures("operator")
async def test_deleted_children_are_back_when_a_pod_is_made(api: Api, namespace: str) -> None:
    uid = (await started(api, namespace))["metadata"]["uid"]
    secret = core(namespace, "secrets", f"a-key-{uid[:8]}")
    key = (await api.get(secret))["data"]
    policy, workers = policies(namespace, "a-ingress"), core(namespace, "services", "a-workers")
    rules, names = (await api.get(policy))["spec"], (await api.get(workers))["spec"]
    for path in (secret, policy, workers):
        await api.delete(path)
    await lose_a_pod(api, namespace)

    async def back() -> bool:
        found = await api.find(secret)
        return found is not None and found["data"] == key

    await until("the key is back", back)
    await spec_is(api, policy, rules)
    await spec_is(api, workers, names)


@pytest.mark.usefixtures("operator")
async def test_changed_children_are_put_right_when_a_pod_is_made(api: Api, namespace: str) -> None:
    await started(api, namespace)
    policy = policies(namespace, "a-ingress")
    coordinator = core(namespace, "services", "a-coordinator")
    rules, service = (await api.get(policy))["spec"], (await api.get(coordinator))["spec"]
    shut = [
        {"op": "add", "path": "/spec/policyTypes", "value": ["Ingress", "Egress"]},
        {"op": "remove", "path": "/spec/ingress"},
    ]
    await api.patch(policy, shut, JSON_PATCH)
    ports = [{"op": "remove", "path": "/spec/ports/2"}]
    await api.patch(coordinator, ports, JSON_PATCH)
    elsewhere = {"spec": {"selector": {"app": "mine"}, "publishNotReadyAddresses": False}}
    await api.patch(coordinator, elsewhere)
    await lose_a_pod(api, namespace)
    await spec_is(api, policy, rules)
    await spec_is(api, coordinator, service)


async def test_children_as_they_should_be_are_not_written(
    api: Api, prepared: ApiServer, namespace: str, operators: OperatorFactory
) -> None:
    first = operators("first")
    await started(api, namespace)
    first.terminate()
    before = len(audit.writes(prepared.audit_log, namespace))
    second = operators("second")
    # Its first look finds all children as they are.
    await leads(second)
    await lose_a_pod(api, namespace)
    written = audit.writes(prepared.audit_log, namespace)[before:]
    others = {"services", "networkpolicies"}
    assert [request for request in written if request.resource in others] == []


async def test_child_that_cannot_be_read_holds_up_no_recovery(
    api: Api, namespace: str, operator: OperatorProcess, kubectl: Kubectl
) -> None:
    await started(api, namespace)
    policy = policies(namespace, "a-ingress")
    shown = kubectl("get", "clusterrole", JOBS_ROLE, "-o", "json")
    role = json.loads(shown.stdout)
    blind = [rule for rule in role["rules"] if "networkpolicies" not in rule["resources"]]
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{JOBS_ROLE}"
    await api.patch(path, {"rules": blind})
    try:
        await api.delete(policy)
        await lose_a_pod(api, namespace)
        told = "child not kept, trying again in 30 s: GET"

        async def noticed() -> bool:
            return bool(operator.log_lines(told))

        await until("the refusal is told", noticed)
        await lose_a_pod(api, namespace, slot=0)
    finally:
        await api.patch(path, {"rules": role["rules"]})

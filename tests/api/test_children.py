"""What an applied job becomes: each child once, and nobody else's object touched."""

import asyncio
import base64

import pytest

from rtj_api import auth
from tests.api.conftest import OperatorFactory
from tests.api.support import audit
from tests.api.support.api import Api, Json
from tests.api.support.jobs import core, job, jobs, policies
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer
from tests.api.support.waits import all_pods, condition, leads, passes, pod_names, pods, status

WANT = pod_names("a")


@pytest.mark.usefixtures("operator")
async def test_applied_job_gets_each_child_once(
    api: Api, prepared: ApiServer, namespace: str
) -> None:
    made = await api.create(jobs(namespace), job(namespace, "a", spares=1))
    want = {*WANT, "a-worker-2-0"}
    await all_pods(api, namespace, want)
    for path in (
        core(namespace, "services", "a-coordinator"),
        core(namespace, "services", "a-workers"),
        policies(namespace, "a-ingress"),
    ):
        child = await api.get(path)
        assert child["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    created = [
        r.name for r in audit.writes(prepared.audit_log, namespace, "pods") if r.verb == "create"
    ]
    assert sorted(created) == sorted(want)


@pytest.mark.usefixtures("operator")
async def test_key_in_the_secret_is_derived_from_master_key_and_uid(
    api: Api, namespace: str, master_key: bytes
) -> None:
    made = await api.create(jobs(namespace), job(namespace, "a"))
    uid = made["metadata"]["uid"]
    await all_pods(api, namespace, WANT)
    secret = await api.get(core(namespace, "secrets", f"a-key-{uid[:8]}"))
    want = auth.job_key(master_key, uid)
    assert bytes.fromhex(base64.b64decode(secret["data"]["key"]).decode()) == want


@pytest.mark.usefixtures("operator")
async def test_child_name_held_by_a_stranger_is_told_and_left_alone(
    api: Api, namespace: str
) -> None:
    stranger: Json = {
        "metadata": {"name": "a-coordinator"},
        "spec": {"selector": {"app": "mine"}, "ports": [{"port": 80}]},
    }
    await api.create(core(namespace, "services"), stranger)
    await api.create(jobs(namespace), job(namespace, "a"))
    told = await condition(api, namespace, "NodesAvailable", "NameConflict")
    assert "a-coordinator" in told["message"]
    service = await api.get(core(namespace, "services", "a-coordinator"))
    assert service["spec"]["selector"] == {"app": "mine"}
    await api.delete(core(namespace, "services", "a-coordinator"))
    await all_pods(api, namespace, WANT)


@pytest.mark.usefixtures("operator")
async def test_unusable_job_is_told_and_harms_no_other(api: Api, namespace: str) -> None:
    await api.create(jobs(namespace), job(namespace, "bad", instanceType="p99.huge"))
    await api.create(jobs(namespace), job(namespace, "a"))
    await all_pods(api, namespace, WANT)
    told = await condition(api, namespace, "Running", "UnknownInstanceType", "bad")
    assert "spec.instanceType" in told["message"]


@pytest.mark.usefixtures("operator")
async def test_job_waits_for_its_claim_and_goes_on_when_it_is_bound(
    api: Api, namespace: str
) -> None:
    storage = {"checkpoints": {"claimName": "checkpoints"}}
    await api.create(jobs(namespace), job(namespace, "a", storage=storage))
    told = await condition(api, namespace, "ZoneResolved", "ClaimMissing")
    assert "checkpoints" in told["message"]
    assert await pods(api, namespace) == {}
    await make_claim(api, namespace, "checkpoints")
    await all_pods(api, namespace, WANT)
    assert (await status(api, namespace))["zone"] == "zone-b"
    await api.delete(f"/api/v1/persistentvolumes/{namespace}")


async def make_claim(api: Api, namespace: str, name: str) -> None:
    """A claim bound to a volume of zone-b, as a provisioner would leave both."""
    size = {"storage": "1Gi"}
    in_zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"]}
    await api.create(
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": namespace},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteMany"],
                "hostPath": {"path": "/nowhere"},
                "nodeAffinity": {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}
                },
            },
        },
    )
    await api.create(
        core(namespace, "persistentvolumeclaims"),
        {
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": size},
                "volumeName": namespace,
                "storageClassName": "",
            },
        },
    )
    bound = {"status": {"phase": "Bound"}}
    await api.patch(core(namespace, "persistentvolumeclaims", name, "status"), bound)


async def test_quota_refusal_is_told_and_not_repeated_more_than_twice_a_minute(
    api: Api, prepared: ApiServer, namespace: str, operator: OperatorProcess
) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await api.create(core(namespace, "resourcequotas"), quota)
    full = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
    await api.patch(core(namespace, "resourcequotas", "none", "status"), full)
    await api.create(jobs(namespace), job(namespace, "a"))
    told = await condition(api, namespace, "NodesAvailable", "QuotaExceeded")
    assert "exceeded quota: none" in told["message"]
    for number in range(3):
        # News of the job, and so another look at it.
        poke = {"metadata": {"annotations": {"poke": str(number)}}}
        await asyncio.gather(passes(operator, 1), api.patch(jobs(namespace, "a"), poke))
    refused = [r for r in audit.writes(prepared.audit_log, namespace, "pods") if r.code == 403]
    assert len(refused) == 1


async def test_job_deleted_while_the_operator_is_away_gets_nothing(
    api: Api, prepared: ApiServer, namespace: str, operators: OperatorFactory
) -> None:
    first = operators("first")
    await api.create(jobs(namespace), job(namespace, "a"))
    await all_pods(api, namespace, WANT)
    first.kill()
    await api.delete(jobs(namespace, "a"))
    await api.delete(core(namespace, "pods"), grace_seconds=0)
    before = len(audit.writes(prepared.audit_log, namespace))
    second = operators("second")
    await leads(second)
    await api.create(jobs(namespace), job(namespace, "b"))
    await all_pods(api, namespace, pod_names("b"))
    after = audit.writes(prepared.audit_log, namespace)[before:]
    assert not [r for r in after if r.name == "a" or r.name.startswith("a-")]

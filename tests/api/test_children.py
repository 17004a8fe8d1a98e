"""What an applied job becomes: each child once, and nobody else's object touched."""

import base64

import pytest

from rtj_api import auth
from tests.api.conftest import OperatorFactory
from tests.api.support import audit
from tests.api.support.api import Api, Json, until
from tests.api.support.jobs import core, job, jobs, policies
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer

PASSES = 'rtj_reconcile_seconds_count{result="done"}'
WANT = {"a-coordinator-0", "a-worker-0-0", "a-worker-1-0"}


async def pods(api: Api, namespace: str) -> dict[str, str]:
    """Name -> UID."""
    items = await api.items(core(namespace, "pods"))
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in items}


async def all_pods(api: Api, namespace: str, want: set[str] = WANT) -> dict[str, str]:
    """Wait for exactly these pods."""

    async def complete() -> dict[str, str]:
        found = await pods(api, namespace)
        return found if set(found) == want else {}

    return await until(f"pods {sorted(want)}", complete)


async def condition(api: Api, namespace: str, type_: str, reason: str, name: str = "a") -> Json:
    """Wait for a condition with that reason."""

    async def look() -> Json | None:
        status = (await api.get(jobs(namespace, name))).get("status", {})
        return next(
            (
                c
                for c in status.get("conditions", [])
                if (c["type"], c["reason"]) == (type_, reason)
            ),
            None,
        )

    found = await until(f"condition {type_} with reason {reason}", look)
    assert found is not None
    return found


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
    await all_pods(api, namespace)
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
    await all_pods(api, namespace)


@pytest.mark.usefixtures("operator")
async def test_unusable_job_is_told_and_harms_no_other(api: Api, namespace: str) -> None:
    await api.create(jobs(namespace), job(namespace, "bad", instanceType="p99.huge"))
    await api.create(jobs(namespace), job(namespace, "a"))
    await all_pods(api, namespace)
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
    await all_pods(api, namespace)
    status = (await api.get(jobs(namespace, "a")))["status"]
    assert status["zone"] == "zone-b"
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
    passes = operator.metrics()[PASSES]
    for number in range(5):
        # Each is news of the job, and so another look at it.
        poke = {"metadata": {"annotations": {"poke": str(number)}}}
        await api.patch(jobs(namespace, "a"), poke)

    async def looked_again() -> bool:
        return operator.metrics()[PASSES] >= passes + 3

    await until("the operator looks again at the job", looked_again)
    refused = [r for r in audit.writes(prepared.audit_log, namespace, "pods") if r.code == 403]
    assert len(refused) == 1


async def test_job_deleted_while_the_operator_is_away_gets_nothing(
    api: Api, prepared: ApiServer, namespace: str, operators: OperatorFactory
) -> None:
    first = operators("first")
    await api.create(jobs(namespace), job(namespace, "a"))
    await all_pods(api, namespace)
    first.kill()
    await api.delete(jobs(namespace, "a"))
    await api.delete(core(namespace, "pods"), grace_seconds=0)
    before = len(audit.writes(prepared.audit_log, namespace))
    second = operators("second")
    await leads(second)
    await api.create(jobs(namespace), job(namespace, "b"))
    await all_pods(api, namespace, {name.replace("a-", "b-", 1) for name in WANT})
    after = audit.writes(prepared.audit_log, namespace)[before:]
    assert not [r for r in after if r.name == "a" or r.name.startswith("a-")]


async def leads(process: OperatorProcess, seconds: float = 40) -> None:
    """Wait until an operator leads."""

    async def leading() -> bool:
        return process.probe("/readyz") == 200 and process.metrics().get("rtj_leader") == 1

    await until(f"{process.name} leads", leading, seconds=seconds)

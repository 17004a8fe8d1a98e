"""A recovery in every weather of the API server: it ends, and each pod is made once."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from aiohttp import web

from tests.api.conftest import OperatorFactory
from tests.api.support.api import Api, ApiFailure, Json, until
from tests.api.support.gang import Gang
from tests.api.support.jobs import core
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer
from tests.api.support.waits import creates, status
from tests.api.support.weather import Rule, Weather

WANT = ["a-coordinator-0", "a-worker-0-0", "a-worker-1-0", "a-worker-1-1"]


class Scene:
    """A job that trains under an operator that sees the server through the weather."""

    def __init__(self, gang: Gang, weather: Weather, operator: OperatorProcess) -> None:
        self.gang, self.weather, self.operator = gang, weather, operator


@pytest.fixture
async def weather(prepared: ApiServer) -> AsyncGenerator[Weather]:
    async with Weather(prepared) as weather:
        yield weather


@pytest.fixture
async def scene(
    api: Api, namespace: str, operators: OperatorFactory, master_key: bytes, weather: Weather
) -> AsyncGenerator[Scene]:
    operator = operators(KUBECONFIG=operators.kubeconfig("weather", weather.url))
    async with Gang(api, namespace, master_key) as gang:
        await gang.trains()
        yield Scene(gang, weather, operator)


async def recovers(scene: Scene, prepared: ApiServer, seconds: float = 60) -> Json:
    """Wait until the lost node was replaced, and nothing was done twice."""
    api, namespace = scene.gang.api, scene.gang.namespace

    async def replaced() -> bool:
        scene.gang.check()
        return (await status(api, namespace)).get("incarnations") == {"1": 1}

    await until("the slot's next incarnation is reserved", replaced, seconds)
    found = await scene.gang.trains(seconds)
    assert creates(prepared, namespace) == WANT
    assert scene.operator.returncode is None
    return found


def writes_of(plural: str, code: int, count: int) -> Rule:
    """The first so many writes of a resource are refused, though the server would take them."""
    left = [count]

    def rule(request: web.Request) -> int | None:
        if request.method in ("GET", "HEAD") or f"/{plural}" not in request.path or not left[0]:
            return None
        left[0] -= 1
        return code

    return rule


@pytest.mark.parametrize(
    ("plural", "code", "count"),
    [
        pytest.param("pods", 429, 3, id="throttled pods"),
        pytest.param("pods", 500, 6, id="pods answered 500"),
        pytest.param("resilienttrainingjobs", 409, 3, id="status in conflict"),
        pytest.param("resilienttrainingjobs", 500, 6, id="status answered 500"),
    ],
)
@pytest.mark.timeout(180)
async def test_recovery_ends_after_a_burst_of_refusals(
    prepared: ApiServer, scene: Scene, plural: str, code: int, count: int
) -> None:
    scene.weather.refuse(writes_of(plural, code, count))
    await scene.gang.lose_node("a-worker-1-0")
    await recovers(scene, prepared)
    assert scene.weather.refused == count


@pytest.mark.timeout(180)
async def test_recovery_ends_though_reads_fail_for_a_while(
    prepared: ApiServer, scene: Scene
) -> None:
    left = [10]

    def rule(request: web.Request) -> int | None:
        if request.method != "GET" or "/leases" in request.path or not left[0]:
            return None
        left[0] -= 1
        return 500

    scene.weather.refuse(rule)
    scene.weather.cut_watches()
    await scene.gang.lose_node("a-worker-1-0")
    await recovers(scene, prepared)
    assert scene.weather.refused == 10


@pytest.mark.timeout(180)
async def test_recovery_ends_though_history_is_gone_and_watches_are_cut(
    api: Api, namespace: str, prepared: ApiServer, scene: Scene
) -> None:
    await scene.gang.lose_node("a-worker-1-0")
    for number in range(3):
        # History that is new, and then gone as well.
        poke = {"metadata": {"annotations": {"poke": str(number)}}}
        await api.patch(f"/api/v1/namespaces/{namespace}", poke)
        await asyncio.to_thread(prepared.compact)
        scene.weather.cut_watches()
    await recovers(scene, prepared)


@pytest.mark.timeout(240)
async def test_recovery_ends_after_the_server_answered_nobody_for_45_seconds(
    prepared: ApiServer, scene: Scene
) -> None:
    """The leader loses its lease meanwhile, and leads again."""
    await scene.gang.lose_node("a-worker-1-0")
    scene.weather.freeze()
    # Not a wait for anything: this is the weather.
    await asyncio.sleep(45)
    scene.weather.clear()
    await recovers(scene, prepared, seconds=90)


@pytest.mark.timeout(240)
async def test_recovery_ends_after_the_server_was_restarted_in_it(
    prepared: ApiServer, scene: Scene
) -> None:
    await scene.gang.lose_node("a-worker-1-0")
    await scene.gang.while_it_rests(lambda: asyncio.to_thread(restart, prepared))
    await recovers(scene, prepared, seconds=90)


def restart(server: ApiServer) -> None:
    """The API server dies and is started again; etcd keeps what was written."""
    server.kill_api_server()
    server.start_api_server()


@pytest.mark.timeout(180)
async def test_pod_that_admission_refuses_is_made_when_it_is_admitted(
    api: Api, namespace: str, prepared: ApiServer, scene: Scene
) -> None:
    """A real admission policy says no to the replacement, and is taken away."""
    kind = "/apis/admissionregistration.k8s.io/v1"
    policy: Json = {
        "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
            },
            "validations": [{"expression": "false", "message": "not today"}],
        },
    }
    binding: Json = {
        "metadata": {"name": namespace},
        "spec": {"policyName": namespace, "validationActions": ["Deny"]},
    }
    await api.create(f"{kind}/validatingadmissionpolicies", policy)
    await api.create(f"{kind}/validatingadmissionpolicybindings", binding)
    probe = {
        "metadata": {"generateName": "probe-"},
        "spec": {"containers": [{"name": "c", "image": "example.invalid/c:1"}]},
    }

    async def in_force() -> bool:
        try:
            await api.create(f"{core(namespace, 'pods')}?dryRun=All", probe)
        except ApiFailure:
            return True
        return False

    try:
        await until("the policy is in force", in_force)
        await scene.gang.lose_node("a-worker-1-0")

        async def told() -> bool:
            conditions = (await status(api, namespace)).get("conditions", [])
            return any("not today" in condition["message"] for condition in conditions)

        await until("the refusal is told", told, 40)
    finally:
        await api.delete(f"{kind}/validatingadmissionpolicybindings/{namespace}")
        await api.delete(f"{kind}/validatingadmissionpolicies/{namespace}")
    await recovers(scene, prepared, seconds=90)

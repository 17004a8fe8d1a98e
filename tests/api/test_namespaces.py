"""One watched namespace is taken away from the operator: the others do not notice."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from tests.api.conftest import ACCOUNT, OPERATOR_NAMESPACE, OperatorFactory
from tests.api.support.api import Api, Json, until
from tests.api.support.jobs import core, job, jobs
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer
from tests.api.support.waits import all_pods, leads, pod_names, pods

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class Scene:
    """Two namespaces, and an account that has its rights in these alone."""

    api: Api
    account: str
    kept: str
    lost: str
    operator_kubeconfig: str

    def start(self, operators: OperatorFactory) -> OperatorProcess:
        return operators(
            KUBECONFIG=self.operator_kubeconfig,
            RTJ_OPERATOR_NAMESPACES=f"{self.kept},{self.lost}",
        )

    def binding(self, kind: str, role: str) -> Json:
        """As the chart makes them, for this account."""
        return {
            "metadata": {"name": f"{self.account}-{role}"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": kind,
                "name": f"{ACCOUNT}-{role}",
            },
            "subjects": [
                {
                    "kind": "ServiceAccount",
                    "name": self.account,
                    "namespace": OPERATOR_NAMESPACE,
                }
            ],
        }

    async def grant(self, namespace: str) -> None:
        path = f"{RBAC}/namespaces/{namespace}/rolebindings"
        await self.api.create(path, self.binding("ClusterRole", "jobs"))

    async def revoke(self, namespace: str) -> None:
        path = f"{RBAC}/namespaces/{namespace}/rolebindings/{self.account}-jobs"
        await self.api.delete(path)

    async def refused(self, operator: OperatorProcess) -> None:
        """Wait until the operator says that it may not read the lost namespace, and it alone."""
        want = {
            f'rtj_watch_refused{{namespace="{self.lost}",resource="{resource}"}}'
            for resource in ("pods", "resilienttrainingjobs")
        }

        async def told() -> bool:
            found = operator.metrics()
            return want == {k for k, v in found.items() if k.startswith("rtj_watch_refused{") and v}

        await until("the refusal is told", told, seconds=40)
        assert operator.log_lines(f"pods in {self.lost}: refused: ")


@pytest.fixture
async def scene(api: Api, namespace: str, prepared: ApiServer) -> AsyncGenerator[Scene]:
    lost, account = f"{namespace}-lost", f"account-{secrets.token_hex(4)}"
    await api.create("/api/v1/namespaces", {"metadata": {"name": lost}})
    await api.create(core(OPERATOR_NAMESPACE, "serviceaccounts"), {"metadata": {"name": account}})
    token = await api.create(
        core(OPERATOR_NAMESPACE, "serviceaccounts", account, "token"), {"spec": {}}
    )
    kubeconfig = prepared.kubeconfig(token["status"]["token"], account)
    scene = Scene(api, account, namespace, lost, str(kubeconfig))
    cluster = await api.create(
        f"{RBAC}/clusterrolebindings", scene.binding("ClusterRole", "cluster")
    )
    lease = f"{RBAC}/namespaces/{OPERATOR_NAMESPACE}/rolebindings"
    await api.create(lease, scene.binding("Role", "lease"))
    await scene.grant(namespace)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(
            api.delete, f"{RBAC}/clusterrolebindings/{cluster['metadata']['name']}"
        )
        stack.push_async_callback(api.delete, jobs(lost))
        yield scene


async def test_namespace_that_is_refused_from_the_start_stops_no_other_and_is_led_once_it_may_be(
    api: Api, operators: OperatorFactory, scene: Scene
) -> None:
    for namespace in (scene.kept, scene.lost):
        await api.create(jobs(namespace), job(namespace, "a"))
    operator = scene.start(operators)
    await leads(operator)
    await all_pods(api, scene.kept, pod_names("a"))
    await scene.refused(operator)
    assert operator.probe("/healthz") == 200
    assert not await pods(api, scene.lost)
    await scene.grant(scene.lost)
    await all_pods(api, scene.lost, pod_names("a"), seconds=40)


async def test_namespace_that_is_taken_away_while_it_is_led_costs_neither_the_others_nor_the_lease(
    api: Api, prepared: ApiServer, operators: OperatorFactory, scene: Scene
) -> None:
    await scene.grant(scene.lost)
    operator = scene.start(operators)
    await leads(operator)
    await api.create(jobs(scene.lost), job(scene.lost, "a"))
    await all_pods(api, scene.lost, pod_names("a"))
    await scene.revoke(scene.lost)

    def cut_watches() -> None:
        prepared.kill_api_server()
        prepared.start_api_server()

    await asyncio.to_thread(cut_watches)
    await scene.refused(operator)
    await leads(operator)
    await api.create(jobs(scene.kept), job(scene.kept, "b"))
    await all_pods(api, scene.kept, pod_names("b"))
    assert (operator.probe("/healthz"), operator.probe("/readyz")) == (200, 200)
    await scene.grant(scene.lost)
    await api.create(jobs(scene.lost), job(scene.lost, "c"))
    await all_pods(api, scene.lost, pod_names("a") | pod_names("c"), seconds=40)

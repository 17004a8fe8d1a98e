"""The operator's token: one that the API server refuses is read again, by kopf as well."""

import asyncio
import secrets
from pathlib import Path

from tests.api.conftest import ACCOUNT, OPERATOR_NAMESPACE, OperatorFactory
from tests.api.support.api import Api, until
from tests.api.support.jobs import core, job, jobs
from tests.api.support.server import ApiServer
from tests.api.support.waits import all_pods, leads, pod_names

# The shortest that the API server gives.
EXPIRATION_SECONDS = 600


async def bound_token(api: Api, secret: str) -> str:
    """A token that is refused as soon as that Secret is gone."""
    await api.create(core(OPERATOR_NAMESPACE, "secrets"), {"metadata": {"name": secret}})
    spec = {
        "expirationSeconds": EXPIRATION_SECONDS,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": secret},
    }
    path = core(OPERATOR_NAMESPACE, "serviceaccounts", ACCOUNT, "token")
    return (await api.create(path, {"spec": spec}))["status"]["token"]


async def test_token_that_is_refused_is_read_again_and_leadership_and_work_go_on(
    api: Api, prepared: ApiServer, namespace: str, operators: OperatorFactory
) -> None:
    first, second = (f"token-{secrets.token_hex(4)}" for _ in range(2))
    name = f"renewed-{secrets.token_hex(4)}"
    kubeconfig = prepared.kubeconfig(await bound_token(api, first), name)
    operator = operators(KUBECONFIG=str(kubeconfig))
    await leads(operator)
    await api.create(jobs(namespace), job(namespace, "a"))
    await all_pods(api, namespace, pod_names("a"))
    # As the kubelet does it: the new one is in the file before the old one is refused.
    write_atomically(kubeconfig, prepared.kubeconfig(await bound_token(api, second), "next"))
    await api.delete(core(OPERATOR_NAMESPACE, "secrets", first))

    async def refused() -> bool:
        found = operator.metrics()
        return any('code="401"' in name and value > 0 for name, value in found.items())

    await until("the first token is refused", refused, seconds=60)
    await api.create(jobs(namespace), job(namespace, "b"))
    await all_pods(api, namespace, pod_names("a") | pod_names("b"))
    assert not operator.log_lines("stopped leading")
    # kopf's watch is refused only when it connects again.
    await asyncio.to_thread(restart, prepared)
    await leads(operator)
    await api.create(jobs(namespace), job(namespace, "c"))
    want = pod_names("a") | pod_names("b") | pod_names("c")
    await all_pods(api, namespace, want, seconds=40)


def restart(server: ApiServer) -> None:
    """Cut all connections."""
    server.kill_api_server()
    server.start_api_server()


def write_atomically(path: Path, new: Path) -> None:
    """Have `path` read as `new` does, at no moment half."""
    new.replace(path)

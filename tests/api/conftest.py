"""A real etcd and API server for the whole run; a namespace of its own for each test."""

import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.api.support.api import Api, connect
from tests.api.support.install import ACCOUNT, OPERATOR_NAMESPACE, install
from tests.api.support.jobs import core
from tests.api.support.kubectl import Kubectl
from tests.api.support.kubelet import Kubelet
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer
from tests.api.support.waits import leads

REPOSITORY = Path(__file__).parents[2]
CRD = REPOSITORY / "crds" / "resilienttrainingjobs.yaml"
LEASE = (
    f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR_NAMESPACE}"
    "/leases/resilient-training-operator"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.api)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ApiServer]:
    """etcd and API server, without our CRD."""
    running = ApiServer(tmp_path_factory.mktemp("api-server"))
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="package")
def prepared(server: ApiServer) -> ApiServer:
    """With the CRD, and the rights that the chart gives to the operator."""
    install(server)
    return server


@pytest.fixture
async def api(prepared: ApiServer) -> AsyncGenerator[Api]:
    """An administrator's client."""
    async with connect(prepared.url, prepared.admin_token) as client:
        yield client


@pytest.fixture
async def namespace(api: Api) -> AsyncGenerator[str]:
    """A namespace without jobs. No controller runs, so that it stays, but its jobs go."""
    name = f"test-{secrets.token_hex(4)}"
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    jobs = f"/apis/resilience.training/v1alpha1/namespaces/{name}/resilienttrainingjobs"
    await api.delete(jobs)
    await api.delete(f"/api/v1/namespaces/{name}/pods", grace_seconds=0)


@pytest.fixture(scope="package")
def kubectl(prepared: ApiServer) -> Kubectl:
    """kubectl and helm, as the administrator."""
    return Kubectl(prepared)


@pytest.fixture
def as_admin(prepared: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """This very process is the administrator, whatever KUBECONFIG said when it began: the
    kubernetes package reads that once, at import."""
    path = str(prepared.kubeconfig(prepared.admin_token, "admin"))
    monkeypatch.setenv("KUBECONFIG", path)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", path)


@pytest.fixture(scope="package")
def master_key() -> bytes:
    """The operator's master key."""
    return secrets.token_hex(32).encode()


@pytest.fixture(scope="package")
def master_key_file(tmp_path_factory: pytest.TempPathFactory, master_key: bytes) -> Path:
    """The same, as mounted from its Secret."""
    path = tmp_path_factory.mktemp("master") / "key"
    path.write_bytes(master_key)
    return path


class OperatorFactory:
    """Starts operator processes with the chart's rights; all are killed at the end."""

    def __init__(
        self, server: ApiServer, token: str, folder: Path, stack: ExitStack, **environment: str
    ) -> None:
        self._server, self._token, self._folder, self._stack = server, token, folder, stack
        self._environment = {
            **environment,
            "KUBECONFIG": self.kubeconfig("operator"),
            "RTJ_OPERATOR_LEASE_NAMESPACE": OPERATOR_NAMESPACE,
        }

    def __call__(self, name: str = "operator", **environment: str) -> OperatorProcess:
        process = OperatorProcess(self._folder, name, {**self._environment, **environment})
        return self._stack.enter_context(process)

    def kubeconfig(self, name: str, url: str = "") -> str:
        """The operator's credentials; `url` leads to the server by a detour."""
        return str(self._server.kubeconfig(self._token, name, url))


@pytest.fixture
async def operators(
    prepared: ApiServer, api: Api, namespace: str, master_key_file: Path, tmp_path: Path
) -> AsyncGenerator[OperatorFactory]:
    """Makes operators for this test's namespace, which contend for one lease."""
    account = core(OPERATOR_NAMESPACE, "serviceaccounts", ACCOUNT, "token")
    grant = await api.create(account, {"spec": {"expirationSeconds": 7200}})
    with ExitStack() as stack:
        yield OperatorFactory(
            prepared,
            grant["status"]["token"],
            tmp_path,
            stack,
            RTJ_OPERATOR_NAMESPACES=namespace,
            RTJ_OPERATOR_MASTER_KEY_FILE=str(master_key_file),
        )
    # Killed holders leave it behind, and the next test need not wait for it to expire.
    if await api.find(LEASE):
        await api.delete(LEASE)
    _assert_no_traceback(tmp_path)


def _assert_no_traceback(folder: Path) -> None:
    for log in folder.glob("*.log"):
        assert "Traceback" not in log.read_text(), f"see {log}"


@pytest.fixture
async def operator(operators: OperatorFactory) -> OperatorProcess:
    """One operator that leads."""
    process = operators()
    await leads(process)
    return process


@pytest.fixture
async def kubelet(api: Api, namespace: str) -> AsyncGenerator[Kubelet]:
    """A hand that plays nodes and kubelets; its nodes go at the end."""
    hand = Kubelet(api, namespace)
    yield hand
    await hand.close()

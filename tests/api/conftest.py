"""A real etcd and API server for the whole run; a namespace of its own for each test."""

import secrets
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rtj_api import crd
from tests.api.support.api import Api, connect
from tests.api.support.kubectl import Kubectl
from tests.api.support.kubelet import Kubelet
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer
from tests.api.support.waits import leads

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "resilient-training-operator"
CRD = REPOSITORY / "crds" / "resilienttrainingjobs.yaml"
OPERATOR_NAMESPACE = "rtj-system"
LEASE = (
    f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR_NAMESPACE}"
    "/leases/resilient-training-operator"
)

OperatorFactory = Callable[..., OperatorProcess]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.api)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ApiServer]:
    """etcd and API server, without our CRD."""
    running = ApiServer(tmp_path_factory.mktemp("api-server"))
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def prepared(server: ApiServer) -> ApiServer:
    """With the CRD, and the rights that the chart gives to the operator."""
    kubectl = [str(server.program("kubectl"))]
    kubectl.append(f"--kubeconfig={server.kubeconfig(server.admin_token, 'admin')}")
    subprocess.run([*kubectl, "create", "namespace", OPERATOR_NAMESPACE], check=True)
    # As the models are now; that the file is current is checked elsewhere.
    apply = [*kubectl, "apply", "--server-side", "-f", "-"]
    subprocess.run(apply, input=crd.render().encode(), check=True)
    rights = subprocess.run(
        [
            str(server.program("helm")),
            "template",
            "rtj",
            str(CHART),
            f"--namespace={OPERATOR_NAMESPACE}",
            # Helm alone would take the cluster for the oldest that it knows.
            "--kube-version=1.34.0",
            "--show-only=templates/rbac.yaml",
            "--show-only=templates/serviceaccount.yaml",
        ],
        check=True,
        capture_output=True,
    ).stdout
    subprocess.run([*kubectl, "apply", "-f", "-"], input=rights, check=True)
    name = crd.definition()["metadata"]["name"]
    subprocess.run([*kubectl, "wait", "--for=condition=Established", f"crd/{name}"], check=True)
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


@pytest.fixture(scope="session")
def kubectl(prepared: ApiServer) -> Kubectl:
    """kubectl and helm, as the administrator."""
    return Kubectl(prepared)


@pytest.fixture(scope="session")
def master_key() -> bytes:
    """The operator's master key."""
    return secrets.token_hex(32).encode()


@pytest.fixture(scope="session")
def master_key_file(tmp_path_factory: pytest.TempPathFactory, master_key: bytes) -> Path:
    """The same, as mounted from its Secret."""
    path = tmp_path_factory.mktemp("master") / "key"
    path.write_bytes(master_key)
    return path


@pytest.fixture
async def operators(
    prepared: ApiServer, api: Api, namespace: str, master_key_file: Path, tmp_path: Path
) -> AsyncGenerator[OperatorFactory]:
    """Makes operator processes with the chart's rights, which contend for a lease of this test."""
    account = (
        f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/serviceaccounts/rtj-resilient-training-operator"
    )
    grant = await api.create(f"{account}/token", {"spec": {"expirationSeconds": 7200}})
    kubeconfig = prepared.kubeconfig(grant["status"]["token"], "operator")
    with ExitStack() as stack:

        def make(name: str = "operator", **environment: str) -> OperatorProcess:
            defaults = {
                "KUBECONFIG": str(kubeconfig),
                "RTJ_OPERATOR_NAMESPACES": namespace,
                "RTJ_OPERATOR_LEASE_NAMESPACE": OPERATOR_NAMESPACE,
                "RTJ_OPERATOR_MASTER_KEY_FILE": str(master_key_file),
            }
            process = OperatorProcess(tmp_path, name, {**defaults, **environment})
            return stack.enter_context(process)

        yield make
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

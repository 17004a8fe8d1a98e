"""One real cluster for the suite, with the operator from its chart; one namespace a test.

It ends with the suite, not with the whole run: the suites after it measure seconds.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from demo import setup
from demo.kube import Kube
from demo.watch import JobWatch
from localcluster.cluster import Cluster
from tests.cluster import jobs

# Beside a demo's cluster, which is instance 0.
INSTANCE = 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs the cluster, and time for a job to start and recover."""
    for item in items:
        if "tests/cluster" in str(item.path):
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """Four nodes with images; what an earlier run left is removed first."""
    cluster = Cluster(INSTANCE)
    cluster.down()
    try:
        cluster.up(nodes=4, images=True)
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="package")
def admin(cluster: Cluster) -> Kube:
    """The cluster with the operator in it."""
    kube = Kube(cluster.kubeconfig, cluster.program)
    setup.install_operator(kube)
    return kube


@pytest.fixture
def healthy(cluster: Cluster, admin: Kube) -> Iterator[Cluster]:
    """The cluster, every node of it repaired after the test."""
    yield cluster
    for node in cluster.status():
        if not node.alive or node.frozen or not node.linked:
            cluster.restart_node(node.name)


@pytest.fixture
def kube(admin: Kube, cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Kube]:
    """A namespace of the test's own, with a claim; gone with all that is in it afterwards."""
    namespace = request.node.name.replace("_", "-").removeprefix("test-").lower()[:40].strip("-[]")
    namespace = "".join(c if c.isalnum() else "-" for c in namespace).strip("-")
    kube = Kube(cluster.kubeconfig, cluster.program, namespace)
    kube.run("kubectl", "create", "namespace", namespace)
    volume, claim = jobs.storage(namespace, cluster.shared_dir)
    kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([volume, claim]))
    try:
        yield kube
    finally:
        kube.run("kubectl", "delete", "namespace", namespace, "--timeout=60s", check=False)
        kube.run("kubectl", "delete", "pv", volume["metadata"]["name"], "--wait=false")


@pytest.fixture
def start(kube: Kube) -> Iterator[Callable[[dict[str, Any]], JobWatch]]:
    """Apply a job and follow it."""
    watches: list[JobWatch] = []

    def apply(job: dict[str, Any]) -> JobWatch:
        watch = JobWatch(kube, job["metadata"]["name"])
        watch.start()
        watches.append(watch)
        kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job))
        return watch

    yield apply
    for watch in watches:
        watch.stop()


def wait_until(what: str, condition: Callable[[], bool], seconds: float) -> None:
    """Poll a condition with a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {seconds:.0f} s")
        time.sleep(0.1)

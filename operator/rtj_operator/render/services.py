"""The job's two Services: the coordinator's, pinned to one incarnation, and the workers' names."""

from rtj_api import names
from rtj_operator.render.objects import JobRef, Manifest, metadata, pod_selector


def coordinator_service(job: JobRef, incarnation: int) -> Manifest:
    """Stable address of the coordinator and the rendezvous store.

    A terminating coordinator stays in DNS; changing the selector switches at once and fences the
    old one. Published before ready: when the coordinator container restarts, the store in the
    container beside it must stay reachable.
    """
    ports = (
        ("store", names.PORT_STORE),
        ("worker", names.PORT_WORKER_SOCKET),
        ("view", names.PORT_VIEW_SOCKET),
    )
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, names.coordinator_service(job.name)),
        "spec": {
            "type": "ClusterIP",
            "selector": coordinator_selector(job, incarnation),
            "publishNotReadyAddresses": True,
            # Service port = container port: the VPC CNI's policies need it so.
            "ports": [
                {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}
                for name, number in ports
            ],
        },
    }


def coordinator_selector(job: JobRef, incarnation: int) -> dict[str, str]:
    """Labels of exactly one incarnation's pod."""
    selector = pod_selector(job, names.ROLE_COORDINATOR)
    return selector | {names.LABEL_INCARNATION: str(incarnation)}


def workers_service(job: JobRef) -> Manifest:
    """Headless: gives each worker a DNS name from its first moment, before it is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, names.workers_service(job.name)),
        "spec": {
            "clusterIP": "None",
            "selector": pod_selector(job, names.ROLE_WORKER),
            "publishNotReadyAddresses": True,
        },
    }

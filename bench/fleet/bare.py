"""The pods of a job made by a bare loop: what the API server and the scheduler need for them, with
no operator that decides anything."""

import secrets
import time
from typing import Final

from bench.fleet.cluster import BARE_NAMESPACE as NAMESPACE
from bench.fleet.cluster import FleetCluster, in_parallel
from bench.fleet.watch import Watch
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_operator.render import pods as pod_builder
from rtj_operator.render import profiles
from rtj_operator.render.objects import JobRef
from tests.api.support.api import Json, connect
from tests.api.support.jobs import core, job

LONG_SECONDS: Final = 180


async def post_bare(cluster: FleetCluster, workers: int, spares: int = 1) -> float:
    """Seconds from the first POST until all pods run; they are gone afterwards."""
    manifests = [(core(NAMESPACE, "pods"), pod) for pod in _pods(workers, spares)]
    path = core(NAMESPACE, "pods")
    server = cluster.server
    watch = Watch(server.url, server.admin_token, path, lambda kind, pod: None)
    # As the operator, so that the server treats both alike.
    async with watch.running(), connect(server.url, cluster.token) as api:
        began = time.time()
        await in_parallel(api, manifests)
        ended = await watch.until(
            "all run", lambda: len(watch.running_pods) >= len(manifests), LONG_SECONDS
        )
        async with cluster.admin() as admin:
            await admin.delete(path, grace_seconds=0)
        await watch.until("all are gone", lambda: not watch.objects, LONG_SECONDS)
    return ended - began


def _pods(workers: int, spares: int) -> list[Json]:
    """As the operator makes them."""
    spec = ResilientTrainingJobSpec.model_validate(
        job(NAMESPACE, "bare", nodes=workers, spares=spares)["spec"]
    )
    profile = profiles.find(spec.instance_type)
    assert profile is not None
    ref = JobRef(namespace=NAMESPACE, name="bare", uid=secrets.token_hex(16))
    pods = [
        pod_builder.worker_pod(ref, spec, profile, slot=slot, incarnation=0)
        for slot in range(workers + spares)
    ]
    return [pod_builder.coordinator_pod(ref, spec, profile, incarnation=0), *pods]

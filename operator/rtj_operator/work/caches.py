"""What is known of the cluster, and which job a change concerns."""

from collections.abc import Callable, Hashable, Iterable

from rtj_api import names
from rtj_operator.kube.objects import Job, Node, Pod
from rtj_operator.kube.store import Store
from rtj_operator.work.nodes import NodeCounter
from rtj_operator.work.queue import JobKey
from rtj_operator.work.read import node_observation


class Caches:
    """What the watches fill; pods are grouped by `(namespace, job name)` and by node name.

    `concerns(key)` is called for each job that a change concerns, `job_gone(uid)` when a job is
    deleted or its name taken by another.
    """

    def __init__(self, concerns: Callable[[JobKey], None], job_gone: Callable[[str], None]) -> None:
        self.jobs = Store(self._job_changed)
        self.pods = Store(self._pod_changed, _groups_of_pod)
        self.nodes = Store(self._node_changed)
        self.node_counts = NodeCounter()
        self._concerns = concerns
        self._job_gone = job_gone

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is not None:
            self._concerns((job.metadata.namespace, job.metadata.name))
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._job_gone(old.metadata.uid)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._concerns(_job_of_pod(pod))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """A heartbeat alone is no news."""
        self.node_counts.changed(old, new)
        if old is not None and new is not None and node_observation(old) == node_observation(new):
            return
        node = new or old
        if node is not None:
            for pod in self.pods.group(node.metadata.name):
                self._concerns(_job_of_pod(pod))


def _groups_of_pod(pod: Pod) -> Iterable[Hashable]:
    """Its job, (namespace, name), and its node, a name."""
    yield _job_of_pod(pod)
    if pod.spec.node_name:
        yield pod.spec.node_name


def _job_of_pod(pod: Pod) -> JobKey:
    return pod.metadata.namespace, pod.metadata.labels.get(names.LABEL_JOB, "")

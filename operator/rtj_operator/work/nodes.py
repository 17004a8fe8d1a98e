"""How many nodes of each instance type there are and how many of them are not ready, counted when a
node changes: ten thousand are not walked at every look at a job."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rtj_operator.kube.objects import Node


@dataclass(frozen=True, slots=True)
class NodeCount:
    """Nodes of some instance types."""

    total: int
    not_ready: int


class NodeCounter:
    """Counts what a store of nodes tells it."""

    def __init__(self) -> None:
        self._total: Counter[str] = Counter()
        self._not_ready: Counter[str] = Counter()

    def changed(self, old: Node | None, new: Node | None) -> None:
        """A node came (no `old`), changed or went (no `new`)."""
        for node, by in ((old, -1), (new, 1)):
            if node is None:
                continue
            kind = node.metadata.labels.instance_type
            self._total[kind] += by
            self._not_ready[kind] += by * (node.ready.status != "True")

    def of(self, instance_types: Sequence[str]) -> NodeCount:
        """Nodes of these types; of all when there is none."""
        if not instance_types:
            return NodeCount(self._total.total(), self._not_ready.total())
        return NodeCount(
            total=sum(self._total[kind] for kind in instance_types),
            not_ready=sum(self._not_ready[kind] for kind in instance_types),
        )

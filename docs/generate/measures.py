"""The metrics of operator, coordinator and agent, asked of the objects that serve them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from docs.generate.markdown import table
from rtj_operator import metrics
from rtj_trainer.agent.metrics import AgentMetrics
from rtj_trainer.coordinator.core import Core
from rtj_trainer.coordinator.memory import Memory
from rtj_trainer.coordinator.metrics import CoordinatorCollector

Row = tuple[str, str, str, str]


def operator() -> str:
    """Of the operator process."""
    served = [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]
    jobs = metrics.JobCollector(lambda: (), dict[tuple[str, str], int], int).collect()
    return _table([*_of_wrappers(served), *map(_row, jobs)])


def coordinator() -> str:
    """Of a job's coordinator."""
    collector = CoordinatorCollector(Core("", Memory(), 0.0, 0.0), Counter, Counter)
    return _table(map(_row, collector.collect()))


def agent() -> str:
    """Of a worker."""
    served = _registered(AgentMetrics().registry)
    return _table(_of_wrappers(served))


def _registered(registry: CollectorRegistry) -> Iterable[MetricWrapperBase]:
    names = registry._collector_to_names
    return [one for one in names if isinstance(one, MetricWrapperBase)]


def _of_wrappers(wrappers: Iterable[MetricWrapperBase]) -> Iterator[Row]:
    for wrapper in wrappers:
        for family in wrapper.describe():
            yield _row(family, wrapper._labelnames)


def _row(family: Any, labels: Iterable[str] | None = None) -> Row:
    kind: str = family.type
    name = f"{family.name}_total" if kind == "counter" else family.name
    given = family._labelnames if labels is None else labels
    return f"`{name}`", kind, ", ".join(given), family.documentation.rstrip(".")


def _table(rows: Iterable[Row]) -> str:
    return table(("metric", "type", "labels", "what"), rows)

"""Which pods should exist, by status, and what the coordinator is told."""

from typing import Final

from rtj_operator.policy.plan import Rule
from rtj_operator.policy.wanted import coordinator, directive, worker_pods

RULES_BEFORE_FAULTS: Final[tuple[Rule, ...]] = (
    coordinator.mark_coordinator_seen,
    coordinator.pass_over_occupied_names,
    worker_pods.mark_workers_seen,
    worker_pods.pass_over_occupied_names,
)
RULES_AFTER_FAULTS: Final[tuple[Rule, ...]] = (
    coordinator.remake_waiting_coordinator,
    coordinator.want_standby,
    worker_pods.remake_waiting_pods,
)
# The directives first: a standby that takes over must not wait until its own standby is made.
EFFECTS: Final = (
    directive.directives,
    coordinator.children,
    worker_pods.deletions,
    worker_pods.creations,
)

"""What people see of a job: conditions, phase, counts, progress, goodput, Events."""

from typing import Final

from rtj_operator.policy.plan import Rule
from rtj_operator.policy.shown import available, events, phase, progress

RULES: Final[tuple[Rule, ...]] = (
    available.show_nodes_available,
    phase.show_degraded,
    phase.show_running,
    phase.show_worker_counts,
    phase.conclude,
    progress.show_progress,
)

fold_alike = events.fold_alike

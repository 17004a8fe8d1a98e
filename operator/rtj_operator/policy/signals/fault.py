"""A fault, judged, and the batch of them that one pass found."""

from dataclasses import dataclass
from typing import Literal

from rtj_api.ladder import FaultClass
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: its class, whom it concerns and when it was seen. What is done about it is for
    `incident` to decide."""

    fault_class: FaultClass
    reason: str
    # Who told: the coordinator's report, the cluster's own objects, or a deadline that passed.
    told_by: Literal["report", "cluster", "deadline"]
    # Kind of the coordinator's report; "" of others.
    kind: str = ""
    # The worker concerned; None: none, or no single one.
    slot: int | None = None
    incarnation: int | None = None
    pod: PodObservation | None = None
    rank: int | None = None
    # The pod is dead or out of reach, so its slot needs another one whatever the rung.
    lost: bool = False
    # The pod has to leave its node, by the cluster's word.
    off_node: bool = False
    # The worker held no position: training goes on without it.
    spare: bool = False
    # Nobody restarts anything by himself: the ranks live and stand still.
    stalled: bool = False
    # A rank or ft_launcher said that a restart is useless.
    fatal: bool = False
    step: int = -1
    # Number of the coordinator's report behind it, 0 if only the cluster saw it.
    report: int = 0
    run: int = 0
    round: int = -1
    detected_unix: float = 0.0
    # From the suspect's last sign of life to the detection.
    detected_seconds: float = 0.0
    # When the ranks made their last step before it; 0: not known.
    stalled_unix: float = 0.0

    @property
    def node(self) -> str:
        """Node of the worker concerned, "" if unknown."""
        return self.pod.node if self.pod else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Everything that one pass found, judged together."""

    # The lost coordinator first, since it explains silent workers; then the coordinator's reports
    # in their order; then what only the cluster saw.
    faults: tuple[Fault, ...] = ()
    # Number of the newest report of the coordinator that is judged.
    judged_report: int = 0
    # So many nodes look bad at once that something else is to blame: no node is given up.
    breaker_open: bool = False


def is_outdated(plan: Plan, kind: str, slot: int | None, incarnation: int | None, run: int) -> bool:
    """Whether a report is about what was already replaced: an older incarnation or run, a slot that
    is no more. Pods that we delete ourselves come back as such reports."""
    if kind != "control" and slot is not None and slot >= 0:
        gone = slot not in plan.slots or (incarnation or 0) < plan.incarnation(slot)
        if gone:
            return True
    return kind not in ("worker", "") and run < plan.status.run

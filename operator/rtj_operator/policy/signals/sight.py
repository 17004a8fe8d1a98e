"""One pass's look at the job: the plan while signs are gathered, and which of them have a clock.

Used inside `gather` only; what it finds leaves as a Batch and as clocks in status.
"""

from typing import Final

from rtj_api.reasons import EventReason
from rtj_operator.policy import clocks
from rtj_operator.policy.clocks import NODES, Clock
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.signals.breaker import (
    BREAKER_SECONDS,
    TEXT,
    breaker_open,
    capacity_elsewhere,
    hold_seconds,
    nobody_heard,
    own_nodes_look_bad,
)

# Seconds for which a node must be called not ready, or not be there, before a pod on it of which
# nothing else is known is given up: a new machine may be heard of after its first pod.
UNREADY_SECONDS: Final = 10.0


class Sight:
    """What gathers signs: the plan with its clocks, and the breaker's state, judged once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seen: set[tuple[Clock, str]] = set()
        self.nobody_heard = nobody_heard(plan)
        self.breaker_open = self._judge_breaker()
        self._elsewhere: bool | None = None
        self._held: bool | None = None

    def _judge_breaker(self) -> bool:
        """Whether the breaker is open. Once the job's own nodes opened it, it stays so for a while:
        what was acquitted then must not make those that follow look like few."""
        if own_nodes_look_bad(self.plan):
            self.note(Clock.BREAKER, NODES)
            return True
        since = clocks.started_at(self.plan, Clock.BREAKER, NODES)
        if since is not None and self.plan.now < since + BREAKER_SECONDS:
            self.note(Clock.BREAKER, NODES)
            self.plan = self.plan.wake_at(since + BREAKER_SECONDS)
            return True
        return breaker_open(self.plan)

    def note(self, clock: Clock, subject: str) -> None:
        """A sign is seen: its clock starts or runs on."""
        self.seen.add((clock, subject))
        self.plan = clocks.start(self.plan, clock, subject)

    def lasted(self, clock: Clock, subject: str, seconds: float) -> bool:
        """A sign is seen; whether it has lasted that long."""
        self.seen.add((clock, subject))
        self.plan, over = clocks.lasted(self.plan, clock, subject, seconds)
        return over

    def may_live(self, pod: PodObservation) -> bool:
        """Whether to keep a pod that is out of reach, since it may live behind a broken network:
        while the breaker is open, unless its node is not ready and others are free."""
        if not self.breaker_open:
            return False
        blind = self.plan.live_view is None
        dead = self.plan.node_lost(pod) and not blind
        if dead and (self.plan.node_of(pod) is None or self.capacity_elsewhere):
            return False
        if blind and self.plan.node_of(pod) is None:
            return False
        if self._held is None:
            self._held = self._hold()
        return self._held

    def _hold(self) -> bool:
        told = clocks.runs(self.plan, Clock.OUTAGE)
        if self.lasted(Clock.OUTAGE, NODES, hold_seconds(self.plan)):
            return False
        if not told:
            self.plan = self.plan.tell("Warning", EventReason.FAULT_DETECTED, TEXT)
        # Nodes that are not this job's wake nobody when they come back.
        self.plan = self.plan.wake_at(self.plan.now + UNREADY_SECONDS)
        return True

    @property
    def capacity_elsewhere(self) -> bool:
        """Whether enough nodes are free for the pods on bad ones."""
        if self._elsewhere is None:
            self._elsewhere = capacity_elsewhere(self.plan)
        return self._elsewhere

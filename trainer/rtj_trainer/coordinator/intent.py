"""The operator's directive, and who may give one. Pure.

Leader and standby may both be connected, and a leader that lost its lease may not know it yet: the
highest epoch ever seen directs, within it the highest number.
"""

from rtj_api.messages import Hello, JobDirective
from rtj_trainer.coordinator.table import WorkerTable


class Intent:
    """The newest directive."""

    def __init__(self, directive: JobDirective | None = None) -> None:
        self._directive = directive
        self._epoch = 0 if directive is None else directive.epoch
        # Directives ignored for being of an older leader, or older than the newest.
        self.stale = 0

    @property
    def directive(self) -> JobDirective | None:
        """None until an operator said anything."""
        return self._directive

    @property
    def epoch(self) -> int:
        """Highest epoch seen, in a Hello or in a directive."""
        return self._epoch

    def meet(self, epoch: int) -> None:
        """An operator of this epoch proved itself."""
        self._epoch = max(self._epoch, epoch)

    def take(self, directive: JobDirective) -> bool:
        """Make it the intent, if it is not an older one; returns whether anything changed."""
        known = self._directive
        if directive.epoch < self._epoch:
            self.stale += 1
            return False
        if known is not None and (directive.epoch, directive.number) <= (known.epoch, known.number):
            self.stale += directive.number < known.number
            return False
        self._epoch = directive.epoch
        self._directive = directive
        return True


def refuse_operator(hello: Hello, intent: Intent) -> tuple[str, str] | None:
    """(reason, message) for an operator that must not connect."""
    if hello.epoch >= intent.epoch:
        return None
    return "stale-epoch", f"epoch {hello.epoch} is over: an operator of {intent.epoch} was here"


def refuse_worker(hello: Hello, intent: Intent, table: WorkerTable) -> tuple[str, str] | None:
    """(reason, message) for a worker that must not connect.

    A pod that took part once is let in even when it is no longer expected: it is told to exit.
    One that was never heard of may be ahead of the operator's word, so it may try again.
    """
    if table.get(hello.pod_uid) is not None:
        return None
    newest = table.newest_incarnation(hello.slot)
    if hello.incarnation < newest:
        return "stale-incarnation", f"slot {hello.slot} is at incarnation {newest}"
    directive = intent.directive
    if directive is not None and directive.pods.get(hello.pod_uid) != hello.slot:
        return "not-expected", f"pod {hello.pod_uid} is not one of the job's at slot {hello.slot}"
    return None

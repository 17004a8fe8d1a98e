"""What the rules hand from one to the next: the snapshot, the status as decided so far, the Events.

A rule takes a Plan and gives a Plan; what it must remember stands in the status. Everything that
more than one file asks about the job is a property here, so that two rules never answer the same
question differently.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel

from rtj_api.ladder import Rung
from rtj_api.messages import JobView, WorkerView
from rtj_api.names import CONTAINER_TRAINER
from rtj_api.reasons import ConditionType, EventReason
from rtj_api.spec import ResilientTrainingJobSpec, RungLimits
from rtj_api.status import Condition, ResilientTrainingJobStatus
from rtj_operator.policy.decision import EmitEvent
from rtj_operator.policy.observation import NodeObservation, Observation, PodObservation
from rtj_operator.policy.times import rfc3339, unix


def changed[M: BaseModel](model: M, **fields: Any) -> M:
    """A copy of a frozen model with these fields; the very same one if nothing would change."""
    if all(getattr(model, name) == value for name, value in fields.items()):
        return model
    return model.model_copy(update=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One job that can be read, on its way to a Decision."""

    seen: Observation
    spec: ResilientTrainingJobSpec
    processes_per_node: int
    status: ResilientTrainingJobStatus
    events: tuple[EmitEvent, ...] = ()
    counted: tuple[tuple[str, str], ...] = ()
    # Unix seconds at which a deadline of a rule falls due.
    wakes: tuple[float, ...] = ()
    # Indexes of the snapshot, each made once: name -> (what it was made from, the index).
    memo: dict[str, tuple[object, Any]] = field(
        default_factory=dict[str, tuple[object, Any]], compare=False, repr=False
    )

    # --- writing ---

    def write(self, **fields: Any) -> "Plan":
        """With these status fields."""
        status = changed(self.status, **fields)
        return self if status is self.status else replace(self, status=status)

    def tell(self, type_: Literal["Normal", "Warning"], reason: EventReason, text: str) -> "Plan":
        """With one more Event."""
        event = EmitEvent(type=type_, reason=reason, message=text[:1024])
        return replace(self, events=(*self.events, event))

    def count(self, rung: str, fault_class: str) -> "Plan":
        """With one more recovery for the metrics."""
        return replace(self, counted=(*self.counted, (rung, fault_class)))

    def wake_at(self, time: float) -> "Plan":
        """Looked at again at that time at the latest."""
        return replace(self, wakes=(*self.wakes, time))

    # --- reading: time and status ---

    @property
    def now(self) -> float:
        """Unix seconds of the snapshot."""
        return self.seen.now

    @property
    def now_text(self) -> str:
        """The same as status holds it."""
        return rfc3339(self.seen.now)

    def condition(self, type_: ConditionType) -> Condition | None:
        """The condition of that type, as decided so far."""
        return next((c for c in self.status.conditions if c.type == type_), None)

    def holds(self, type_: ConditionType) -> bool:
        """Whether that condition is True."""
        found = self.condition(type_)
        return found is not None and found.status == "True"

    @property
    def finished(self) -> bool:
        """Complete or Failed: nothing starts again."""
        return self.holds(ConditionType.COMPLETE) or self.holds(ConditionType.FAILED)

    @property
    def started(self) -> bool:
        """Pods are wanted or winding down."""
        return self.status.run > 0

    @property
    def trained(self) -> bool:
        """Whether the job has made a step at all; until then it starts."""
        return self.status.first_step_time is not None

    @property
    def stopping(self) -> bool:
        """Ranks are asked to save and leave: to be suspended, past the active deadline, or since
        the run was made from another spec.

        A suspension once begun is brought to its end even if the user thinks better of it, since
        ranks that agreed to leave cannot be called back.
        """
        begun = any(entry.signal == "Suspending" for entry in self.status.pending)
        asked = self.spec.suspend or self.past_active_deadline or self.spec_changed
        return self.live and (asked or begun)

    @property
    def spec_changed(self) -> bool:
        """Whether the run was made from another spec than the present one. A job that was edited
        between a suspension and a resume which came too fast to be seen apart is one such."""
        pinned = self.status.run_spec_hash
        return pinned != "" and pinned != self.spec_hash

    @property
    def spec_hash(self) -> str:
        """Hash of what pods and ranks of a run are made from."""
        return self._remember("spec_hash", self.spec, lambda: hash_of_run(self.spec))

    @property
    def past_active_deadline(self) -> bool:
        """spec.activeDeadlineSeconds is over."""
        end = self.active_deadline
        return end is not None and self.now >= end

    @property
    def active_deadline(self) -> float | None:
        """Unix seconds at which the job is stopped; None: never."""
        limit, start = self.spec.active_deadline_seconds, self.status.start_time
        return None if limit is None or start is None else unix(start) + limit

    @property
    def live(self) -> bool:
        """Started, not suspended, not finished: pods are wanted."""
        return self.started and not self.finished and not self.holds(ConditionType.SUSPENDED)

    @property
    def training(self) -> bool:
        """Live and meant to go on: faults are recovered from."""
        return self.live and not self.stopping

    @property
    def nodes(self) -> int:
        """Workers in training; pinned by the run, whatever the spec says meanwhile."""
        return self.status.workers.desired or self.spec.nodes

    def limits(self, rung: Rung) -> RungLimits:
        """Budget and deadline of a rung; InProcess to Gang only."""
        resilience = self.spec.resilience
        return {
            Rung.IN_PROCESS: resilience.in_process,
            Rung.IN_JOB: resilience.in_job,
            Rung.POD: resilience.pod,
            Rung.NODE: resilience.node,
            Rung.GANG: resilience.gang,
        }[rung]

    # --- reading: pods, nodes, view ---

    @property
    def slots(self) -> range:
        """Slots that hold a worker pod."""
        return range(self.nodes + self.spec.spares)

    def incarnation(self, slot: int) -> int:
        """Which incarnation of a slot counts."""
        return self.status.incarnations.get(str(slot), 0)

    def worker_pods(self) -> dict[int, PodObservation]:
        """Slot -> its pod of the incarnation that counts, if it exists."""
        return self._remember("worker_pods", self.status.incarnations, self._index_worker_pods)

    def _index_worker_pods(self) -> dict[int, PodObservation]:
        reserved = {int(slot): n for slot, n in self.status.incarnations.items()}
        return {
            pod.slot: pod
            for pod in self.seen.pods
            if pod.role == "worker" and pod.incarnation == reserved.get(pod.slot, 0)
        }

    def running_workers(self) -> dict[int, PodObservation]:
        """Those of them that do their work and are meant to go on."""
        workers = self.worker_pods()
        return self._remember(
            "running_workers",
            workers,
            lambda: {slot: pod for slot, pod in workers.items() if runs(pod)},
        )

    def pod_of_slot(self, slot: int | None) -> PodObservation | None:
        """The worker pod that counts in a slot."""
        return None if slot is None else self.worker_pods().get(slot)

    def told_of(self, pod: PodObservation) -> WorkerView | None:
        """What the view says of a worker pod."""
        view = self.view
        if view is None:
            return None
        found: dict[str, WorkerView] = self._remember(
            "told_of", view, lambda: {worker.pod_uid: worker for worker in view.workers}
        )
        return found.get(pod.uid)

    def _remember[T](self, name: str, source: object, make: Callable[[], T]) -> T:
        known = self.memo.get(name)
        if known is not None and known[0] is source:
            return known[1]
        made = make()
        self.memo[name] = (source, made)
        return made

    def superseded(self) -> tuple[PodObservation, ...]:
        """Worker and coordinator pods of another incarnation than those that count."""
        workers = self.worker_pods()
        kept = {pod.uid for pod in (self.coordinator, self.standby) if pod is not None}
        return tuple(
            pod
            for pod in self.seen.pods
            if pod.uid not in kept and (pod.role != "worker" or workers.get(pod.slot) is not pod)
        )

    @property
    def coordinator(self) -> PodObservation | None:
        """The coordinator pod that counts, if it exists."""
        return self._coordinator_pod(self.status.coordinator.incarnation)

    @property
    def standby(self) -> PodObservation | None:
        """The coordinator pod that waits to take over, if it is wanted and exists."""
        wanted = self.status.coordinator.standby_incarnation
        return self._coordinator_pod(wanted) if wanted else None

    def _coordinator_pod(self, incarnation: int) -> PodObservation | None:
        pods: tuple[PodObservation, ...] = self._remember(
            "coordinators",
            self.seen.pods,
            lambda: tuple(pod for pod in self.seen.pods if pod.role == "coordinator"),
        )
        return next((pod for pod in pods if pod.incarnation == incarnation), None)

    @property
    def view(self) -> JobView | None:
        """The newest view, if it comes from the coordinator that counts."""
        view = self.seen.view
        if view is None or view.coordinator_incarnation != self.status.coordinator.incarnation:
            return None
        return view

    @property
    def live_view(self) -> JobView | None:
        """The view while its connection is open."""
        return self.view if self.seen.view_connected else None

    @property
    def steps(self) -> bool:
        """Whether the newest view tells of steps in this run."""
        view = self.view
        return view is not None and view.run == self.status.run and view.step >= 0

    def hears(self, worker: WorkerView) -> bool:
        """Whether the coordinator is connected to a worker that also speaks."""
        timeout = self.spec.resilience.heartbeat.timeout_seconds
        return worker.connected and worker.silent_seconds <= timeout

    def node_of(self, pod: PodObservation) -> NodeObservation | None:
        """The node a pod is bound to; None: not bound, or the node is gone."""
        return self.seen.nodes.get(pod.node)

    def node_lost(self, pod: PodObservation) -> bool:
        """Whether the cluster says that the pod's node is gone or not ready."""
        if not pod.node:
            return False
        node = self.node_of(pod)
        return node is None or node.ready != "True"


Rule = Callable[[Plan], Plan]


def hash_of_run(spec: ResilientTrainingJobSpec) -> str:
    """Hash of the fields that pods and ranks of a run are made from; 16 hex digits."""
    # Without defaults, so that a version which adds a field makes no hash anew.
    made_from = spec.model_dump(
        mode="json",
        include={"nodes", "processes_per_node", "instance_type", "storage", "template"},
        exclude_defaults=True,
    )
    text = json.dumps(made_from, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def runs(pod: PodObservation | None) -> bool:
    """Whether a pod does its work and is meant to go on."""
    return pod is not None and pod.phase == "Running" and not pod.deleting and not dead(pod)


def dead(pod: PodObservation) -> bool:
    """Whether a pod does its work no more, even if a sidecar keeps its phase Running.

    Not so one that is being deleted: its trainer was told to end.
    """
    over = (c.name == CONTAINER_TRAINER and c.state == "terminated" for c in pod.containers)
    return ended(pod) or (any(over) and not pod.deleting)


def ended(pod: PodObservation) -> bool:
    """Whether a pod's containers have ended for good."""
    return pod.phase in ("Failed", "Succeeded")

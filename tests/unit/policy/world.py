"""A small world for the brain to act on: cluster, coordinator and ranks, with a clock of its own.

It follows the real parts where decisions depend on them (a dead node's pod goes on saying Running,
its Node turns Unknown after 40 s; a lost seat goes to a spare at once; reports repeat until they
are recovered from) and leaves out everything else.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from rtj_api.messages import JobView
from rtj_api.names import TAINT_FAULTY
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_api.status import ResilientTrainingJobStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import (
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    ReleaseNode,
    SendDirective,
    TaintNode,
)
from rtj_operator.policy.observation import NodeObservation, Observation, PodObservation
from rtj_operator.policy.plan import changed
from tests.unit.policy.build import CPU, JOB, NOW, job, node
from tests.unit.policy.gang import RESTART_SECONDS, Coordinator, Pod, Program

UNREADY_AFTER_SECONDS = 40.0
START_SECONDS = 3.0
CONNECT_SECONDS = 1.5


@dataclass
class Machine:
    """A node; `dead_since` is what only the world knows."""

    name: str
    dead_since: float | None = None
    # Our taint is on it.
    tainted: bool = False


class World:
    """Everything outside decide()."""

    def __init__(self, spec: ResilientTrainingJobSpec, machines: int, steps: int = 10**9) -> None:
        self.spec = spec
        self.now = NOW
        self.status = ResilientTrainingJobStatus()
        self.machines = {f"n{i}": Machine(f"n{i}") for i in range(machines)}
        self.pods: dict[str, Pod] = {}
        self.used: set[str] = set()
        self.coordinator: Coordinator | None = None
        self.program = Program(steps)
        self.writes = 0
        # Cut off: operator and control plane from all nodes; the coordinator from its workers.
        self.dark_since = self.dark_until = 0.0
        self.deaf_until = 0.0
        # The operator has led since then; its views begin a little later.
        self.leads_since = 0.0
        self._last_view: JobView | None = None
        self._uids = 0

    # --- the operator's side ---

    def observe(self) -> Observation:
        """The snapshot that the operator would take now."""
        view = self._last_view if self.dark else self._view()
        connects = self.now < self.leads_since + CONNECT_SECONDS
        if connects or (self.dark and self.leads_since >= self.dark_since):
            view = None
        nodes = {m.name: self._node(m) for m in self.machines.values()}
        return Observation(
            now=self.now,
            job=job(self.spec, self.status),
            profile=CPU,
            pods=tuple(_observed(pod) for pod in self.pods.values()),
            nodes=nodes,
            view=view,
            view_connected=view is not None and not self.dark,
            view_lost_seconds=self.now - self.dark_since if self.dark else 0.0,
            matching_nodes=len(nodes),
            matching_nodes_bad=sum(n.ready != "True" for n in nodes.values()),
        )

    def reconcile(self, keep: Callable[[int], int] = lambda n: n) -> Decision:
        """Decide, reserve, and carry out the first `keep(n)` of n effects (a crash drops the
        others)."""
        seen = self.observe()
        decision = decide(seen)
        again = decide(replace(seen, job=replace(seen.job, status=decision.status)))
        assert not (differing := _differing(decision.status, again.status)), differing
        assert effects(again) == effects(decision), "effects must follow from status alone"
        if decision.status != self.status:
            self.writes += 1
        self.status = _stored(decision.status)
        assert self.status == decision.status, "what is read back must not look changed"
        todo = effects(decision)
        for action in todo[: keep(len(todo))]:
            self._carry_out(action)
        return decision

    def _carry_out(self, action: object) -> None:
        match action:
            case CreatePod():
                self._create(action)
            case DeletePod():
                self._delete(action)
            case SendDirective():
                if self.coordinator is not None and not self.dark:
                    self.coordinator.directive = action.directive
            case TaintNode():
                self.machines[action.name].tainted = True
            case ReleaseNode():
                self.machines[action.name].tainted = False
            case _:
                pass

    def _create(self, action: CreatePod) -> None:
        name = f"{JOB}-{action.role}-{action.slot}-{action.incarnation}"
        if name in self.pods:
            return
        assert name not in self.used, f"{name} is made a second time"
        self.used.add(name)
        self._uids += 1
        self.pods[name] = Pod(
            name,
            f"uid-{self._uids}",
            action.role,
            action.slot,
            action.incarnation,
            self.now,
            excluded_nodes=action.excluded_nodes,
        )

    def _delete(self, action: DeletePod) -> None:
        pod = self.pods.get(action.name)
        if pod is None or pod.uid != action.uid:
            return
        over = self.status.completion_time or self.status.phase == "Suspended"
        wanted = self.status.incarnations.get(str(pod.slot), 0)
        if pod.role == "coordinator":
            wanted = self.status.coordinator.incarnation
        assert over or pod.incarnation < wanted, f"{pod.name} is deleted without a reservation"
        if action.force:
            del self.pods[pod.name]
        else:
            pod.deleting = True

    def _view(self) -> JobView | None:
        return self.coordinator.view() if self.coordinator else None

    @property
    def dark(self) -> bool:
        """Whether operator and control plane are cut off from the nodes."""
        return self.now < self.dark_until

    # --- time ---

    def advance(self, seconds: float) -> None:
        """Let the world go on, in steps of at most a second."""
        while seconds > 0:
            passed = min(1.0, seconds)
            self.now += passed
            seconds -= passed
            self._kubelets()
            if self.coordinator is not None:
                living = {pod.uid: pod for pod in self.pods.values() if self._lives(pod)}
                if self.now < self.deaf_until:
                    living = {}
                self.coordinator.advance(self.now, passed, living, self.program)

    def _kubelets(self) -> None:
        for pod in list(self.pods.values()):
            dead = self.dark or (bool(pod.node) and self.machines[pod.node].dead_since is not None)
            if pod.deleting and not dead:
                del self.pods[pod.name]
            elif pod.phase == "Pending" and not dead:
                self._start(pod)
        held = self._pod_of_coordinator()
        if held is None:
            self.coordinator = None
        elif self.coordinator is None or self.coordinator.incarnation != held.incarnation:
            self.coordinator = Coordinator(held.incarnation)

    def _start(self, pod: Pod) -> None:
        if not pod.node:
            taken = {p.node for p in self.pods.values() if p.role == pod.role and _holds(p)}
            free = [m.name for m in self.machines.values() if self._schedulable(m)]
            free = [n for n in free if n not in taken and n not in pod.excluded_nodes]
            if not free:
                return
            pod.node, pod.since = free[0], self.now
        elif self.now - pod.since >= START_SECONDS:
            pod.phase = "Running"

    def _schedulable(self, machine: Machine) -> bool:
        return machine.dead_since is None and not machine.tainted and not self.dark

    def _pod_of_coordinator(self) -> Pod | None:
        wanted = self.status.coordinator.incarnation
        for pod in self.pods.values():
            if pod.role == "coordinator" and pod.incarnation == wanted and self._lives(pod):
                return pod
        return None

    def _lives(self, pod: Pod) -> bool:
        return (
            pod.phase == "Running"
            and (self.dark or not pod.deleting)
            and self.machines[pod.node].dead_since is None
        )

    # --- faults on purpose; each does nothing where it cannot happen ---

    def raise_exception(self, position: int) -> None:
        """In a rank; NVRx restarts in process."""
        c = self.coordinator
        if c is not None and position in c.seats and c.step >= 0:
            c.report("exception", c.met[c.seats[position]], position)
            c.ready_at = self.now + RESTART_SECONDS
            c.step = float(self.program.checkpoint)

    def kill_process(self, position: int) -> None:
        """A training process; the launcher restarts in job."""
        c = self.coordinator
        if c is not None and position in c.seats and c.step >= 0:
            c.report("exit", c.met[c.seats[position]], position)
            c.new_round(self.program)

    def kill_launcher(self, position: int) -> None:
        """ft_launcher of a position; its pod lives on."""
        c = self.coordinator
        if c is not None and position in c.seats:
            c.report("launcher", c.met[c.seats[position]], position)
            c.spent.add(c.seats.pop(position))

    def kill_control(self, _: int) -> None:
        """nvrx-control; nothing trains until the next run."""
        c = self.coordinator
        if c is not None and c.control and c.run:
            c.control = False
            c.report("control", None, -1)

    def hang(self, _: int) -> None:
        """All ranks live and stand still; told when the rank timeout is over."""
        c = self.coordinator
        if c is not None and c.step >= 0:
            self.program.stuck = True
            c.report("hang", None, -1)

    def kill_pod(self, index: int) -> None:
        """Containers of any pod end."""
        self._with_pod(index, lambda pod: setattr(pod, "phase", "Failed"))

    def delete_pod(self, index: int) -> None:
        """A user deletes any pod."""
        self._with_pod(index, lambda pod: setattr(pod, "deleting", True))

    def _with_pod(self, index: int, act: Callable[[Pod], None]) -> None:
        live = [pod for pod in self.pods.values() if self._lives(pod)]
        if live:
            act(live[index % len(live)])

    def kill_node(self, index: int) -> None:
        """Any machine that lives, while enough of them are left to train."""
        alive = [m for m in self.machines.values() if m.dead_since is None]
        if len(alive) > self.spec.nodes + 1:
            alive[index % len(alive)].dead_since = self.now

    def break_node(self, position: int) -> None:
        """The machine under a position: it lives, but each process on it fails; one at a time."""
        c = self.coordinator
        if c is not None and position in c.seats:
            self.program.bad_nodes = {c.met[c.seats[position]].node}

    def kill_rack(self, index: int) -> None:
        """A third of the machines at once."""
        for _ in range(len(self.machines) // 3):
            self.kill_node(index)

    def outage(self, index: int) -> None:
        """The operator and the control plane are cut off from all nodes for a while."""
        self._last_view = self._last_view if self.dark else self._view()
        self.dark_since = self.now
        self.dark_until = self.now + (5.0, 20.0, 60.0, 400.0, 1200.0, 2400.0)[index % 6]

    def deafen(self, index: int) -> None:
        """The coordinator is cut off from all its workers for a while."""
        self.deaf_until = self.now + (6.0, 15.0, 40.0, 50.0, 70.0, 100.0)[index % 6]

    def elect(self, _: int) -> None:
        """Another operator leads; it has no view yet."""
        self.leads_since = self.now

    # --- what users change ---

    def suspend(self, _: int) -> None:
        """spec.suspend: true."""
        self.spec = changed(self.spec, suspend=True)

    def resume(self, _: int) -> None:
        """spec.suspend: false."""
        self.spec = changed(self.spec, suspend=False)

    def limit(self, index: int) -> None:
        """spec.activeDeadlineSeconds: soon, or never."""
        seconds = 10 * index or None
        self.spec = changed(self.spec, active_deadline_seconds=seconds)

    # --- seen from outside ---

    def _node(self, machine: Machine) -> NodeObservation:
        dead = machine.dead_since
        late = self.dark or (dead is not None and self.now - dead > UNREADY_AFTER_SECONDS)
        taints = ((TAINT_FAULTY, "job-uid", "NoSchedule"),) if machine.tainted else ()
        return node(machine.name, ready="Unknown" if late else "True", taints=taints)


def _differing(
    first: ResilientTrainingJobStatus, second: ResilientTrainingJobStatus
) -> dict[str, tuple[object, object]]:
    """Fields that a second decision about the same changes; it must not differ."""
    one, two = first.model_dump(), second.model_dump()
    return {name: (one[name], two[name]) for name in one if one[name] != two[name]}


def _stored(status: ResilientTrainingJobStatus) -> ResilientTrainingJobStatus:
    """The status as the API server takes and gives it back, within all bounds."""
    wire = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return ResilientTrainingJobStatus.model_validate(wire)


def effects(decision: Decision) -> list[object]:
    """Actions but the Events, which tell of this pass."""
    return [a for a in decision.actions if not isinstance(a, EmitEvent)]


def _holds(pod: Pod) -> bool:
    return bool(pod.node) and pod.phase not in ("Failed", "Succeeded")


def _observed(pod: Pod) -> PodObservation:
    return PodObservation(
        name=pod.name,
        uid=pod.uid,
        role=pod.role,
        slot=pod.slot,
        incarnation=pod.incarnation,
        phase=pod.phase,
        deleting=pod.deleting,
        created=pod.since,
        node=pod.node,
        unschedulable="" if pod.node else "no node is free",
        excluded_nodes=pod.excluded_nodes,
    )

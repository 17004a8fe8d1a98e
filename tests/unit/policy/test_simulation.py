"""Whatever happens, in whatever order, and wherever the operator crashes: training goes on or the
job fails with a reason; no budget is exceeded, no name used twice, nothing done unreserved."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtj_api.ladder import Rung
from rtj_api.reasons import Phase, Reason
from rtj_operator.policy.clocks import CLOCKS_MAX
from rtj_operator.policy.times import unix
from tests.unit.policy.build import spec
from tests.unit.policy.world import World

Fault = Callable[[World, int], None]

# Faults from which training can go on.
PASSING: tuple[Fault, ...] = (
    World.raise_exception,
    World.kill_process,
    World.kill_launcher,
    World.kill_control,
    World.hang,
    World.kill_pod,
    World.delete_pod,
    World.kill_node,
)
# Faults that are no machine's: somebody is cut off, or new.
OUTAGES: tuple[Fault, ...] = (World.outage, World.deafen, World.elect)
# What a user takes back as soon as it is written, or does not.
WISHES: tuple[Fault, ...] = (World.suspend, World.resume, World.limit)
ENDS = {
    Reason.RESTART_BUDGET_EXCEEDED,
    Reason.NO_PROGRESS,
    Reason.START_DEADLINE_EXCEEDED,
}
# Effects lost from which on nobody operates until the next fault.
AWAY = 9
# Looks at the world after the last fault, in which all must be well again.
PATIENCE = 400


def story(faults: tuple[Fault, ...]) -> st.SearchStrategy[list[tuple[Fault, int, float, int]]]:
    """Faults, whom they hit, seconds until the next, and effects lost to an operator's crash."""
    event = st.tuples(
        st.sampled_from(faults),
        st.integers(0, 5),
        st.sampled_from((0.2, 1.0, 3.0, 12.0, 70.0)),
        st.integers(0, 12),
    )
    return st.lists(event, max_size=12)


def check_budgets(world: World) -> None:
    for rung, times in world.status.windows.items():
        settings_ = {
            Rung.IN_PROCESS: world.spec.resilience.in_process,
            Rung.IN_JOB: world.spec.resilience.in_job,
            Rung.POD: world.spec.resilience.pod,
            Rung.NODE: world.spec.resilience.node,
            Rung.GANG: world.spec.resilience.gang,
        }[rung]
        newest = max(map(unix, times), default=0.0)
        inside = [t for t in times if newest - unix(t) < settings_.window_seconds]
        assert len(inside) <= settings_.limit, f"{rung} beyond its budget"


def check_goodput(world: World) -> None:
    """No more time is lost than has passed."""
    goodput, first = world.status.goodput, world.status.first_step_time
    if goodput is not None and first is not None:
        assert sum(goodput.lost.values()) <= world.now - unix(first) + 0.01


def run(world: World, events: list[tuple[Fault, int, float, int]]) -> None:
    for _ in range(12):
        world.reconcile()
        world.advance(1.0)
    for fault, whom, pause, lost in events:
        fault(world, whom)
        world.advance(0.2)
        # The operator dies after its status write, with some effects undone. A new one follows at
        # once, or only after the pause.
        world.reconcile(keep=lambda n, lost=lost: max(0, n - lost))
        check_budgets(world)
        if lost >= AWAY:
            world.advance(pause)
            continue
        while pause > 0:
            world.advance(min(pause, 2.0))
            world.reconcile()
            check_budgets(world)
            pause -= 2.0


def trains_or_says_why(world: World) -> None:
    """Progress, or a failure that has a name."""
    if world.status.phase is Phase.FAILED:
        assert world.status.reason in ENDS
        assert world.status.message
    else:
        assert world.status.phase is Phase.RUNNING, world.status


def settle(world: World) -> None:
    """Until training is beyond where it was, or the job has failed."""
    before = world.status.progress.highest_step
    for _ in range(PATIENCE):
        world.advance(2.0)
        decision = world.reconcile()
        check_budgets(world)
        check_goodput(world)
        highest = world.coordinator.highest if world.coordinator else -1
        if world.status.phase is Phase.FAILED:
            return
        if world.status.phase is Phase.RUNNING and highest > before + 5:
            return
        assert world.status.phase in Phase
        if decision.wake_after_seconds is not None:
            world.advance(min(decision.wake_after_seconds, 30.0))


@settings(
    max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(story(PASSING))
def test_passing_faults_end_in_progress_or_a_named_failure(
    events: list[tuple[Fault, int, float, int]],
) -> None:
    world = World(spec(), machines=9)
    run(world, events)
    settle(world)
    trains_or_says_why(world)
    assert world.status.phase is Phase.FAILED or world.status.recovery is None


@settings(
    max_examples=30, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(story(PASSING))
def test_a_broken_program_ends_in_a_named_failure(
    events: list[tuple[Fault, int, float, int]],
) -> None:
    world = World(spec(), machines=9)
    run(world, events)
    world.program.broken = True
    settle(world)
    world.advance(1.0)
    world.reconcile()
    assert world.status.phase is Phase.FAILED
    assert world.status.reason in ENDS


@settings(
    max_examples=25, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(story(PASSING), st.integers(1, 3))
def test_small_budgets_are_never_exceeded(
    events: list[tuple[Fault, int, float, int]], limit: int
) -> None:
    rungs = ("inProcess", "inJob", "pod", "node", "gang")
    resilience = {rung: {"limit": limit} for rung in rungs}
    world = World(spec(resilience=resilience), machines=9)
    run(world, events)
    settle(world)
    assert world.status.phase in (Phase.RUNNING, Phase.FAILED)


@settings(
    max_examples=20, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(story(PASSING))
def test_the_job_completes_or_fails_and_leaves_nothing_running(
    events: list[tuple[Fault, int, float, int]],
) -> None:
    world = World(spec(), machines=9, steps=60)
    run(world, events)
    for _ in range(PATIENCE):
        if world.status.phase in (Phase.COMPLETE, Phase.FAILED):
            break
        world.advance(2.0)
        world.reconcile()
    assert world.status.phase in (Phase.COMPLETE, Phase.FAILED)
    for _ in range(40):
        world.advance(5.0)
        world.reconcile()
    on_living = [p for p in world.pods.values() if world.machines[p.node].dead_since is None]
    assert [p.name for p in on_living if p.phase in ("Running", "Pending")] == []


@settings(
    max_examples=20, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(story(PASSING))
def test_steady_state_writes_progress_once_a_minute_and_nothing_else(
    events: list[tuple[Fault, int, float, int]],
) -> None:
    world = World(spec(), machines=12)
    run(world, events)
    settle(world)
    for _ in range(60):
        world.advance(2.0)
        world.reconcile()
    if world.status.phase is not Phase.RUNNING:
        return
    before, writes = world.status, world.writes
    for _ in range(150):
        world.advance(2.0)
        world.reconcile()
    assert world.writes - writes <= 5
    kept = {"progress", "goodput"}
    assert world.status.model_dump(exclude=kept) == before.model_dump(exclude=kept)


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize(("spares", "want"), [(0, "Node"), (1, "Pod"), (2, "Pod")])
@pytest.mark.parametrize("first", [World.kill_process, World.raise_exception, World.hang])
def test_a_node_that_breaks_each_process_is_given_up_for_another(
    first: Fault, spares: int, want: str, position: int
) -> None:
    """At once for a spare's; for a new pod, only when it fails there too."""
    world = World(spec(spares=spares), machines=6)
    run(world, [])
    assert world.coordinator is not None
    bad = world.coordinator.met[world.coordinator.seats[position]].node
    run(world, [(World.break_node, position, 0.2, 0), (first, position, 0.2, 0)])
    settle(world)
    assert world.status.phase is Phase.RUNNING, world.status.message
    assert [e.name for e in world.status.nodes.excluded] == [bad]
    assert world.status.history[-1].rung == want
    for _ in range(20):
        world.advance(2.0)
        world.reconcile()
    assert bad not in {p.node for p in world.pods.values() if p.role == "worker"}
    assert world.status.workers.spares == spares


def test_a_pod_that_waits_takes_a_node_that_is_well_again() -> None:
    """When the job has lost more machines than the cluster can spare."""
    world = World(spec(nodes=5, spares=0), machines=6)
    run(world, [])
    assert world.coordinator is not None
    lost = world.machines["n0"]
    for _ in range(2):
        lost = world.machines[world.coordinator.met[world.coordinator.seats[1]].node]
        lost.dead_since = world.now
        for _ in range(200):
            world.advance(2.0)
            world.reconcile()
    assert len(world.status.nodes.excluded) == 2
    assert world.status.phase is Phase.RECOVERING
    lost.dead_since = None
    for _ in range(400):
        world.advance(2.0)
        world.reconcile()
    assert world.status.phase is Phase.RUNNING
    assert lost.name in {pod.node for pod in world.pods.values()}
    assert world.status.restarts.summary == "0/0/0/2/0"


@pytest.mark.parametrize("stepped", [False, True])
@pytest.mark.parametrize("rank", [None, 0])
@pytest.mark.parametrize(
    ("nodes", "spares", "machines"), [(2, 1, 9), (2, 0, 9), (4, 0, 4), (64, 1, 70)]
)
def test_a_program_that_is_broken_everywhere_costs_a_minute_and_no_node(
    nodes: int, spares: int, machines: int, rank: int | None, stepped: bool
) -> None:
    """Even if it is always the same rank that fails."""
    world = World(spec(nodes=nodes, spares=spares), machines=machines)
    world.program.broken = not stepped
    world.program.broken_at = rank
    run(world, [])
    world.program.broken = True
    if stepped:
        world.kill_process(0)
    for _ in range(30):
        world.advance(2.0)
        world.reconcile()
    assert world.status.reason == Reason.NO_PROGRESS
    assert world.status.nodes.excluded == ()


@settings(
    max_examples=40, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(story((*PASSING, World.break_node)))
def test_a_broken_node_among_other_faults_ends_in_progress_or_a_named_failure(
    events: list[tuple[Fault, int, float, int]],
) -> None:
    world = World(spec(), machines=12)
    run(world, events)
    settle(world)
    trains_or_says_why(world)


@settings(max_examples=20, derandomize=True, deadline=None)
@given(story(PASSING))
def test_a_suspension_at_any_moment_leaves_no_pod_and_a_resume_trains_on(
    events: list[tuple[Fault, int, float, int]],
) -> None:
    world = World(spec(), machines=12)
    run(world, events)
    world.spec = spec(suspend=True)
    for _ in range(60):
        world.reconcile(keep=lambda n: n // 2)
        world.advance(2.0)
        world.reconcile()
    if world.status.phase is Phase.FAILED:
        return
    assert world.status.phase is Phase.SUSPENDED
    assert [p for p in world.pods.values() if world.machines[p.node].dead_since is None] == []
    run_before = world.status.run
    world.spec = spec()
    settle(world)
    assert world.status.phase is Phase.RUNNING
    assert world.status.run > run_before


@settings(
    max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(story((*WISHES, *WISHES, World.resume, *PASSING, World.elect)))
def test_whatever_a_user_takes_back_a_job_that_may_run_trains_on_or_its_deadline_is_over(
    events: list[tuple[Fault, int, float, int]],
) -> None:
    world = World(spec(), machines=12)
    run(world, [*events, (World.resume, 0, 0.2, 0), (World.limit, 0, 0.2, 0)])
    settle(world)
    if world.status.phase is Phase.FAILED:
        assert world.status.reason in {*ENDS, Reason.ACTIVE_DEADLINE_EXCEEDED}
        return
    assert world.status.phase is Phase.RUNNING, world.status
    writes = world.writes
    for _ in range(30):
        world.advance(2.0)
        world.reconcile()
    assert world.writes - writes <= 3


@settings(
    max_examples=40, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(story((*PASSING, World.kill_rack, *OUTAGES)))
def test_outages_between_faults_end_in_progress_or_a_named_failure(
    events: list[tuple[Fault, int, float, int]],
) -> None:
    world = World(spec(), machines=9)
    run(world, events)
    settle(world)
    trains_or_says_why(world)


@settings(max_examples=25, derandomize=True, deadline=None)
@given(story(OUTAGES), st.sampled_from((2, 12)))
def test_outages_alone_cost_a_job_of_any_size_no_machine(
    events: list[tuple[Fault, int, float, int]], nodes: int
) -> None:
    """Nothing has failed but lines, so whatever the operator sees, training is where it was."""
    world = World(spec(nodes=nodes), machines=nodes + 3)
    run(world, events)
    settle(world)
    assert world.status.phase is Phase.RUNNING
    assert world.status.nodes.excluded == ()


# More than there are clocks of one kind.
CROWD = CLOCKS_MAX + 16


@settings(
    max_examples=6, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from((World.kill_rack, World.kill_node, *OUTAGES)),
            st.integers(0, 5),
            st.sampled_from((1.0, 12.0, 70.0)),
            st.integers(0, 12),
        ),
        max_size=3,
    )
)
def test_a_gang_larger_than_the_clocks_trains_on(
    events: list[tuple[Fault, int, float, int]],
) -> None:
    world = World(spec(nodes=CROWD), machines=CROWD * 2)
    run(world, events)
    settle(world)
    assert world.status.phase is Phase.RUNNING, world.status.message
    assert len(world.status.windows.get(Rung.GANG, ())) <= len(events)

"""When ranks must end although nobody said so: their position may have been given away."""

from dataclasses import dataclass

import pytest

from rtj_api.messages import RankBeat, WorkerDirective
from rtj_trainer.agent.lease import Lease

LAUNCH = (1, 0, 0)
# 2 x 5 s and 15 s more.
LENGTH = 25.0


@dataclass
class Scene:
    """A worker that trained undisturbed until second 0, and is looked at ten times a second."""

    nodes: int = 2
    step_seconds: float = 1.0

    def seen(self) -> Lease:
        """The lease as it is at second 0."""
        lease = Lease()
        start = -10.0 * self.step_seconds
        lease.begin(LAUNCH, start)
        for tick in range(int(-start * 10) + 1):
            now = start + tick / 10
            lease.watch(self._ranks(now), self.nodes, now)
            lease.renew(0.0, now)
        return lease

    def lapses(self, seconds: float, steps: bool = False, absent: bool = False) -> float | None:
        """When it lapses if the coordinator is silent from second 0 on; None: not in that time.
        `steps`: the ranks make steps all the same. `absent`: connections are refused."""
        lease, now = self.seen(), 0.0
        directive = WorkerDirective(state="train", nodes=self.nodes, beat_timeout_seconds=5.0)
        while now < seconds:
            now += 0.1
            if absent:
                lease.renew(0.5, now)
            lease.watch(self._ranks(now if steps else 0.0), self.nodes, now)
            lease.begin(LAUNCH, now)
            if lease.lapsed_seconds(directive, now) is not None:
                return now
        return None

    def _ranks(self, now: float) -> tuple[RankBeat, ...]:
        step = 100 + int(now // self.step_seconds)
        return (RankBeat(local_rank=0, alive=True, step=step),)


@pytest.mark.parametrize(
    ("scene", "seen", "want"),
    [
        pytest.param(Scene(), {}, LENGTH, id="cut off from peers and coordinator"),
        pytest.param(Scene(), {"steps": True}, None, id="only the coordinator is away"),
        pytest.param(
            Scene(nodes=1), {"steps": True}, LENGTH, id="a lone position's steps prove nothing"
        ),
        pytest.param(
            Scene(nodes=1), {"steps": True, "absent": True}, None, id="its coordinator restarts"
        ),
        pytest.param(Scene(step_seconds=40.0), {}, 80.0, id="steps take longer than the lease"),
    ],
)
def test_lease_lapses_where_nothing_proves_the_position(
    scene: Scene, seen: dict[str, bool], want: float | None
) -> None:
    lapsed = scene.lapses(200.0, **seen)
    assert lapsed == (None if want is None else pytest.approx(want, abs=0.3))


def test_another_launch_and_a_pause_of_the_process_begin_it_anew() -> None:
    lease = Scene().seen()
    directive = WorkerDirective(state="train", nodes=2, beat_timeout_seconds=5.0)
    lease.forgive(100.0)
    assert lease.lapsed_seconds(directive, 100.0 + LENGTH - 1) is None
    assert lease.lapsed_seconds(directive, 100.0 + LENGTH + 1) is not None
    lease.begin((2, 0, 0), 200.0)
    assert lease.lapsed_seconds(directive, 200.0 + LENGTH - 1) is None
    lease.begin(None, 300.0)
    assert lease.lapsed_seconds(directive, 900.0) is None, "nothing runs"

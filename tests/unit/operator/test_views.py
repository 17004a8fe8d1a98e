"""A job's links: to the coordinator that counts and to its standby, which is promoted in place."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from rtj_api import auth
from rtj_api.messages import JobDirective, JobView
from rtj_operator.work import view_link
from rtj_operator.work.view_link import Coordinator
from rtj_operator.work.views import Views
from tests.api.support.api import until
from tests.api.support.coordinator import Coordinator as Hand

MASTER_KEY = bytes(32)
JOB_KEY = auth.job_key(MASTER_KEY, "uid")
KEY = ("team", "a")
COUNTS = Coordinator(job_uid="uid", incarnation=3, address="127.79.1.1")
STANDBY = Coordinator(job_uid="uid", incarnation=4, address="127.79.1.2")
DIRECTIVE = JobDirective(epoch=0, number=0, run=1, nodes=1, processes_per_node=1)


@pytest.fixture
async def views() -> AsyncIterator[Views]:
    made = Views(MASTER_KEY, lambda _key, _seconds: None)
    yield made
    await made.close()


async def test_promoted_standby_keeps_its_link_and_is_directed_through_it(views: Views) -> None:
    async with Hand(COUNTS.address, JOB_KEY, 3) as counts, Hand(STANDBY.address, JOB_KEY, 4) as own:
        views.steer(KEY, [COUNTS, STANDBY], 1)
        await own.tell(JobView(coordinator_incarnation=4, standby=True))

        async def known() -> bool:
            states = views.steer(KEY, [COUNTS, STANDBY], 1)
            return all(state.connected and state.view for state in states)

        await until("both views", known)
        views.direct(KEY, 4, replace(DIRECTIVE, active=False))
        views.direct(KEY, 3, DIRECTIVE)

        async def directed() -> bool:
            return len(counts.directives) == len(own.directives) == 1

        await until("both directed", directed)
        assert (counts.directives[0].active, own.directives[0].active) == (True, False)

        # What the pass does that promotes it, and the next one.
        views.direct(KEY, 4, replace(DIRECTIVE, run=2))
        (state,) = views.steer(KEY, [STANDBY], 1)
        assert state.connected
        assert state.view is not None

        async def promoted() -> bool:
            return len(own.directives) == 2

        await until("promoted", promoted)
        assert (own.directives[1].active, own.directives[1].run) == (True, 2)
        assert own.directives[1].number > own.directives[0].number
        assert (counts.connections, own.connections) == (1, 1)


async def test_coordinator_that_answers_nothing_is_lost_soon_and_one_that_only_waits_is_not(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_link, "HEARTBEAT_SECONDS", 0.2)
    loop = asyncio.get_running_loop()
    async with Hand(COUNTS.address, JOB_KEY, 3) as hand:

        async def connected() -> bool:
            return views.steer(KEY, [COUNTS], 1)[0].connected

        await until("connected", connected)
        # Longer than it may keep silent, and the hand itself speaks only every two seconds.
        quiet_until = loop.time() + 1.0
        while loop.time() < quiet_until:
            assert await connected()
            await asyncio.sleep(0.05)
        hand.deafen()
        deaf_at = loop.time()

        async def lost() -> bool:
            return not await connected()

        await until("lost", lost)
        assert loop.time() - deaf_at < 1.0

"""The job views of all jobs. A view knows of a fault some 20 s before Kubernetes does.

Only a leader connects. A link goes to the pod of the incarnation that status names, by address,
and each side proves that it has the job's key: an address that was given to another pod leaks
nothing.
"""

import itertools
from collections.abc import Callable

import aiohttp

from rtj_api import auth
from rtj_api.messages import JobDirective
from rtj_operator.work.queue import JobKey
from rtj_operator.work.view_link import (
    CONNECT_SECONDS,
    IDLE_PROGRESS_SECONDS,
    PROGRESS_SECONDS,
    Coordinator,
    ViewLink,
    ViewState,
)

type Wake = Callable[[JobKey, float], None]


class Views:
    """One link a job. `wake(key, seconds)` is called when a job should be looked at."""

    def __init__(self, master_key: bytes, wake: Wake) -> None:
        self._master_key = master_key
        self._wake = wake
        self._links: dict[JobKey, ViewLink] = {}
        self._numbers = itertools.count(1)
        self._session: aiohttp.ClientSession | None = None

    def steer(self, key: JobKey, coordinator: Coordinator, epoch: int) -> ViewState:
        """Have the job's link go to this coordinator, and tell what is known of it."""
        link = self._links.get(key)
        if link is None or (link.coordinator, link.epoch) != (coordinator, epoch):
            link = self._replace(key, link, coordinator, epoch)
        return link.state

    def expect_steps(self, key: JobKey, *, awaited: bool) -> None:
        """Say whether a decision waits for the job's next step, or only its progress is written."""
        link = self._links.get(key)
        if link is not None:
            link.progress_seconds = PROGRESS_SECONDS if awaited else IDLE_PROGRESS_SECONDS

    def refused_hellos(self) -> dict[JobKey, int]:
        """How many clients each job's coordinator has turned away, as its newest view tells."""
        views = {key: link.state.view for key, link in self._links.items()}
        return {key: view.refused_hellos for key, view in views.items() if view is not None}

    def direct(self, key: JobKey, directive: JobDirective) -> None:
        """Make sure that the connected coordinator has this directive, now and after reconnects."""
        link = self._links.get(key)
        if link is not None:
            link.direct(directive)

    def drop(self, key: JobKey) -> None:
        """Close the job's link."""
        link = self._links.pop(key, None)
        if link is not None:
            link.stop()

    async def close(self) -> None:
        """Close all links: leadership or the process ends."""
        for key in tuple(self._links):
            self.drop(key)
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _replace(
        self, key: JobKey, old: ViewLink | None, coordinator: Coordinator, epoch: int
    ) -> ViewLink:
        known = None
        if old is not None and _same_incarnation(old.coordinator, coordinator):
            known = old.state.view
        self.drop(key)
        link = self._links[key] = ViewLink(
            coordinator,
            epoch,
            auth.job_key(self._master_key, coordinator.job_uid),
            lambda seconds: self._wake(key, seconds),
            self._numbers,
            known,
        )
        if coordinator.address:
            link.start(self._opened_session())
        return link

    def _opened_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(timeout=timeout, connector=connector)
        return self._session


def _same_incarnation(one: Coordinator, other: Coordinator) -> bool:
    return (one.job_uid, one.incarnation) == (other.job_uid, other.incarnation)

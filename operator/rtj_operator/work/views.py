"""The job views of all jobs. A view knows of a fault some 20 s before Kubernetes does.

Only a leader connects. Links go to the pods of the incarnations that status names, the coordinator
that counts and its standby, by address. Each side proves that it has the job's key: an address that
was given to another pod leaks nothing. A standby that is promoted keeps its link.
"""

import itertools
from collections.abc import Callable, Sequence

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
    """One link a coordinator. `wake(key, seconds)` is called when a job should be looked at."""

    def __init__(self, master_key: bytes, wake: Wake) -> None:
        self._master_key = master_key
        self._wake = wake
        # By incarnation.
        self._links: dict[JobKey, dict[int, ViewLink]] = {}
        self._numbers = itertools.count(1)
        self._session: aiohttp.ClientSession | None = None

    def steer(
        self, key: JobKey, coordinators: Sequence[Coordinator], epoch: int
    ) -> tuple[ViewState, ...]:
        """Have the job's links go to these coordinators and to no other, and tell what is known of
        each."""
        links = self._links.setdefault(key, {})
        for incarnation in links.keys() - {wanted.incarnation for wanted in coordinators}:
            links.pop(incarnation).stop()
        for wanted in coordinators:
            link = links.get(wanted.incarnation)
            if link is None or (link.coordinator, link.epoch) != (wanted, epoch):
                links[wanted.incarnation] = self._replace(key, link, wanted, epoch)
        return tuple(links[wanted.incarnation].state for wanted in coordinators)

    def expect_steps(self, key: JobKey, *, awaited: bool) -> None:
        """Say whether a decision waits for the job's next step, or only its progress is written."""
        for link in self._links.get(key, {}).values():
            link.progress_seconds = PROGRESS_SECONDS if awaited else IDLE_PROGRESS_SECONDS

    def refused_hellos(self) -> dict[JobKey, int]:
        """How many clients each job's coordinators have turned away, as their newest views tell."""
        refused: dict[JobKey, int] = {}
        for key, links in self._links.items():
            views = [link.state.view for link in links.values()]
            counts = [view.refused_hellos for view in views if view is not None]
            if counts:
                refused[key] = sum(counts)
        return refused

    def direct(self, key: JobKey, incarnation: int, directive: JobDirective) -> None:
        """Make sure that a coordinator has this directive, now and after reconnects."""
        link = self._links.get(key, {}).get(incarnation)
        if link is not None:
            link.direct(directive)

    def drop(self, key: JobKey) -> None:
        """Close the job's links."""
        for link in self._links.pop(key, {}).values():
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
        if old is not None:
            old.stop()
            if old.coordinator.job_uid == coordinator.job_uid:
                known = old.state.view
        link = ViewLink(
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

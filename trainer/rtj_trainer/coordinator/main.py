"""The coordinator's program: wires core, sockets, control container and store together."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Coroutine
from typing import Any, Final

from aiohttp import web

from rtj_api import names
from rtj_trainer.coordinator import memory, metrics
from rtj_trainer.coordinator.conductor import Conductor, keep_memory
from rtj_trainer.coordinator.control_link import follow_control
from rtj_trainer.coordinator.core import Core
from rtj_trainer.coordinator.peers import Endpoint, Identity
from rtj_trainer.coordinator.settings import Settings, SettingsError
from rtj_trainer.coordinator.steering import Steering
from rtj_trainer.coordinator.wake import Wake

_SHUTDOWN_SECONDS: Final = 0.2
# All workers of a large job may connect at once; who finds the queue full tries a second later.
_BACKLOG: Final = 2048
log = logging.getLogger("rtj.coordinator")


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; nothing needs saving then."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    now = time.monotonic()
    kept = await asyncio.to_thread(memory.load, settings.run_dir)
    core = Core(settings.job_uid, kept, now, time.time() - now)
    happened, settled = Wake(), Wake()
    identity = Identity(settings.job_uid, settings.incarnation, settings.key)
    conductor = Conductor(core, identity, settings.store_host, happened, settled)
    runners = await _listen(settings, core, conductor)
    work: tuple[Coroutine[Any, Any, object], ...] = (
        conductor.run(),
        follow_control(core, settings.control_socket, happened, settled),
        Steering(core, settings.store_port, happened, settled).run(),
        keep_memory(core, settings.run_dir, settled),
        stop.wait(),
    )
    tasks = [asyncio.create_task(part) for part in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            # Only the wait for a signal ever returns; anything else raises here.
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        conductor.abort()
        await asyncio.gather(*(runner.cleanup() for runner in runners))


async def _listen(settings: Settings, core: Core, conductor: Conductor) -> list[web.AppRunner]:
    sites = (
        (_socket(names.WORKER_SOCKET_PATH, conductor.worker_endpoint), settings.worker_port),
        (_socket(names.VIEW_SOCKET_PATH, conductor.view_endpoint), settings.view_port),
        (
            metrics.application(core, lambda: conductor.refusals, lambda: conductor.bad_frames),
            settings.metrics_port,
        ),
    )
    runners: list[web.AppRunner] = []
    for application, port in sites:
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        host = settings.metrics_host or None
        await web.TCPSite(runner, host, port, backlog=_BACKLOG).start()
        runners.append(runner)
    return runners


def _socket(path: str, endpoint: Endpoint) -> web.Application:
    application = web.Application()
    application.add_routes([web.get(path, endpoint.handle)])
    return application


def main() -> None:
    """Entry point of the coordinator's container."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        settings = Settings.load(os.environ)
    except SettingsError as error:
        sys.exit(f"rtj-coordinator: {error}")
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()

"""The operator process: settings, signals, leadership, engine."""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import kopf
from pydantic import ValidationError

from rtj_operator import logs
from rtj_operator.engine import Engine
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.credentials import Credentials
from rtj_operator.kube.lease import Leadership
from rtj_operator.settings import Settings, SettingsError
from rtj_operator.shell import Process

log = logging.getLogger(__name__)


def main() -> None:
    """Entry point of `rtj-operator`. Ends with 0 after SIGTERM, with 2 for bad settings."""
    try:
        settings = Settings()
        logs.configure(settings.log_format, settings.log_level.upper())
        master_key = settings.read_master_key()
        credentials = Credentials()
    except ValidationError as error:
        for item in error.errors(include_url=False):
            name = "_".join(str(part) for part in item["loc"]).upper()
            sys.stderr.write(f"RTJ_OPERATOR_{name}: {item['msg']}\n")
        sys.exit(2)
    except (SettingsError, kopf.LoginError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    asyncio.run(run(settings, master_key, credentials))


async def run(settings: Settings, master_key: bytes, credentials: Credentials) -> None:
    """Run until SIGTERM or SIGINT; then the lease is given up at once."""
    stop = asyncio.Event()

    def take_signals() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)

    take_signals()
    leadership = Leadership(settings.lease_namespace, settings.lease_name, settings.identity)
    process = Process(
        credentials=credentials, identity=settings.identity, take_signals=take_signals
    )
    async with KubeClient(credentials, leadership.left) as client:
        engine = Engine(settings, master_key, client, leadership, process)
        log.info("starting as %s", settings.identity)
        try:
            await _until(stop, engine.run(), leadership.run(client))
        finally:
            await leadership.release(client)
    log.info("ended")


async def _until(stop: asyncio.Event, *work: Coroutine[Any, Any, None]) -> None:
    """Do all the work until `stop` is set or some of it fails; what fails is raised."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((*tasks, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    main()

"""The real coordinator, but listening at its pod's address alone: a fleet's pods share one host."""

import os
from typing import Any

from aiohttp import web

from rtj_api import names
from rtj_trainer.coordinator import main


class _PodSite(web.TCPSite):
    def __init__(
        self, runner: web.BaseRunner, host: str | None = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(runner, host or os.environ[names.ENV_POD_IP], *args, **kwargs)


if __name__ == "__main__":
    web.TCPSite = _PodSite
    main.main()

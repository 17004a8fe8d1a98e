"""Entry point of the agent, PID 1 of a worker pod.

The kernel drops signals that PID 1 has no handler for, so SIGTERM gets one before anything heavy is
imported; from then on the pod can be stopped at any moment.
"""

import os
import signal
import sys
from typing import NoReturn

_EXIT_FAILED = 1


def main() -> NoReturn:
    """Run the agent with the training command in the arguments; exits with its code."""
    signal.signal(signal.SIGTERM, _end_at_once)
    signal.signal(signal.SIGINT, _end_at_once)
    sys.exit(_run(sys.argv[1:]))


def _end_at_once(number: int, frame: object) -> None:
    # Nothing was started yet, so there is nothing to end but this process.
    os._exit(0)


def _run(arguments: list[str]) -> int:
    import asyncio
    import logging

    from rtj_api.messages import TerminationMessage
    from rtj_trainer.agent import config, processes, termination
    from rtj_trainer.agent.agent import Agent

    logging.basicConfig(
        level=os.environ.get("RTJ_LOG_LEVEL", "INFO").upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    log = logging.getLogger(__name__)
    processes.adopt_orphans()
    try:
        settings = config.from_process(arguments)
    except config.ConfigError as error:
        log.error("%s", error)
        termination.leave_word(
            config.termination_log(os.environ),
            TerminationMessage(outcome="failed", exit_code=_EXIT_FAILED, message=str(error)[:1024]),
        )
        return _EXIT_FAILED

    async def work() -> int:
        return await Agent(settings).run()

    try:
        return asyncio.run(work())
    except Exception as error:
        log.exception("the agent cannot go on")
        termination.leave_word(
            settings.termination_log,
            TerminationMessage(
                outcome="failed", exit_code=_EXIT_FAILED, message=repr(error)[:1024]
            ),
        )
        return _EXIT_FAILED


if __name__ == "__main__":
    main()

"""Entry point of the agent, PID 1 of a worker pod.

The kernel drops signals that PID 1 has no handler for, so SIGTERM gets one before anything is
imported; from then on the pod can be stopped at any moment.
"""

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from rtj_trainer.agent.config import AgentConfig

_EXIT_FAILED = 1


def main() -> NoReturn:
    """Run the agent with the training command in the arguments; exits with its code."""
    signal.signal(signal.SIGTERM, _end_at_once)
    signal.signal(signal.SIGINT, _end_at_once)
    # A blocked signal waits where an ignored one is lost: `env --block-signal=TERM` before this
    # program's name leaves no moment in which the pod cannot be stopped.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
    sys.exit(_run(sys.argv[1:]))


def _end_at_once(number: int, frame: object) -> None:
    # Nothing was started yet, so there is nothing to end but this process.
    os._exit(0)


def _run(arguments: list[str]) -> int:
    import asyncio
    import logging

    from rtj_trainer import prctl
    from rtj_trainer.agent import config

    logging.basicConfig(
        level=os.environ.get("RTJ_LOG_LEVEL", "INFO").upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    prctl.adopt_orphans()
    try:
        settings = config.from_process(arguments)
        return asyncio.run(_work(settings))
    except config.ConfigError as error:
        logging.getLogger(__name__).error("%s", error)
        return _fail(str(error))
    except Exception as error:
        logging.getLogger(__name__).exception("the agent cannot go on")
        return _fail(repr(error))


async def _work(settings: "AgentConfig") -> int:
    import threading

    from rtj_trainer.agent import checkpoints
    from rtj_trainer.agent.launcher_process import LauncherProcess

    # Its imports take longest by far: they run while we do ours.
    launcher = await LauncherProcess.start(settings.processes_per_node)
    # A file system that does not answer must not keep the agent from saying that it lives.
    threading.Thread(target=checkpoints.make_folder, args=(os.environ,), daemon=True).start()

    from rtj_trainer.agent.agent import Agent

    return await Agent(settings, launcher).run()


def _fail(reason: str) -> int:
    from rtj_api.messages import MAX_TEXT, TerminationMessage
    from rtj_trainer.agent import config, termination

    words = TerminationMessage(outcome="failed", exit_code=_EXIT_FAILED, message=reason[:MAX_TEXT])
    termination.leave_word(config.termination_log(os.environ), words)
    return _EXIT_FAILED


if __name__ == "__main__":
    main()

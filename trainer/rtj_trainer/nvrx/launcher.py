"""Our entry to ft_launcher: imported beforehand, started by one line, watched from inside.

Importing torch and NVRx takes seconds, so the agent keeps one of these waiting. It runs NVRx's
launcher as the `ft_launcher` script does (never as `-m ...launcher`, which loads the module twice
and thereby disables the health question) and tells the agent what the elastic agent sees, so that
nobody has to read log texts.
"""

import functools
import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any, Final, NoReturn

from rtj_api import names
from rtj_trainer import prctl, warm
from rtj_trainer.nvrx import patches
from rtj_trainer.nvrx.launcher_events import (
    ENV_AGENT_PID,
    ENV_EVENTS_FD,
    ENV_RANK_STDIO,
    EventPipe,
    Joining,
    Order,
    RankFailed,
    RankHung,
    RanksFinished,
    RanksSaved,
    Ready,
    Started,
    cut_message,
    decode_order,
)

# Of torch's WorkerState, which is imported with torch only.
_SUCCEEDED: Final = "SUCCEEDED"


def main() -> None:
    """Import, report ready, wait for the order, launch. Ends with ft_launcher's exit code."""
    prctl.die_with_parent()
    if os.getppid() != int(os.environ[ENV_AGENT_PID]):
        sys.exit("the agent that started this launcher is gone")
    events = EventPipe.from_env()
    stdio = _rank_stdio(os.environ[ENV_RANK_STDIO])
    only_ours = (int(os.environ[ENV_EVENTS_FD]), *itertools.chain(*stdio.values()))
    for variable in (ENV_AGENT_PID, ENV_EVENTS_FD, ENV_RANK_STDIO):
        del os.environ[variable]

    # Read when torch is loaded: stores would log each of NVRx's short waits as a warning.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with warm.no_threads():
        from nvidia_resiliency_ext.fault_tolerance import launcher

        warm.import_all()
    forge = warm.Forge.start(close=only_ours)
    unpatched = patches.shorten_waits()
    patches.bind_workers(stdio, forge)
    _watch_workers(launcher.LocalElasticAgent, events)
    _watch_monitors(launcher.RankMonitorServer, events)
    events.send(Ready(unpatched=unpatched))
    _launch(launcher.main, _take_order())


def _rank_stdio(text: str) -> patches.RankStdio:
    triples = (tuple(map(int, part.split(":"))) for part in text.split(",") if part)
    return {local_rank: (output, error) for local_rank, output, error in triples}


def _take_order() -> Order:
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return decode_order(line)


def _launch(run: Any, order: Order) -> NoReturn:
    os.environ.update(order.env)
    sys.argv = ["ft_launcher", *order.argv]
    sys.exit(run())


def _watch_workers(agent: Any, events: EventPipe) -> None:
    """Wrap the three moments of LocalElasticAgent that say what becomes of the workers."""
    rendezvous, start, monitor = agent._rendezvous, agent._start_workers, agent._monitor_workers

    @functools.wraps(rendezvous)
    def watched_rendezvous(self: Any, worker_group: Any) -> None:
        events.send(Joining())
        rendezvous(self, worker_group)

    @functools.wraps(start)
    def watched_start(self: Any, worker_group: Any) -> dict[int, int]:
        pids = start(self, worker_group)
        events.send(_started(self, worker_group, pids))
        return pids

    @functools.wraps(monitor)
    def watched_monitor(self: Any, worker_group: Any) -> Any:
        result = monitor(self, worker_group)
        if result.failures:
            _report(self, result.failures, events)
        elif result.state.name == _SUCCEEDED:
            events.send(RanksFinished(round=self._rdzv_handler.round()))
        return result

    agent._rendezvous = watched_rendezvous
    agent._start_workers = watched_start
    agent._monitor_workers = watched_monitor


def _started(agent: Any, worker_group: Any, pids: dict[int, int]) -> Started:
    ranks = {worker.local_rank: worker.global_rank for worker in worker_group.workers}
    return Started(
        round=agent._rdzv_handler.round(),
        group_rank=worker_group.group_rank,
        ranks={local_rank: (ranks[local_rank], pid) for local_rank, pid in pids.items()},
    )


def _report(agent: Any, failures: dict[int, Any], events: EventPipe) -> None:
    number = agent._rdzv_handler.round()
    if all(failure.exitcode == names.EXIT_SAVED for failure in failures.values()):
        events.send(RanksSaved(round=number))
        _wait_to_be_ended()
    for rank, failure in failures.items():
        events.send(
            RankFailed(
                round=number,
                local_rank=failure.local_rank,
                rank=rank,
                pid=failure.pid,
                exit_code=failure.exitcode,
                message=_message(failure),
            )
        )


def _message(failure: Any) -> str:
    """What torch's error file holds; nothing when the script did not record its exception."""
    if not Path(failure.error_file).is_file():
        return ""
    said = failure.error_file_data.get("message", "")
    if isinstance(said, dict):
        said = said.get("extraInfo", {}).get("py_callstack") or said.get("message", "")
    return cut_message(str(said))


def _wait_to_be_ended() -> NoReturn:
    """Hold the elastic agent: it would take the agreed exit code for a failure and restart."""
    while True:
        time.sleep(60)


def _watch_monitors(server: Any, events: EventPipe) -> None:
    """Rank monitors are forks of this process: they tell whom they end before they do."""
    handle = server._handle_timeout

    @functools.wraps(handle)
    async def watched(self: Any) -> None:
        rank = self.rank_info
        if rank is not None:
            events.send(RankHung(local_rank=rank.local_rank, rank=rank.global_rank, pid=rank.pid))
        await handle(self)

    server._handle_timeout = watched


if __name__ == "__main__":
    main()

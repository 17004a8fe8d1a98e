"""Program of test_agent_processes: a reaper with a tree to spare and one to kill below it.

Roles by the first argument. `sleeper`: deaf to SIGTERM. `parent FATE`: starts a sleeper in a
session of its own and, when its fate is `die`, leaves it an orphan. `agent`: prints what it found,
as JSON.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

from rtj_trainer import prctl
from rtj_trainer.agent import processes


def _start(*arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, __file__, *arguments], start_new_session=True, stdout=subprocess.PIPE
    )


def _read_number(child: "subprocess.Popen[bytes]") -> int:
    assert child.stdout is not None
    return int(child.stdout.readline())


def _sleeper() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    time.sleep(60)


def _parent(fate: str) -> None:
    print(_read_number(child := _start("sleeper")), flush=True)
    if fate == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    child.wait()


def _status(zombie: int) -> int:
    return os.waitpid(zombie, os.WNOHANG)[1]


async def _kill_and_look(
    spared: int, below_spared: int, orphan: int, managed: int
) -> dict[str, object]:
    left = await processes.kill_all([spared], [managed], time.monotonic() + 0.5)
    table = processes.snapshot()
    return {
        "only_the_managed_zombie_is_left": left == {managed},
        "orphan_gone": orphan not in table,
        "spared_lives": not (table[spared].zombie or table[below_spared].zombie),
        "managed_status": os.waitstatus_to_exitcode(_status(managed)),
        "left_after_all": sorted(await processes.kill_all([], [], time.monotonic() + 5)),
        "nobody_below": processes.victims((), processes.snapshot()) == set(),
    }


def _agent() -> None:
    prctl.adopt_orphans()
    spared, dying = _start("parent", "live"), _start("parent", "die")
    below_spared, orphan = _read_number(spared), _read_number(dying)
    dying.wait()
    managed = _start("seven")
    while not processes.snapshot()[managed.pid].zombie:
        time.sleep(0.01)
    found = asyncio.run(_kill_and_look(spared.pid, below_spared, orphan, managed.pid))
    print(json.dumps(found))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["sleeper"]:
            _sleeper()
        case ["parent", fate]:
            _parent(fate)
        case ["seven"]:
            sys.exit(7)
        case _:
            _agent()

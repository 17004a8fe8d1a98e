"""A launcher whose rank fails three times; each time it joins again before anybody can look."""

import os
import time

from rtj_trainer.nvrx.launcher_events import (
    ENV_EVENTS_FD,
    ENV_RANK_STDIO,
    Joining,
    RankFailed,
    encode,
)

_SEEN_SECONDS = 0.1

if __name__ == "__main__":
    error = int(os.environ[ENV_RANK_STDIO].split(":")[2])
    for number in range(3):
        os.write(error, b"failure %d\n" % number)
        # The agent has read the words by now, and no event.
        time.sleep(_SEEN_SECONDS)
        failed = RankFailed(round=number, local_rank=0, rank=0, pid=os.getpid(), exit_code=1)
        os.write(int(os.environ[ENV_EVENTS_FD]), encode(failed) + encode(Joining()))
        time.sleep(_SEEN_SECONDS)

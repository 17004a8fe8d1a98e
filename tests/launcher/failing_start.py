"""Loading fails in rank 0 as often as the first argument says, then all make steps. Program of
test_starts; the second argument is a folder that outlives the processes."""

import os
import sys
import time
from pathlib import Path

import rtj_trainer


def main(failures: int, folder: Path) -> None:
    """Fail, or make steps for ever."""
    rtj_trainer.phase("load")
    loaded = folder / "loaded"
    if os.environ["RANK"] == "0":
        if len(list(folder.glob("failed-*"))) < failures:
            (folder / f"failed-{time.time_ns()}").touch()
            raise OSError("storage is down")
        loaded.touch()
    while not loaded.exists():
        time.sleep(0.01)
    step = 0
    while True:
        step += 1
        rtj_trainer.beat(step=step)
        time.sleep(0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))

"""Entry point of `python -m rtj_trainer.reference`."""

import functools
import logging
import os
import sys

import torch

import rtj_trainer
from rtj_trainer import inprocess
from rtj_trainer.reference.options import parse
from rtj_trainer.reference.train import Outcome, train


def main() -> None:
    """Train; exit code 0 when finished, `names.EXIT_SAVED` after an agreed stop."""
    options = parse()
    logging.basicConfig(
        stream=sys.stdout,
        level=logging.INFO,
        format=f"%(asctime)s rank={os.environ.get('RANK', '0')} %(message)s",
    )
    if inprocess.device_type() == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    outcome = inprocess.run(functools.partial(train, options))
    if outcome is Outcome.LEFT:
        rtj_trainer.leave()
    rtj_trainer.done()


if __name__ == "__main__":
    main()

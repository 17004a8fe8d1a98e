"""A training process that beats three times and then never again. Program of test_faults."""

import time

import rtj_trainer


def main() -> None:
    """Make three steps, then hang."""
    for step in range(1, 4):
        rtj_trainer.beat(step=step, phase="stepped")
    rtj_trainer.phase("forward")
    time.sleep(3600)


if __name__ == "__main__":
    main()

"""A whole training script as an example and for tests: `python -m rtj_trainer.reference`.

A Llama-like decoder under FSDP2 on made-up tokens. It shows all that a script can do to live
through faults: beats with phases, asynchronous checkpoints, exact resumption, in-process restart,
the agreed stop. Tested on CPU with gloo; the CUDA and NCCL paths are written, not run.
"""

import os

# Read when torch is loaded: its store would log each of the wrapper's short waits as a warning.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

"""The training function: everything in it is made anew when it is entered again."""

import logging
import os
import time
from enum import Enum, auto

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import rtj_trainer
from rtj_trainer import inprocess
from rtj_trainer.checkpoint.saver import Checkpointer
from rtj_trainer.checkpoint.state import TrainingState
from rtj_trainer.reference.data import Tokens
from rtj_trainer.reference.model import Llama
from rtj_trainer.reference.options import Options

log = logging.getLogger(__name__)


class Outcome(Enum):
    """How the training function ended, in all ranks alike."""

    FINISHED = auto()
    # Saved at an agreed step, to go on later.
    LEFT = auto()


def train(options: Options) -> Outcome:
    """Train from the newest checkpoint to the last step, or until the ranks agree to leave."""
    training = Training(options)
    training.resume()
    outcome = training.loop()
    training.close()
    rtj_trainer.phase("end")
    dist.barrier()
    return outcome


class Training:
    """Model, optimizer, data and checkpoints of one entry into the training function."""

    def __init__(self, options: Options) -> None:
        rtj_trainer.phase("build")
        self._options = options
        self._device = _device()
        self._model = _sharded_model(options, self._device)
        self._tokens = Tokens(
            seed=options.seed,
            rank=dist.get_rank(),
            vocab=options.vocab,
            batch=options.batch,
            seq=options.seq,
        )
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=options.learning_rate, fused=True
        )
        self._state = TrainingState(self._model, self._optimizer, self._tokens)
        self._checkpointer = (
            Checkpointer(options.checkpoint_dir) if options.checkpoint_dir is not None else None
        )

    def resume(self) -> None:
        """Take up the newest checkpoint, if there is one."""
        if self._checkpointer is None:
            return
        rtj_trainer.phase("load")
        loaded = self._checkpointer.load(self._state)
        if loaded >= 0:
            log.info("resumed after step %d", loaded)
            rtj_trainer.beat(step=loaded, phase="loaded", checkpoint_step=loaded)

    def loop(self) -> Outcome:
        """Step until the end, saving on the way."""
        while self._state.step < self._options.steps:
            started = time.monotonic()
            loss = self._step()
            self._state.step += 1
            leave = self._agree(loss, started)
            self._beat()
            if leave:
                log.info("leaving after step %d, as asked", self._state.step)
                return Outcome.LEFT
            self._save_if_due()
        return Outcome.FINISHED

    def close(self) -> None:
        """Save what is not saved yet and wait until it is complete."""
        if self._checkpointer is None:
            return
        rtj_trainer.phase("last-save")
        if self._checkpointer.last != self._state.step:
            self._checkpointer.save(self._state)
        self._checkpointer.close()
        rtj_trainer.beat(checkpoint_step=self._checkpointer.newest())

    def _step(self) -> torch.Tensor:
        rtj_trainer.phase("data")
        inputs, targets = (tokens.to(self._device) for tokens in self._tokens.take())
        rtj_trainer.phase("forward")  # from here on FSDP's collectives
        logits = self._model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        rtj_trainer.phase("backward")
        loss.backward()
        rtj_trainer.phase("optimizer")
        self._optimizer.step()
        self._optimizer.zero_grad()
        return loss.detach()

    def _agree(self, loss: torch.Tensor, started: float) -> bool:
        """Average the loss, log it, and vote on leaving; one collective for all.

        Keeps the pace too: a step that was faster than asked for waits here.
        """
        self._pace(started)
        if self._state.step % self._options.log_every:
            return False
        rtj_trainer.phase("agree")
        leave = torch.tensor(float(rtj_trainer.leave_wanted()), device=self._device)
        both = torch.stack((loss, leave))
        dist.all_reduce(both)
        total, votes = both.tolist()
        if dist.get_rank() == 0:
            mean, seconds = total / dist.get_world_size(), time.monotonic() - started
            # Nine digits give a float32 back exactly.
            text = "step=%d loss=%.9g seconds=%.3f %s"
            log.info(text, self._state.step, mean, seconds, rtj_trainer.life())
        return votes > 0

    def _pace(self, started: float) -> None:
        left = self._options.step_seconds - (time.monotonic() - started)
        if left > 0:
            rtj_trainer.phase("pace")
            time.sleep(left)

    def _beat(self) -> None:
        newest = None if self._checkpointer is None else self._checkpointer.newest()
        rtj_trainer.beat(step=self._state.step, phase="stepped", checkpoint_step=newest)

    def _save_if_due(self) -> None:
        every = self._options.save_every
        if self._checkpointer is not None and every and self._state.step % every == 0:
            rtj_trainer.phase("save")
            self._checkpointer.save(self._state)


def _device() -> torch.device:
    if inprocess.device_type() == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def _sharded_model(options: Options, device: torch.device) -> torch.nn.Module:
    torch.manual_seed(options.seed)
    model = Llama(options)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy()
    if device.type == "cuda":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model

"""The job view that the operator is sent. Pure."""

from typing import Final

from msgspec.structs import replace

from rtj_api.messages import Beat, JobView, WorkerView
from rtj_trainer.coordinator.core import Core
from rtj_trainer.coordinator.table import Worker

# A coordinator speaks once a second: less silence than this is none.
_HEARD_SECONDS: Final = 1.5


def job_view(core: Core, incarnation: int, refused_hellos: int, now: float) -> JobView:
    """Everything that the coordinator knows.

    Of a standby: whom it hears, and what they hear of the coordinator that counts. No steps, so
    that training by itself changes nothing in it.
    """
    directive = core.intent.directive
    counts = core.restarts.counts
    stepped = core.progress.stepped_at
    return JobView(
        coordinator_incarnation=incarnation,
        epoch=0 if directive is None else directive.epoch,
        directive_number=0 if directive is None else directive.number,
        run=max(0, core.gang.run),
        round=core.gang.rounds.closed,
        control=core.control.state,
        workers=tuple(_worker_view(core, worker, now) for worker in _shown(core)),
        step=core.progress.step,
        highest_step=-1 if _stands_by(core) else core.progress.highest_step,
        checkpoint_step=-1 if _stands_by(core) else core.progress.checkpoint_step,
        step_age_seconds=-1.0 if stepped is None else round(max(0.0, now - stepped), 2),
        ranks_training=core.progress.ranks_training,
        in_process_restarts=counts.in_process,
        in_job_restarts=counts.in_job,
        faults=core.ledger.shown(now + core.wall_offset),
        outcome=core.outcome,
        restart=core.gang.restart,
        refused_hellos=refused_hellos,
        standby=_stands_by(core),
    )


def without_ages(view: JobView) -> JobView:
    """The view as it is compared with the one before: time passing is no change."""
    workers = tuple(replace(worker, silent_seconds=0.0) for worker in view.workers)
    return replace(view, workers=workers, step_age_seconds=-1.0)


def _stands_by(core: Core) -> bool:
    directive = core.intent.directive
    return directive is not None and not directive.active


def _shown(core: Core) -> list[Worker]:
    """Workers that the operator wants, and strangers that are still connected."""
    directive = core.intent.directive
    pods = {} if directive is None else directive.pods
    shown = [worker for worker in core.table if worker.connection or worker.uid in pods]
    return sorted(shown, key=lambda worker: (worker.slot, worker.incarnation))


def _worker_view(core: Core, worker: Worker, now: float) -> WorkerView:
    directive = core.intent.directive
    interval = 1.0 if directive is None else directive.beat_interval_seconds
    silent = now - worker.heard_at
    beating = worker.beats(now, interval)
    if _stands_by(core):
        return _as_heard_by_standby(worker, 0.0 if beating else round(silent, 2))
    seat = core.gang.seats.of(worker.uid)
    ranks = () if worker.beat is None else worker.beat.ranks
    return WorkerView(
        slot=worker.slot,
        incarnation=worker.incarnation,
        pod_uid=worker.uid,
        connected=bool(worker.connection),
        silent_seconds=0.0 if beating else round(silent, 2),
        position=-1 if seat is None else seat.position,
        launcher=worker.launcher,
        terminating=worker.terminating,
        step=min((rank.step for rank in ranks), default=-1),
    )


def _as_heard_by_standby(worker: Worker, silent_seconds: float) -> WorkerView:
    beat = worker.beat or Beat(seq=0)
    unheard = beat.coordinator_silent_seconds
    return WorkerView(
        slot=worker.slot,
        incarnation=worker.incarnation,
        pod_uid=worker.uid,
        connected=bool(worker.connection),
        silent_seconds=silent_seconds,
        position=worker.launcher.position,
        launcher=worker.launcher,
        terminating=worker.terminating,
        obeys_incarnation=beat.obeys_incarnation,
        coordinator_silent_seconds=0.0 if 0 <= unheard < _HEARD_SECONDS else unheard,
    )

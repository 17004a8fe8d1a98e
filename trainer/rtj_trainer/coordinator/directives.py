"""What each worker is to be. Pure."""

from msgspec.structs import replace

from rtj_api import names
from rtj_api.messages import JobDirective, WorkerDirective
from rtj_trainer.coordinator.core import Core
from rtj_trainer.coordinator.seats import PENDING, Seat
from rtj_trainer.coordinator.table import Worker


def directive_for(core: Core, worker: Worker, store_host: str) -> WorkerDirective | None:
    """The worker's directive; None: nothing is to be said yet, it goes on as it is.

    That is so before the operator's first word and the worker's first beat, for a standby, and for
    a worker that names a launch of this run while a restarted coordinator still finds out who holds
    what.
    """
    directive = core.intent.directive
    if directive is None or worker.beat is None or core.gang.run != directive.run:
        return None
    if not directive.active:
        return None
    parked = _parked(core, directive)
    if directive.stop == "now" or directive.pods.get(worker.uid) != worker.slot:
        return replace(parked, state="exit")
    seat = core.gang.seats.of(worker.uid)
    if core.holding and seat is not None and not worker.terminating:
        return parked
    if seat is not None and seat.launch != PENDING:
        return _seated(core, directive, parked, seat, store_host)
    if worker.terminating and directive.stop == "none":
        return replace(parked, state="exit")
    if (
        core.gang.forming
        and worker.launcher.run == directive.run
        and worker.uid not in (directive.excluded)
    ):
        return None
    return parked


def _parked(core: Core, directive: JobDirective) -> WorkerDirective:
    return WorkerDirective(
        state="park",
        run=directive.run,
        beat_interval_seconds=directive.beat_interval_seconds,
        beat_timeout_seconds=directive.beat_timeout_seconds,
        rank_timeout_seconds=directive.rank_timeout_seconds,
        initial_rank_timeout_seconds=directive.initial_rank_timeout_seconds,
        in_process=directive.in_process,
        round=max(0, core.gang.rounds.closed),
        standby_host=directive.standby_host,
        standby_incarnation=directive.standby_incarnation,
    )


def _seated(
    core: Core, directive: JobDirective, parked: WorkerDirective, seat: Seat, store_host: str
) -> WorkerDirective:
    return replace(
        parked,
        state="leave" if directive.stop == "save" else "train",
        position=seat.position,
        launch=seat.launch,
        nodes=len(core.gang.seats),
        processes_per_node=core.gang.processes_per_node,
        rendezvous_id=names.rendezvous_id(core.job_uid, directive.run),
        store_host=store_host,
    )

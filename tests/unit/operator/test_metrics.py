"""Figures of jobs: as they are now, and gone with their job."""

from prometheus_client import CollectorRegistry

from rtj_api import auth
from rtj_api.messages import JobView
from rtj_operator.metrics import JobCollector
from rtj_operator.work.view_link import Coordinator as Address
from rtj_operator.work.views import Views
from tests.api.support.api import until
from tests.api.support.coordinator import Coordinator

ADDRESS = "127.78.0.1"
MASTER_KEY = bytes(32)
KEY = ("team", "a")


async def test_refused_hellos_follow_the_newest_view_and_end_with_the_job() -> None:
    views = Views(MASTER_KEY, lambda _key, _seconds: None)
    registry = CollectorRegistry()
    registry.register(JobCollector(lambda: (), views.refused_hellos, lambda: 0))

    def shown() -> float | None:
        return registry.get_sample_value(
            "rtj_job_refused_hellos", {"namespace": "team", "job": "a"}
        )

    try:
        async with Coordinator(ADDRESS, auth.job_key(MASTER_KEY, "uid")) as coordinator:
            views.steer(KEY, [Address(job_uid="uid", incarnation=0, address=ADDRESS)], epoch=1)
            assert shown() is None
            for count in (3, 8):
                await coordinator.tell(JobView(coordinator_incarnation=0, refused_hellos=count))

                async def told(want: int = count) -> bool:
                    return shown() == want

                await until(f"{count} refusals", told)
            views.drop(KEY)
            assert shown() is None
    finally:
        await views.close()

"""The rendezvous host and the coordinator may fail: a new run in place, pods untouched."""

from typing import Any

from demo import faults, main_job
from demo.kube import Kube
from demo.watch import JobWatch
from rtj_api import names
from tests.cluster import jobs


def _uids(kube: Kube, job: str) -> set[str]:
    return {
        pod.metadata.uid
        for pod in kube.pods(job)
        if pod.metadata.labels[names.LABEL_ROLE] == names.ROLE_WORKER
    }


def _only_entry(watch: JobWatch) -> dict[str, Any]:
    """The one recovery, once status has it in its history."""
    watch.wait("history", lambda w: bool(w.status.get("history")), 30)
    (entry,) = watch.status["history"]
    return entry


def test_a_dead_nvrx_control_means_a_new_run_in_the_same_pods(kube: Kube, start) -> None:
    watch = start(jobs.demo_job("control", steps=1000))
    watch.wait_step(1, 90)
    before = _uids(kube, "control")
    main_job.recover_from(watch, lambda: faults.kill_control(kube, "control"), 5, 60)
    assert _uids(kube, "control") == before
    entry = _only_entry(watch)
    assert (entry["class"], entry["rung"]) == ("ControlLost", "Gang")
    assert watch.status["run"] == 2


def test_a_deleted_coordinator_pod_is_replaced_and_workers_stay(kube: Kube, start) -> None:
    watch = start(jobs.demo_job("coordinator", steps=1000))
    watch.wait_step(1, 90)
    before = _uids(kube, "coordinator")
    pod = names.coordinator_pod("coordinator", 0)
    main_job.recover_from(watch, lambda: kube.kubectl("delete", "pod", pod, "--wait=false"), 5, 60)
    assert _uids(kube, "coordinator") == before
    assert _only_entry(watch)["class"] == "ControlLost"
    assert watch.status["coordinator"]["incarnation"] == 1
    assert watch.status["nodes"].get("excluded", []) == []


def test_a_restarted_coordinator_container_does_not_disturb_training(kube: Kube, start) -> None:
    watch = start(jobs.demo_job("calmly", steps=1000))
    watch.wait_step(3, 90)
    pod = names.coordinator_pod("calmly", 0)
    kube.kubectl("exec", pod, "-c", names.CONTAINER_COORDINATOR, "--", "sh", "-c", "kill -TERM 1")
    watch.wait_step(watch.highest_step + 20, 60)
    assert len({step.life for step in watch.sorted_steps()}) == 1
    assert watch.status["restarts"]["summary"] == "0/0/0/0/0"

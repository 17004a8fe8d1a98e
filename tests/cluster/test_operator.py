"""The operator itself may fail at any moment."""

import threading

from demo import faults, main_job, setup
from demo.kube import Kube
from localcluster.cluster import Cluster
from rtj_api import names
from tests.cluster import jobs
from tests.cluster.conftest import wait_until


def test_a_leader_killed_during_a_node_replacement_repeats_and_loses_nothing(
    kube: Kube, admin: Kube, healthy: Cluster, start
) -> None:
    watch = start(jobs.demo_job("handover", steps=100_000))
    watch.wait_step(5, 90)
    victim = faults.rank_of(kube, "handover", 3)
    lives = {step.life for step in watch.sorted_steps()}
    leader = setup.leader(admin)
    assert leader
    force = ("--grace-period=0", "--force", "--wait=false")
    killer = threading.Thread(
        target=admin.run,
        args=("kubectl", "-n", setup.OPERATOR_NAMESPACE, "delete", "pod", leader.pod, *force),
    )
    killer.start()
    healthy.fault.kill_node(victim.node)
    killer.join()
    watch.wait("recovery", lambda w: main_job.recovered(w, lives), 60)
    wait_until("a new leader", lambda: setup.leader(admin) not in (None, leader), 40)
    # Not by the status: until the new leader writes, it says what was before the fault.
    wait_until("one pod a slot", lambda: _slots(kube, victim.node) == ["0", "1", "2"], 60)
    watch.wait("a spare in status", lambda w: w.status["workers"]["spares"] == 1, 30)
    watch.wait("the count", lambda w: w.status["restarts"]["node"] == 1, 30)


def _slots(kube: Kube, dead_node: str) -> list[str]:
    """Slots of the worker pods that are not on the dead node, sorted, one entry a pod."""
    labels = [p.metadata.labels for p in kube.pods("handover") if p.spec.node_name != dead_node]
    workers = [each for each in labels if each[names.LABEL_ROLE] == names.ROLE_WORKER]
    return sorted(each[names.LABEL_SLOT] for each in workers)


def test_suspend_saves_and_resume_goes_on_where_it_was(kube: Kube, start) -> None:
    watch = start(jobs.demo_job("pause", steps=100_000))
    watch.wait_step(8, 90)
    kube.kubectl("patch", "rtj", "pause", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    watch.wait("suspension", lambda w: w.status.get("phase") == "Suspended", 60)
    wait_until("end of its pods", lambda: not kube.pods("pause"), 60)
    last = watch.highest_step
    kube.kubectl("patch", "rtj", "pause", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    kube.kubectl("wait", "rtj/pause", "--for=condition=Running", "--timeout=60s")
    watch.wait_step(last + 5, 60)
    resumed = [s for s in watch.sorted_steps() if s.life != watch.sorted_steps()[0].life]
    assert resumed[0].step == last + 1


def test_a_suspension_taken_back_at_once_leaves_a_job_that_trains(kube: Kube, start) -> None:
    watch = start(jobs.demo_job("again", steps=100_000))
    watch.wait_step(8, 90)
    for wanted in ("true", "false"):
        patch = f'{{"spec":{{"suspend":{wanted}}}}}'
        kube.kubectl("patch", "rtj", "again", "--type=merge", "-p", patch)
    watch.wait("new run", lambda w: w.status.get("run") == 2, 60)
    watch.wait_step(watch.highest_step + 5, 90)
    assert watch.status["run"] == 2

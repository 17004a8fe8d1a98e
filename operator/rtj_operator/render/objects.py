"""Words that all builders share: the job they build for, its labels, its ownership of children."""

from dataclasses import dataclass
from typing import Any, Final

from rtj_api import names

Manifest = dict[str, Any]

LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRef:
    """The job whose children are built."""

    namespace: str
    name: str
    uid: str


class UnusableTemplate(ValueError):
    """spec.template cannot become a pod; the text names the field and says what to write."""


def section(manifest: Manifest, key: str) -> Manifest:
    """A part of a manifest; empty where it is absent or null."""
    value = manifest.get(key)
    return {} if value is None else value


def entries(manifest: Manifest, key: str) -> list[Manifest]:
    """A list of a manifest; empty where it is absent or null."""
    value = manifest.get(key)
    return [] if value is None else list(value)


def job_labels(job: JobRef) -> dict[str, str]:
    """Labels of every child."""
    return {
        LABEL_MANAGED_BY: names.FIELD_MANAGER,
        names.LABEL_JOB: job.name,
        names.LABEL_JOB_UID: job.uid,
    }


def pod_selector(job: JobRef, role: str | None = None) -> dict[str, str]:
    """Labels that select the job's pods. The UID and not the name: a deleted job's pods may still
    be there when its name is used again."""
    selector = {names.LABEL_JOB_UID: job.uid}
    return selector if role is None else selector | {names.LABEL_ROLE: role}


def metadata(job: JobRef, name: str, labels: dict[str, str] | None = None) -> Manifest:
    """Metadata of a child that the job owns and that goes with it."""
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": job_labels(job) | (labels or {}),
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": job.name,
                "uid": job.uid,
                # Without `controller`, kubectl drain refuses to evict the pods.
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }

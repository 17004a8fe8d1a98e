"""The Secret with the job's key. The operator creates it and never reads it back."""

import base64

from rtj_api import names
from rtj_operator.render.objects import JobRef, Manifest, metadata


def key_secret(job: JobRef, key: bytes) -> Manifest:
    """`key` is the raw key of `auth.job_key`; the file holds it as hex."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, names.key_secret(job.name, job.uid)),
        "type": "Opaque",
        "immutable": True,
        "data": {names.SECRET_KEY: base64.b64encode(key.hex().encode()).decode()},
    }

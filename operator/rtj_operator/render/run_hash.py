"""Hash of what a run is made of: another one after a suspend means a new run, not a resumed one."""

import hashlib
import json
from typing import Final

from rtj_api.spec import ResilientTrainingJobSpec

LENGTH: Final = 16
# The fields that the CRD fixes while a job runs (rules.FIXED_RULES).
FIELDS: Final = frozenset({"nodes", "processes_per_node", "instance_type", "storage", "template"})


def run_hash(spec: ResilientTrainingJobSpec) -> str:
    """Stable over key order and restarts of the operator."""
    fields = spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=set(FIELDS))
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]

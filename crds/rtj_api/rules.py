"""Validation rules of the CRD (CEL): what the schema alone cannot say, with what to write instead.

Each rule has one manifest that a real server accepts and one that it refuses in tests/api. A rule
is never made stricter within one version: the stricter one would refuse even `suspend: true` on
jobs that exist.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from rtj_api import names
from rtj_api.reasons import Phase

FieldReason = Literal["FieldValueForbidden", "FieldValueRequired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CelRule:
    """One entry of `x-kubernetes-validations`."""

    # Where the rule stands in the schema, property names from the root; "" is the root.
    at: str
    rule: str
    message: str
    # Where the error points to, relative to `at`.
    field_path: str = ""
    # "Invalid" would be told with the type of the value in front of the words: `"object": write`.
    reason: FieldReason = "FieldValueForbidden"

    def as_validation(self) -> dict[str, Any]:
        """The entry as the API server wants it."""
        out = {"rule": self.rule, "message": self.message, "reason": self.reason}
        return out | ({"fieldPath": self.field_path} if self.field_path else {})


TEMPLATE: Final = "spec.template"
POD: Final = "spec.template.spec"

# Identity that the operator gives to a worker; a user's value would make it somebody else.
OWNED_ENVIRONMENT: Final = (
    names.ENV_JOB_NAME,
    names.ENV_JOB_UID,
    names.ENV_SLOT,
    names.ENV_INCARNATION,
    names.ENV_POD_NAME,
    names.ENV_POD_UID,
    names.ENV_POD_IP,
    names.ENV_COORDINATOR_HOST,
    names.ENV_NODES,
    names.ENV_PROCESSES_PER_NODE,
    names.ENV_GRACE_SECONDS,
    names.ENV_RUN,
)
# Volume names of the operator begin with this.
VOLUME_PREFIX: Final = "rtj-"

NAME_RULES: Final = (
    CelRule(
        at="",
        rule=f"size(self.metadata.name) <= {names.NAME_MAX_LENGTH}",
        field_path=".metadata.name",
        message=(
            f"write a name of at most {names.NAME_MAX_LENGTH} characters: the pods' host names "
            "(NAME-worker-SLOT-INCARNATION) may have 63"
        ),
    ),
    CelRule(
        at="",
        rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        field_path=".metadata.name",
        message=(
            "write a name of lower-case letters, digits and '-' that begins with a letter and "
            "has no dot: Services are named after it"
        ),
    ),
)


# At the root, since they read status: a write of spec carries the status that is stored.
_ENDED: Final = (
    "has(oldSelf.status) && has(oldSelf.status.phase) && "
    f"oldSelf.status.phase in ['{Phase.COMPLETE}', '{Phase.FAILED}']"
)
_TRAINED: Final = "has(oldSelf.status) && has(oldSelf.status.firstStepTime)"
FIXED_FIELDS: Final = ("nodes", "processesPerNode", "instanceType", "storage", "template")


def _unchanged(field: str) -> str:
    return (
        f"(has(self.spec.{field}) == has(oldSelf.spec.{field}) && "
        f"(!has(self.spec.{field}) || self.spec.{field} == oldSelf.spec.{field}))"
    )


FIXED_RULES: Final = (
    *(
        CelRule(
            at="",
            rule=(f"oldSelf.spec.suspend || ({_ENDED}) || !({_TRAINED}) || {_unchanged(field)}"),
            field_path=f".spec.{field}",
            message=(
                f"spec.{field} is fixed while the job runs: set spec.suspend to true, change it, "
                "then set spec.suspend to false"
            ),
        )
        for field in FIXED_FIELDS
    ),
    *(
        CelRule(
            at="",
            rule=f"oldSelf.spec.suspend || !({_ENDED}) || {_unchanged(field)}",
            field_path=f".spec.{field}",
            message=(
                "the job has ended and does not start again: delete it, or give the new one "
                "another name"
            ),
        )
        for field in FIXED_FIELDS
    ),
)

# These stand at `spec`: the server judges `default: {}` of the parents below before it fills it.
RESILIENCE_RULES: Final = (
    CelRule(
        at="spec",
        rule=(
            "self.resilience.heartbeat.timeoutSeconds >= "
            "2 * self.resilience.heartbeat.intervalSeconds"
        ),
        field_path=".resilience.heartbeat.timeoutSeconds",
        message="write at least twice intervalSeconds: one late beat is no loss",
    ),
    CelRule(
        at="spec",
        rule=(
            "self.resilience.heartbeat.initialRankTimeoutSeconds >= "
            "self.resilience.heartbeat.rankTimeoutSeconds"
        ),
        field_path=".resilience.heartbeat.initialRankTimeoutSeconds",
        message="write at least rankTimeoutSeconds: a first step takes longer than the others",
    ),
    *(
        CelRule(
            at="spec",
            rule=f"self.resilience.{rung}.deadlineSeconds <= self.resilience.{rung}.windowSeconds",
            field_path=f".resilience.{rung}.deadlineSeconds",
            message="write at most windowSeconds: a recovery must end within its budget's window",
        )
        for rung in ("inProcess", "inJob", "pod", "node", "gang")
    ),
)

CHECKPOINT_RULES: Final = (
    CelRule(
        at="spec.storage.checkpoints",
        rule=(
            "self.mountPath.matches('^/+[^/]') && !['/dev', '/etc/rtj', '/proc', '/run/rtj', "
            "'/sys'].exists(p, self.mountPath == p || self.mountPath.startsWith(p + '/'))"
        ),
        field_path=".mountPath",
        message=(
            "write a folder of its own, for example /checkpoints: not /, and nothing in /dev, "
            "/etc/rtj, /proc, /run/rtj or /sys"
        ),
    ),
)


def _absent(field: str, instead: str) -> CelRule:
    return CelRule(
        at=POD,
        rule=f"!has(self.{field})",
        field_path=f".{field}",
        message=f"remove it: {instead}",
    )


OWNED_RULES: Final = (
    _absent("nodeName", "the operator places workers; use nodeSelector or affinity"),
    _absent("hostname", "the operator gives each worker its host name"),
    _absent("subdomain", "the operator gives each worker its host name"),
    _absent("hostnameOverride", "the operator gives each worker its host name"),
    _absent("setHostnameAsFQDN", "the operator gives each worker its host name"),
    _absent("activeDeadlineSeconds", "write spec.activeDeadlineSeconds of the job"),
    _absent("shareProcessNamespace", "the agent must be process 1 of its container"),
    _absent("ephemeralContainers", "use kubectl debug on a worker"),
    CelRule(
        at=POD,
        rule="!has(self.hostNetwork) || !self.hostNetwork",
        field_path=".hostNetwork",
        message=(
            "remove it: NetworkPolicies do not protect the host's network and two jobs would "
            "share its ports; EFA works without it"
        ),
    ),
    CelRule(
        at=POD,
        rule="!has(self.restartPolicy) || self.restartPolicy == 'Never'",
        field_path=".restartPolicy",
        message="write Never or remove it: the operator restarts workers, not the kubelet",
    ),
    CelRule(
        at=POD,
        rule=(
            "!has(self.terminationGracePeriodSeconds) || self.terminationGracePeriodSeconds >= 1"
        ),
        field_path=".terminationGracePeriodSeconds",
        message="write at least 1 or remove it: ranks save and leave in that time",
    ),
    *(
        CelRule(
            at=f"{TEMPLATE}.metadata",
            rule=f"!has(self.{kind}) || self.{kind}.all(k, !k.startsWith('{names.GROUP}/'))",
            field_path=f".{kind}",
            message=f"remove the keys that begin with {names.GROUP}/: the operator sets them",
        )
        for kind in ("labels", "annotations")
    ),
)

_TRAINER: Final = f"c.name == '{names.CONTAINER_TRAINER}'"

CONTAINER_RULES: Final = (
    CelRule(
        at=POD,
        rule=f"self.containers.exists_one(c, {_TRAINER})",
        field_path=".containers",
        message="name exactly one container trainer: the one that runs the training script",
    ),
    CelRule(
        at=POD,
        rule=f"self.containers.all(c, !({_TRAINER}) || has(c.command) || has(c.args))",
        field_path=".containers",
        reason="FieldValueRequired",
        message=(
            "write args of the container trainer, the training script and its arguments: the "
            "image's own entry point is not run"
        ),
    ),
    CelRule(
        at=POD,
        rule="self.containers.all(c, has(c.image) && size(c.image) > 0)",
        field_path=".containers",
        reason="FieldValueRequired",
        message="write the image of every container",
    ),
    CelRule(
        at=POD,
        rule=(
            "self.containers.all(c, !has(c.env) || c.env.all(e, !(e.name in ["
            + ", ".join(f"'{name}'" for name in OWNED_ENVIRONMENT)
            + "])))"
        ),
        field_path=".containers",
        message="remove the RTJ_ variables of identity (job, slot, pod, nodes): the operator sets "
        "them",
    ),
    CelRule(
        at=POD,
        rule=f"!has(self.volumes) || self.volumes.all(v, !v.name.startsWith('{VOLUME_PREFIX}'))",
        field_path=".volumes",
        message=f"rename the volumes that begin with {VOLUME_PREFIX}: the operator's are named so",
    ),
)

RULES: Final = (
    *NAME_RULES,
    *FIXED_RULES,
    *RESILIENCE_RULES,
    *CHECKPOINT_RULES,
    *OWNED_RULES,
    *CONTAINER_RULES,
)

# Bounds inside the template by which the API server prices the rules above: path -> bound.
TEMPLATE_BOUNDS: Final = {
    "spec.containers": ("maxItems", 16),
    "spec.containers.[].env": ("maxItems", 1000),
    "spec.containers.[].env.[].name": ("maxLength", 1024),
    "spec.volumes": ("maxItems", 256),
}

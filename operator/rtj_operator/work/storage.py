"""The checkpoint claim, its volume and class, read live: no informer for what changes once.

A bound claim stays bound, so it is read again only now and then; one that is not is looked at
every few seconds, by the passes that wait for it.
"""

import time
from dataclasses import dataclass
from typing import Final

from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import NotFound
from rtj_operator.kube.objects import (
    CLAIMS,
    STORAGE_CLASSES,
    VOLUMES,
    Claim,
    StorageClass,
    Term,
    Volume,
)
from rtj_operator.policy.observation import ClaimObservation

BOUND_SECONDS: Final = 600.0
UNBOUND_SECONDS: Final = 4.0

ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")


def _is_zone_key(key: str) -> bool:
    # CSI drivers use keys of their own: topology.ebs.csi.aws.com/zone.
    return key in ZONE_LABELS or (key.startswith("topology.") and key.endswith("/zone"))


@dataclass(frozen=True, slots=True)
class _Read:
    claim: ClaimObservation
    at: float


class ClaimReader:
    """Claims, cached briefly by namespace and name."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._cache: dict[tuple[str, str], _Read] = {}

    async def read(self, namespace: str, name: str) -> ClaimObservation:
        """The claim as it is, or was a moment ago. Raises KubeError."""
        known = self._cache.get((namespace, name))
        if known is not None:
            age = time.monotonic() - known.at
            if age < (BOUND_SECONDS if known.claim.bound else UNBOUND_SECONDS):
                return known.claim
        claim = await self._read(namespace, name)
        oldest = time.monotonic() - BOUND_SECONDS
        self._cache = {key: read for key, read in self._cache.items() if read.at > oldest}
        self._cache[namespace, name] = _Read(claim, time.monotonic())
        return claim

    async def _read(self, namespace: str, name: str) -> ClaimObservation:
        try:
            claim = await self._client.get(CLAIMS, namespace, name)
        except NotFound:
            return ClaimObservation(name=name, exists=False)
        if claim.status.phase != "Bound":
            return await self._unbound(claim)
        try:
            volume = await self._client.get(VOLUMES, "", claim.spec.volume_name)
        except NotFound:
            return ClaimObservation(
                name=name,
                exists=True,
                message=f"its volume {claim.spec.volume_name} does not exist",
            )
        return ClaimObservation(
            name=name,
            exists=True,
            bound=True,
            zones=volume_zones(volume),
        )

    async def _unbound(self, claim: Claim) -> ClaimObservation:
        name, class_name = claim.metadata.name, claim.spec.storage_class_name
        phase = f"its phase is {claim.status.phase}"
        if not class_name:
            return ClaimObservation(name=name, exists=True, message=f"{phase}, without a class")
        try:
            found = await self._client.get(STORAGE_CLASSES, "", class_name)
        except NotFound:
            message = f"{phase}; StorageClass {class_name} does not exist"
            return ClaimObservation(name=name, exists=True, message=message)
        return ClaimObservation(
            name=name,
            exists=True,
            waits_for_consumer=found.volume_binding_mode == "WaitForFirstConsumer",
            zones=class_zones(found),
            message=f"{phase}; StorageClass {class_name}",
        )


def volume_zones(volume: Volume) -> tuple[str, ...]:
    """Zones from which the volume can be mounted; empty: any, as far as it says."""
    terms = volume.spec.node_affinity.required.node_selector_terms
    found = {zone for term in terms for zone in _term_zones(term)}
    if not found:
        # Legacy volumes carry a label, several zones joined by "__".
        labels = volume.metadata.labels
        found = {z for key in ZONE_LABELS if key in labels for z in labels[key].split("__")}
    return tuple(sorted(found))


def class_zones(storage_class: StorageClass) -> tuple[str, ...]:
    """Zones in which the class makes volumes; empty: any."""
    return tuple(
        sorted(
            {
                zone
                for topology in storage_class.allowed_topologies
                for item in topology.match_label_expressions
                if _is_zone_key(item.key)
                for zone in item.values
            }
        )
    )


def _term_zones(term: Term) -> set[str]:
    return {
        zone
        for item in term.match_expressions
        if _is_zone_key(item.key) and item.operator == "In"
        for zone in item.values
    }

"""docs/reference.md: settings and words, made from the code that uses them."""

from collections.abc import Iterable
from typing import Final

from docs.generate import measures, specification, transitions
from docs.generate.comments import Word, words
from docs.generate.markdown import table
from rtj_api import names
from rtj_api.crd import COLUMNS
from rtj_api.ladder import FaultClass, Rung
from rtj_api.reasons import ConditionType, EventReason, Phase, Reason
from rtj_operator.policy.incident.transitions import entry
from rtj_operator.settings import Settings

# What a column shows; each must be here.
_COLUMN_MEANINGS: Final = {
    "Phase": "see Phases",
    "Workers": "workers that hold a position / workers that train",
    "Spares": "workers that wait, connected to the coordinator",
    "Step": "lowest completed step of the ranks; written at most once a minute and at each turn",
    "Restarts": "recoveries since the job began: InProcess/InJob/Pod/Node/Gang",
    "Last Fault": "class of the newest fault, its node or slot, its rank",
    "Goodput": "share of the time since the first step in which new steps were made",
    "Reason": "reason of the condition that the phase follows from",
    "Age": "since the job was created",
    "Run": "number of the run (`-o wide`); a new one is a new rendezvous of every launcher",
}
_PORTS: Final = (
    ("coordinator pod", names.PORT_STORE, "rendezvous store (NVRx), without authentication"),
    ("coordinator pod", names.PORT_WORKER_SOCKET, "WebSocket of the workers, needs the job's key"),
    ("coordinator pod", names.PORT_VIEW_SOCKET, "WebSocket of the operator, needs the job's key"),
    ("coordinator and worker pods", names.PORT_METRICS, "/metrics and /healthz"),
    ("coordinator pod", names.PORT_CONTROL_HEALTH, "/healthz of container control"),
)
_LABELS: Final = (
    (names.LABEL_JOB, "pods and other children: name of the job"),
    (names.LABEL_JOB_UID, "the same: UID of the job"),
    (names.LABEL_ROLE, f"pods: {names.ROLE_WORKER} or {names.ROLE_COORDINATOR}"),
    (names.LABEL_SLOT, "workers: slot, 0 to nodes + spares - 1"),
    (names.LABEL_INCARNATION, "pods: how often the slot, or the coordinator, was replaced"),
    (names.TAINT_FAULTY, "taint of a node (NoSchedule); value: UID of the job that set it"),
)


def text() -> str:
    """The whole page."""
    parts = (
        "# Reference",
        "Made from the code by `make generate`; do not edit.",
        _section("Spec", _SPEC, specification.fields()),
        _section("Refused at apply", _REFUSED, specification.refusals()),
        _section("Columns of `kubectl get rtj`", "", _columns()),
        _section("Phases", "", _plain(("phase", "when"), words(Phase))),
        _section("Conditions", _CONDITIONS, _plain(("type", "meaning"), words(ConditionType))),
        _section("Reasons", "", _reasons()),
        _section("Events", "", _plain(("reason", "when"), words(EventReason))),
        _section("Rungs", "", _plain(("rung", "what happens"), words(Rung))),
        _section("Fault classes", _CLASSES, _classes()),
        _section("Transitions", _TRANSITIONS, transitions.rows()),
        transitions.words_of_table(),
        _section("Metrics of the operator", "", measures.operator()),
        _section("Metrics of a coordinator", "", measures.coordinator()),
        _section("Metrics of a worker", "", measures.agent()),
        _section("Ports", "", _ports()),
        _section("Labels and taint", "", table(("key", "on"), _code_first(_LABELS))),
        _section("Settings of the operator", _SETTINGS, _settings()),
    )
    return "\n\n".join(parts) + "\n"


_SPEC: Final = (
    "`template` has the full schema of a pod template: `kubectl explain rtj.spec.template.spec`. "
    "`kubectl apply` refuses a field that does not exist."
)
_REFUSED: Final = (
    "Rules of the CRD; `kubectl apply` prints the message. Rules are never made stricter within "
    "v1alpha1."
)
_CONDITIONS: Final = "For example `kubectl wait --for=condition=Running rtj/NAME`."
_CLASSES: Final = (
    "A fault enters the ladder at the rung of its class. It climbs when that rung brings no new "
    "step before its deadline, or has no recovery left in its window."
)
_TRANSITIONS: Final = (
    "What follows from a fault. The first row that fits counts. A lost pod is replaced whatever "
    "its class, and a job that has made no step yet spends no budget."
)
_SETTINGS: Final = "Environment of the operator; the chart sets them."


def _section(title: str, lead: str, body: str) -> str:
    return "\n\n".join(part for part in (f"## {title}", lead, body) if part)


def _code_first(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(f"`{first}`", second) for first, second in rows]


def _plain(head: tuple[str, str], found: Iterable[Word]) -> str:
    return table(head, _code_first((word.value, word.meaning) for word in found))


def _columns() -> str:
    rows = ((name.upper(), f"`{path}`", _COLUMN_MEANINGS[name]) for name, path, _, _ in COLUMNS)
    return table(("column", "field", "meaning"), rows)


def _reasons() -> str:
    rows = ((f"`{word.value}`", word.meaning, word.group) for word in words(Reason))
    return table(("reason", "when", "about"), rows)


def _classes() -> str:
    rows = (
        (f"`{word.value}`", word.meaning, str(entry(FaultClass(word.value))))
        for word in words(FaultClass)
    )
    return table(("class", "when", "enters at"), rows)


def _ports() -> str:
    settings = Settings.model_fields
    ours = ((where, str(number), what) for where, number, what in _PORTS)
    operator = (
        ("operator", str(settings["probe_port"].default), "/healthz and /readyz"),
        ("operator", str(settings["metrics_port"].default), "/metrics"),
    )
    return table(("where", "port", "what"), [*ours, *operator])


def _settings() -> str:
    prefix: str = Settings.model_config.get("env_prefix", "")
    rows = (
        (f"`{prefix}{name.upper()}`", field.description or "")
        for name, field in Settings.model_fields.items()
    )
    return table(("variable", "meaning"), rows)

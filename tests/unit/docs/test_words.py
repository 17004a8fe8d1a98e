"""Pages use the words of the code, and leave none of those that people meet unexplained."""

import ast
import re
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import pytest

import rtj_operator
import rtj_trainer
from rtj_api import names
from rtj_api.reasons import ConditionType, EventReason, Reason
from rtj_api.spec import ApiModel, Resilience, ResilientTrainingJobSpec
from tests.unit.docs.pages import IDS, PAGES, Page, page

HEADING: Final = re.compile(r"^### (\w+)$", re.MULTILINE)
OPERATOR: Final = Path(rtj_operator.__file__).parent
# What a person on call may meet.
MET: Final = {*map(str, Reason), *map(str, EventReason), *map(str, ConditionType)}


def entries() -> set[str]:
    """Words that the runbook has a heading for, or a row of those that need nothing done."""
    runbook = page("docs/runbook.md").text
    rows = runbook.partition("## Nothing to do")[2].partition("\n## ")[0]
    return {*HEADING.findall(runbook), *re.findall(r"`(\w+)`", rows)}


@pytest.mark.parametrize("word", sorted(MET))
def test_runbook_explains_each_condition_reason_and_event(word: str) -> None:
    assert word in entries()


def test_runbook_explains_nothing_that_is_never_given() -> None:
    assert set(HEADING.findall(page("docs/runbook.md").text)) <= MET


def field_paths(model: type[ApiModel], at: str = "") -> set[str]:
    found: set[str] = set()
    for name, field in model.model_fields.items():
        path = f"{at}.{field.alias or name}".removeprefix(".")
        found.add(path)
        kind: Any = field.annotation
        for inner in (kind, *getattr(kind, "__args__", ())):
            if isinstance(inner, type) and issubclass(inner, ApiModel):
                found |= field_paths(inner, path)
    return found


@pytest.mark.parametrize("found", PAGES, ids=IDS)
def test_fields_of_the_spec_that_are_named_exist(found: Page) -> None:
    spec = field_paths(ResilientTrainingJobSpec)
    resilience = field_paths(Resilience)
    groups = "|".join(field.alias or name for name, field in Resilience.model_fields.items())
    own = [word for word in found.words if re.fullmatch(r"spec\.[a-z]\w*(\.[a-z]\w*)*", word)]
    inner = [word for word in found.words if re.fullmatch(rf"({groups})\.\w+", word)]
    unknown = [word for word in own if word.removeprefix("spec.") not in spec]
    unknown = [word for word in unknown if not word.startswith("spec.template.")]
    assert unknown + [word for word in inner if word not in resilience] == []


@pytest.mark.parametrize("found", PAGES, ids=IDS)
def test_labels_and_taints_that_are_named_exist(found: Page) -> None:
    keys = set(re.findall(rf"\b{re.escape(names.GROUP)}/([a-z][a-z0-9-]*)", found.text))
    own = (names.LABEL_JOB, names.LABEL_JOB_UID, names.LABEL_ROLE, names.LABEL_SLOT)
    known = {key.partition("/")[2] for key in (*own, names.LABEL_INCARNATION, names.TAINT_FAULTY)}
    assert {key.rstrip("-") for key in keys} <= known | {names.VERSION}


def test_the_scripts_calls_exist() -> None:
    (block,) = page("docs/script.md").blocks("python")
    calls = [
        node.func.attr
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "rtj_trainer"
    ]
    assert set(calls) >= {"beat", "should_leave", "leave", "done"}
    assert [name for name in calls if name not in rtj_trainer.__all__] == []


@pytest.mark.parametrize("kind", [Reason, EventReason], ids=lambda kind: kind.__name__)
def test_every_documented_word_is_given_somewhere(kind: type[StrEnum]) -> None:
    code = "\n".join(path.read_text() for path in OPERATOR.rglob("*.py"))
    assert [name for name in kind.__members__ if f"{kind.__name__}.{name}" not in code] == []

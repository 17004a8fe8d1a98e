"""Every command, path and value that a page names is there."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from rtj_api.reasons import ConditionType
from tests.unit.docs.pages import IDS, PAGES, ROOT, Page, page

CHART: Final = ROOT / "charts" / "resilient-training-operator"
TARGET: Final = re.compile(r"\bmake ([a-z][a-z-]*)")
MODULE: Final = re.compile(r"\bpython -m ([a-z_][\w.]*)")
SET: Final = re.compile(r"--set[= ]([\w.]+)=")
PATH: Final = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")


def words_of(found: Page) -> str:
    return "\n".join([*found.words, found.shell])


def is_runnable(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return False
    if spec is None:
        return False
    folders = spec.submodule_search_locations
    return folders is None or any((Path(folder) / "__main__.py").exists() for folder in folders)


def is_known_value(schema: dict[str, Any], dotted: str) -> bool:
    for part in dotted.split("."):
        properties = schema.get("properties", {})
        if part not in properties:
            return False
        schema = properties[part]
    return True


@pytest.mark.parametrize("found", PAGES, ids=IDS)
def test_named_make_targets_exist(found: Page) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    assert set(TARGET.findall(words_of(found))) <= targets


@pytest.mark.parametrize("found", PAGES, ids=IDS)
def test_named_modules_can_be_run(found: Page) -> None:
    assert [name for name in MODULE.findall(words_of(found)) if not is_runnable(name)] == []


@pytest.mark.parametrize("found", PAGES, ids=IDS)
def test_named_paths_exist(found: Page) -> None:
    tops = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."} - {"out"}
    named = [word for word in found.words if PATH.fullmatch(word) and word.split("/")[0] in tops]
    paths = [word for word in named if "/" in word]
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("found", PAGES, ids=IDS)
def test_helm_commands_set_values_of_the_chart(found: Page) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert [key for key in SET.findall(found.shell) if not is_known_value(schema, key)] == []


def test_chart_values_that_are_explained_exist() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    table = page("docs/eks.md").text.partition("| value | why |")[2]
    keys = re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)
    assert len(keys) > 3
    assert [key for key in keys if not is_known_value(schema, key)] == []


@pytest.mark.parametrize("found", PAGES, ids=IDS)
def test_conditions_waited_for_exist(found: Page) -> None:
    types = set(re.findall(r"--for=condition=(\w+)", words_of(found)))
    assert types <= {str(member) for member in ConditionType}


@pytest.mark.parametrize("found", PAGES, ids=IDS)
def test_build_arguments_are_the_dockerfiles(found: Page) -> None:
    for line in found.shell.splitlines():
        if not line.startswith("docker build"):
            continue
        dockerfile = re.search(r"-f (\S+)", line)
        assert dockerfile is not None
        text = (ROOT / dockerfile[1]).read_text()
        for argument in re.findall(r"--build-arg (\w+)=", line):
            assert f"ARG {argument}=" in text

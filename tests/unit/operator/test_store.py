"""The informers' store: newest wins, deletions are reported, the dead do not return."""

import pytest

from rtj_operator.kube.objects import Meta, Object
from rtj_operator.kube.store import Store


def an_object(name: str = "a", version: int = 1, uid: str = "", group: str = "g") -> Object:
    return Object(
        metadata=Meta(
            name=name,
            namespace="ns",
            uid=uid or f"uid-{name}",
            resource_version=str(version),
            labels={"group": group},
        )
    )


class Recorded:
    """A store and the changes it told."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []
        self.store: Store[Object] = Store(
            self._note, lambda o: o.metadata.labels["group"].split("+")
        )

    def _note(self, old: Object | None, new: Object | None) -> None:
        before, after = (o.metadata.resource_version if o else "" for o in (old, new))
        self.changes.append((before, after))

    @property
    def names(self) -> set[str]:
        return {item.metadata.name for item in self.store}


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def test_newer_version_replaces_and_older_is_ignored(recorded: Recorded) -> None:
    for version in (2, 3, 1, 3):
        recorded.store.absorb(an_object(version=version))
    assert recorded.changes == [("", "2"), ("2", "3")]


def test_reply_that_comes_after_the_deletion_does_not_bring_it_back(recorded: Recorded) -> None:
    recorded.store.absorb(an_object(version=2))
    recorded.store.remove(an_object(version=3))
    recorded.store.absorb(an_object(version=2))
    recorded.store.absorb(an_object(version=4))
    assert recorded.names == set()
    assert recorded.changes == [("", "2"), ("2", "")]


def test_deletion_of_a_predecessor_leaves_the_successor(recorded: Recorded) -> None:
    recorded.store.absorb(an_object(version=5, uid="new"))
    recorded.store.remove(an_object(version=4, uid="old"))
    assert recorded.names == {"a"}


def test_list_reports_what_is_missing_in_it(recorded: Recorded) -> None:
    for name in ("stays", "goes"):
        recorded.store.absorb(an_object(name, version=2))
    recorded.store.replace("ns", [an_object("stays", version=2)], version=9)
    assert recorded.names == {"stays"}
    assert recorded.changes[-1] == ("2", "")


def test_object_made_after_a_list_was_read_is_not_taken_for_deleted(recorded: Recorded) -> None:
    recorded.store.absorb(an_object(version=10))
    recorded.store.replace("ns", [], version=9)
    assert recorded.names == {"a"}


def test_list_of_another_namespace_deletes_nothing_here(recorded: Recorded) -> None:
    recorded.store.absorb(an_object(version=1))
    recorded.store.replace("other", [], version=9)
    assert recorded.names == {"a"}


def test_group_follows_its_members(recorded: Recorded) -> None:
    recorded.store.absorb(an_object(version=1, group="g"))
    recorded.store.absorb(an_object(version=2, group="h"))
    assert recorded.store.group("g") == ()
    assert len(recorded.store.group("h")) == 1
    recorded.store.remove(an_object(version=3, group="h"))
    assert recorded.store.group("h") == ()


def test_object_in_two_groups_leaves_only_the_one_that_it_is_not_in_any_more(
    recorded: Recorded,
) -> None:
    recorded.store.absorb(an_object(version=1, group="job+node-1"))
    recorded.store.absorb(an_object(version=2, group="job+node-2"))
    (found,) = recorded.store.group("job")
    assert found.metadata.version == 2
    assert recorded.store.group("node-1") == ()
    assert recorded.store.group("node-2") == (found,)
    recorded.store.remove(an_object(version=3, group="job+node-2"))
    assert (recorded.store.group("job"), recorded.store.group("node-2")) == ((), ())


def test_name_taken_by_another_uid_is_one_change_and_buries_the_first(recorded: Recorded) -> None:
    recorded.store.absorb(an_object(version=1, uid="old"))
    recorded.store.absorb(an_object(version=5, uid="new"))
    recorded.store.absorb(an_object(version=9, uid="old"))
    assert recorded.changes == [("", "1"), ("1", "5")]
    (found,) = recorded.store
    assert found.metadata.uid == "new"

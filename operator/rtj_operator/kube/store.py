"""What an informer knows: objects by name and by index, and what this process just did to them.

A reply to our own POST or DELETE is put in at once (`absorb`), so that the next decision sees it
before the watch brings it. The newest resourceVersion wins, and a UID seen deleted never returns.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Final

from rtj_operator.kube.objects import Named

# UIDs remembered as deleted: enough for the replies that can be under way at one time.
TOMBSTONES: Final = 4096

type Key = tuple[str, str]


class Store[T: Named]:
    """Objects of one kind, from one or several reflectors.

    `on_change(old, new)` is called for every difference, deletions (new is None) included.
    `groups` names the groups that an object belongs to, for example its job and its node; names of
    different kinds must differ.
    """

    def __init__(
        self,
        on_change: Callable[[T | None, T | None], None],
        groups: Callable[[T], Iterable[Hashable]] = lambda _: (),
    ) -> None:
        self._on_change = on_change
        self._groups_of = groups
        self._objects: dict[Key, T] = {}
        self._groups: dict[Hashable, dict[Key, T]] = {}
        self._tombstones: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._objects.values()))

    def get(self, namespace: str, name: str) -> T | None:
        """The object of that name, as last seen."""
        return self._objects.get((namespace, name))

    def group(self, group: Hashable) -> tuple[T, ...]:
        """The objects of one group."""
        return tuple(self._groups.get(group, {}).values())

    def absorb(self, new: T) -> None:
        """Take in an object from a watch, a list or a reply, unless a newer one is known."""
        meta = new.metadata
        old = self._objects.get(_key(new))
        if meta.uid in self._tombstones:
            return
        if old is not None and old.metadata.version >= meta.version:
            return
        if old is not None and old.metadata.uid != meta.uid:
            self._forget(old)
        self._put(old, new)

    def remove(self, gone: Named) -> None:
        """An object of that UID is gone."""
        self._bury(gone.metadata.uid)
        old = self._objects.get(_key(gone))
        if old is None or old.metadata.uid != gone.metadata.uid:
            return
        self._forget(old)
        self._on_change(old, None)

    def replace(self, namespace: str, objects: Iterable[T], version: int) -> None:
        """Take in a whole list of `namespace` (empty: all), made at `version`.

        What is missing in it was deleted while nobody watched, unless it is newer than the list.
        """
        listed: dict[Key, T] = {_key(item): item for item in objects}
        for item in listed.values():
            self.absorb(item)
        for key, old in tuple(self._objects.items()):
            in_scope = not namespace or key[0] == namespace
            if in_scope and key not in listed and old.metadata.version <= version:
                self.remove(old)

    def _put(self, old: T | None, new: T) -> None:
        key = _key(new)
        self._objects[key] = new
        groups = tuple(self._groups_of(new))
        if old is not None:
            self._ungroup(old, set(groups))
        for group in groups:
            self._groups.setdefault(group, {})[key] = new
        self._on_change(old, new)

    def _forget(self, old: T) -> None:
        self._bury(old.metadata.uid)
        self._objects.pop(_key(old), None)
        self._ungroup(old, frozenset())

    def _ungroup(self, old: T, kept: Collection[Hashable]) -> None:
        """Take an object out of its groups but those that are `kept`."""
        for group in self._groups_of(old):
            if group in kept:
                continue
            members = self._groups.get(group, {})
            members.pop(_key(old), None)
            if not members:
                self._groups.pop(group, None)

    def _bury(self, uid: str) -> None:
        self._tombstones[uid] = None
        if len(self._tombstones) > TOMBSTONES:
            self._tombstones.popitem(last=False)


def _key(item: Named) -> Key:
    return item.metadata.namespace, item.metadata.name

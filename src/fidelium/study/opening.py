"""New studies and old ones: from settings to a study with its storage."""

from __future__ import annotations

from fidelium.errors import SettingError, StudyExistsError, UnknownNameError
from fidelium.storage import open_storage
from fidelium.storage.base import StudyRecord, StudyStore
from fidelium.strategies import registry
from fidelium.strategies.base import Strategy
from fidelium.study.settings import Settings
from fidelium.study.study import Study

DEFAULT_NAME = "study"


def create(settings: Settings, storage: str | None, load_if_exists: bool) -> Study:
    """A new study with these settings, or the one there is of this name, if that is allowed and it is the same.

    Raises:
        StudyExistsError: if there is a study of this name, and it is not to be loaded.
        SettingError: if there is one with other parameters, fidelities or another direction.
        StorageError: if the storage cannot be opened or written.
    """
    stores, record = open_storage(storage), _record(settings)
    try:
        return Study(settings, stores.create(record))
    except StudyExistsError:
        if not load_if_exists:
            raise StudyExistsError(
                f"there is a study called {record.name!r} in {storage} already; go on with it by load_study or "
                f"load_if_exists=True, or choose another name"
            ) from None
    store = stores.open(record.name)
    _check_same(store.record, record, storage)
    return Study(settings, store)


def load(storage: str, name: str | None, strategy: str | Strategy | None) -> Study:
    """A study as it was left.

    Raises:
        UnknownNameError: if there is no study of this name, or no name was given and there are several.
        SettingError: if it was made with a strategy object, and none is given.
        StorageError: if the storage cannot be opened.
    """
    stores = open_storage(storage)
    store = stores.open(_only(stores.names(), storage) if name is None else name)
    return Study(_settings(store, strategy), store)


def _only(names: tuple[str, ...], storage: str) -> str:
    if len(names) == 1:
        return names[0]
    there = ", ".join(map(repr, names)) if names else "none yet"
    raise UnknownNameError(f"which study of {storage} is meant must be said by its name; there are: {there}")


def _record(settings: Settings) -> StudyRecord:
    strategy = settings.strategy if isinstance(settings.strategy, str) else repr(settings.strategy)
    return StudyRecord(
        settings.name or DEFAULT_NAME,
        settings.space,
        settings.ladder,
        settings.direction,
        strategy,
        settings.seed,
        settings.initial,
    )


def _settings(store: StudyStore, strategy: str | Strategy | None) -> Settings:
    record = store.record
    if strategy is None and record.strategy not in registry.names():
        raise SettingError(
            f"study {record.name!r} was made with a strategy of its own, {record.strategy}; pass it: "
            "load_study(..., strategy=...)"
        )
    chosen = record.strategy if strategy is None else strategy
    registry.check(chosen)
    return Settings(
        record.space, record.ladder, record.direction, chosen, record.seed, dict(record.initial), record.name
    )


def _check_same(there: StudyRecord, here: StudyRecord, storage: str | None) -> None:
    """What values mean must not change in the middle of a study; how it goes on (strategy, seed) may."""
    for what, old, new in (
        ("parameters", there.space.parameters, here.space.parameters),
        ("fidelities", list(there.ladder), list(here.ladder)),
        ("direction", str(there.direction), str(here.direction)),
    ):
        if old != new:
            raise SettingError(
                f"study {here.name!r} in {storage} has other {what}: {old} there, {new} here; "
                "go back to those, or choose another name for a new study"
            )

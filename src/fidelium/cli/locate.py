"""Which study a command is about: the path of a study.yaml, or the URL of a storage with the study's name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fidelium.cli.output import command
from fidelium.errors import SettingError, UnknownNameError

if TYPE_CHECKING:
    from fidelium.config import StudyFile
    from fidelium.storage import Storage, StudyStore
    from fidelium.study import Study


@dataclass(frozen=True)
class Place:
    """Where a study is.

    Args:
        where: what the user wrote.
        storage: the URL of its storage.
        name: what it is called; None for the only one in its storage.
        budget: what it may spend in total, if that is written down.
        file: the file that describes it, if that was named and read.
    """

    where: str
    storage: str
    name: str | None
    budget: float | None = None
    file: StudyFile | None = None

    def command(self, name: str, *more: str) -> str:
        """A command about this study, as it can be pasted into a shell."""
        named = ("--name", self.name) if is_url(self.where) and self.name is not None else ()
        return command(*name.split(), self.where, *more, *named)

    def shown(self) -> str:
        """The storage as it may be shown to anybody: without its password."""
        from fidelium.storage.sql.url import parse_address

        return str(parse_address(self.storage))


def is_url(where: str) -> bool:
    """Whether this is the URL of a storage; else it is a path."""
    return "://" in where


def find(where: str, name: str | None = None) -> Place:
    """Where the study is that a command is about.

    Raises:
        ConfigError: if the file cannot be read or is not valid.
        SettingError: if a name is given beside a file.
    """
    if is_url(where):
        return Place(where, where, name)
    from fidelium import config

    file = config.load_study_file(Path(where))
    _check_name(where, name, file.name)
    return Place(where, file.storage, file.name, file.budget, file)


def peek(where: str, name: str | None = None) -> Place:
    """The same for commands that only look at the trials, and quickly: a file is not checked beyond what is needed.

    Raises:
        ConfigError: if the file cannot be read, or does not say where the study is.
        SettingError: if a name is given beside a file.
    """
    if is_url(where):
        return Place(where, where, name)
    from fidelium import config

    seen = config.peek_study_file(Path(where))
    if seen is None:
        return find(where, name)
    _check_name(where, name, seen.name)
    return Place(where, seen.storage, seen.name, seen.budget)


def _check_name(where: str, name: str | None, said: str) -> None:
    if name is not None and name != said:
        raise SettingError(f"{where} names its study {said!r} itself; leave --name out, or change it there")


def find_file(where: str) -> tuple[Place, StudyFile]:
    """The same for commands that run simulations: how to do so stands in the file.

    Raises:
        SettingError: if it is a URL.
        ConfigError: if the file cannot be read or is not valid.
    """
    place = find(where) if not is_url(where) else None
    if place is None or place.file is None:
        raise SettingError("which programs to run stands in a study.yaml, so give its path instead of a URL")
    return place, place.file


def store_of(place: Place) -> StudyStore:
    """The trials of a study that has been started; looking at one that has not makes nothing.

    Raises:
        UnknownNameError: if there is no such study.
        StorageError: if the storage cannot be opened.
    """
    from fidelium.storage import open_storage

    storage = open_storage(place.storage)
    if not is_url(place.where) and place.name not in storage.names():
        raise UnknownNameError(
            f"the study {place.name!r} of {place.where} has not been started; start it with: {place.command('run')}"
        )
    return storage.open(_only(storage, place) if place.name is None else place.name)


def open_study(place: Place) -> Study:
    """A study that has been started, with the strategy that its file names now.

    Raises:
        FideliumError: as `store_of`, and if the file's parameters, fidelities or direction are no longer the study's.
    """
    store_of(place)
    return start_study(place)


def start_study(place: Place) -> Study:
    """A study, made from its file if it has not been started.

    Raises:
        FideliumError: as `open_study`, but for studies that do not exist yet.
    """
    from fidelium.study import create_study, load_study

    file = place.file
    if file is None:
        return load_study(place.storage, place.name)
    return create_study(
        file.space,
        file.ladder,
        direction=file.direction,
        strategy=file.strategy,
        seed=file.seed,
        storage=file.storage,
        name=file.name,
        initial=file.initial,
        load_if_exists=True,
    )


def _only(storage: Storage, place: Place) -> str:
    names = storage.names()
    if len(names) == 1:
        return names[0]
    there = ", ".join(map(repr, names)) if names else "none yet"
    raise UnknownNameError(f"say which study of {place.shown()} is meant with --name; there are: {there}")

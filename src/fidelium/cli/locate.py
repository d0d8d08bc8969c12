"""Which study a command is about: the path of a study.yaml, or the URL of a storage with the study's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fidelium.cli.output import command, say
from fidelium.errors import SettingError, UnknownNameError
from fidelium.text import visible

if TYPE_CHECKING:
    from fidelium.config.load import StudyFile
    from fidelium.storage import Storage, StudyStore
    from fidelium.study import Study


@dataclass(frozen=True)
class Located:
    """Where a study is.

    Args:
        where: what the user wrote.
        storage: the URL of its storage.
        name: what it is called; None for the only one in its storage.
        budget: what it may spend in total, if a file says so.
        file: the study file, if it was read.
    """

    where: str
    storage: str
    name: str | None
    budget: float | None = None
    file: StudyFile | None = None

    def command(self, name: str, *more: str) -> str:
        """A command about this study, as it can be pasted into a shell."""
        named = ("--name", self.name) if is_url(self.where) and self.name is not None else ()
        where = self.shown() if is_url(self.where) else self.where
        return command(*name.split(), where, *more, *named)

    def shown(self) -> str:
        """The storage without its password, in printable characters."""
        from fidelium.storage.sql.url import parse_address

        return str(parse_address(self.storage.encode("utf-8", "backslashreplace").decode()))


def is_url(where: str) -> bool:
    """Whether this is the URL of a storage; otherwise it is a path."""
    return "://" in where


def find(where: str, name: str | None = None) -> Located:
    """The study that a command is about.

    Raises:
        ConfigError: if the file cannot be read or is not valid.
        SettingError: if a file is given with a name that is not its own.
    """
    if is_url(where):
        return Located(where, where, name)
    from fidelium.config.load import load_study_file

    file = load_study_file(Path(where))
    _check_name(where, name, file.definition.stored_name)
    return Located(where, file.storage, file.definition.stored_name, file.budget, file)


def peek(where: str, name: str | None = None) -> Located:
    """The same for commands that only read trials: quick, as most of a file is not checked.

    Raises:
        ConfigError: if the file cannot be read, or does not say where the study is.
        SettingError: if a file is given with a name that is not its own.
    """
    if is_url(where):
        return Located(where, where, name)
    from fidelium.config.peek import peek_study_file

    seen = peek_study_file(Path(where))
    if seen is None:
        return find(where, name)
    _check_name(where, name, seen.name)
    return Located(where, seen.storage, seen.name, seen.budget)


def find_file(where: str) -> tuple[Located, StudyFile]:
    """The same for commands that run simulations, which need a study file.

    Raises:
        SettingError: if it is a URL.
        ConfigError: if the file cannot be read or is not valid.
    """
    if is_url(where):
        raise SettingError("running needs the path of a study.yaml, not a URL")
    found = find(where)
    assert found.file is not None
    return found, found.file


@contextmanager
def open_store(found: Located) -> Iterator[StudyStore]:
    """The trials of a study that exists; looking for one that does not creates nothing.

    Raises:
        UnknownNameError: if there is no such study.
        StorageError: if the storage cannot be opened.
    """
    with open_storage_of(found) as storage:
        yield storage.open(existing_name(storage, found))


@contextmanager
def open_study(found: Located, *, create: bool = False, take_up: bool = False) -> Iterator[Study]:
    """A study as its file describes it now.

    Args:
        found: where it is.
        create: whether a study that does not exist yet is created from its file; then the file is taken up, too.
        take_up: whether the file's definition replaces the stored one, with a line for each difference; otherwise it
            holds for this command only.

    Raises:
        FideliumError: as `open_store`, and if the file is about another problem than the stored study.
    """
    with open_storage_of(found) as storage:
        yield study_in(storage, found, create=create, take_up=take_up)


def study_in(storage: Storage, found: Located, *, create: bool = False, take_up: bool = False) -> Study:
    """The study of an open storage; see `open_study`."""
    from fidelium.study import load_study, start_study, view_study

    if found.file is None:
        return load_study(storage, existing_name(storage, found))
    if not create:
        existing_name(storage, found)
    if not create and not take_up:
        return view_study(found.file.definition, storage)
    return start_study(found.file.definition, storage, load_if_exists=True, announce=_announce)


def _announce(change: str) -> None:
    say(f"changed: {visible(change)}")


@contextmanager
def open_storage_of(found: Located) -> Iterator[Storage]:
    """The storage of a study, closed on the way out.

    Raises:
        StorageError: if it cannot be opened.
    """
    from fidelium.storage import open_storage

    with closing(open_storage(found.storage)) as storage:
        yield storage


def existing_name(storage: Storage, found: Located) -> str:
    """The name of the study in its storage.

    Raises:
        UnknownNameError: if the study of a file does not exist, or there is no name and not exactly one study.
    """
    names = storage.names() if found.name is None or not is_url(found.where) else ()
    if not is_url(found.where) and found.name not in names:
        raise UnknownNameError(
            f"study {found.name!r} of {found.where} has not been started; start it with: {found.command('run')}"
        )
    if found.name is not None:
        return found.name
    if len(names) == 1:
        return names[0]
    listed = ", ".join(map(repr, names)) if names else "none yet"
    raise UnknownNameError(f"pass --name: {found.shown()} has these studies: {listed}")


def _check_name(where: str, name: str | None, own: str) -> None:
    if name is not None and name != own:
        raise SettingError(f"the study of {where} is called {own!r}; drop --name, or change the name in the file")

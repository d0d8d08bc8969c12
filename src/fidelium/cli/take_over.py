"""`fidelium run --from`: start a study with the data of another one that fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fidelium.cli.locate import Located, open_store, peek
from fidelium.cli.options import complete_study
from fidelium.cli.output import counted, say
from fidelium.errors import SettingError
from fidelium.text import visible

if TYPE_CHECKING:
    from fidelium.definition import StudyDefinition
    from fidelium.study import Study
    from fidelium.study.transfer import Transfer

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="Take over the data of another study that fit: its study.yaml, or the URL of its storage.",
        metavar="STUDY",
        autocompletion=complete_study,
    ),
]
FromName = Annotated[
    str | None, typer.Option("--from-name", help="Name of that study, if its storage has several.", metavar="NAME")
]
Fill = Annotated[
    list[str] | None,
    typer.Option(
        help="Value in the old runs of a parameter that only one of the two studies has; may be repeated.",
        metavar="NAME=VALUE",
    ),
]


@dataclass(frozen=True)
class OldData:
    """The data of another study.

    Args:
        name: what that study is called.
        count: how many trials it has.
        transfer: what fits into the new study.
    """

    name: str
    count: int
    transfer: Transfer


def read_old_data(
    found: Located, new: StudyDefinition, source: str | None, name: str | None, fill: list[str] | None
) -> OldData | None:
    """The data of the study that `--from` names, read before anything is created; None without `--from`.

    Raises:
        SettingError: if an option is not valid, or the other study is the new one.
        UnknownNameError: if there is no such study.
        StorageError: if its storage cannot be opened.
    """
    if source is None:
        if name is not None or fill:
            raise SettingError("--from-name and --fill need --from STUDY, the study whose data are taken over")
        return None
    from fidelium.study.transfer import fitting

    with open_store(peek(source, name)) as store:
        old, trials = store.definition, store.trials()
    if (peek(source, name).storage, old.stored_name) == (found.storage, new.stored_name):
        raise SettingError(f"--from names the study itself, {old.stored_name!r}; give the new one another name")
    return OldData(old.stored_name, len(trials), fitting(old, trials, new, _fixed(old, new, fill or [])))


def take_over(study: Study, old: OldData, *, quiet: bool) -> None:
    """Add the data to the new study, each observation once, and say what was left out and why unless quiet."""
    from fidelium.study.transfer import add_missing

    added, fits = add_missing(study, old.transfer.observations), len(old.transfer.observations)
    if quiet:
        return
    before = f", {fits - added} were taken over before" if added < fits else ""
    say(f"{added} of {counted(old.count, 'trial')} of study {old.name!r} taken over{before}")
    for reason, count in old.transfer.left_out.items():
        say(f"left out: {count} {visible(reason)}")


def _fixed(old: StudyDefinition, new: StudyDefinition, fill: list[str]) -> dict[str, Any]:
    """The values given with `--fill`, as the parameter that has this name reads them."""
    from fidelium.cli.table_io import parse_value_of

    known, values = {**old.space.parameters, **new.space.parameters}, {}
    for text in fill:
        name, equals, value = text.partition("=")
        if not equals or name.strip() in values:
            raise SettingError(f"--fill must look like name=value, each name once, got {text!r}")
        parameter = known.get(name.strip())
        values[name.strip()] = value if parameter is None else parse_value_of(parameter, name.strip(), value)
    return values

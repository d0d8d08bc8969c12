"""Constraints on the outcomes of a run: named results beside the value, with limits at the target fidelity.

    stress <= 150e6        frequency >= 10        10 <= frequency <= 20

Constraints on the parameters, which are known before a run, are the search space's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fidelium.errors import SettingError
from fidelium.numbers import parse_decimal

RESERVED = frozenset(
    {
        *("value", "cost", "failed", "std", "params", "outcomes", "feasible"),  # of a result
        *("number", "state", "fidelity", "reason", "given", "attempt", "worker", "started", "finished"),  # of a table
        *("heartbeat", "measured_cost", "excluded", "note", "tags"),
    }
)
"""Names that no outcome may have: the other fields of a result, and the columns of tables."""

LONGEST_NAME = 80
"""Characters of an outcome's name."""

_NAME = re.compile(r"[^\W\d][\w.\-]*")
_SIDES = re.compile(r"\s*(<=|>=)\s*")
_OTHER = re.compile(r"[<>=!]+")


@dataclass(frozen=True)
class OutcomeConstraint:
    """The limits of one outcome, both included.

    Args:
        name: of the outcome.
        lower: the least value that is feasible, -inf if there is none.
        upper: the largest value that is feasible, inf if there is none.

    Raises:
        SettingError: if the name is not one of an outcome, there is no limit, or the limits contradict each other.
    """

    name: str
    lower: float = -math.inf
    upper: float = math.inf

    def __post_init__(self) -> None:
        check_outcome_name(self.name)
        if math.isnan(self.lower) or math.isnan(self.upper) or self.lower == math.inf or self.upper == -math.inf:
            raise SettingError(f"the limits of {self.name!r} must be finite numbers, got {self}")
        if math.isinf(self.lower) and math.isinf(self.upper):
            raise SettingError(f"a constraint on {self.name!r} needs a finite limit")
        if self.lower > self.upper:
            raise SettingError(
                f"the limits of {self.name!r} contradict each other: at least {self.lower!r} and at most {self.upper!r}"
            )
        if self.lower == self.upper:
            raise SettingError(
                f"{self.name!r} must be exactly {self.lower!r}, which no run will give; leave a range: "
                f"'low <= {self.name} <= high'"
            )

    def meets(self, value: float) -> bool:
        """Whether a value is feasible."""
        return self.lower <= value <= self.upper

    def violation(self, value: float) -> float:
        """How far a value is beyond its limit, in the outcome's units; 0 if it is feasible."""
        return max(self.lower - value, value - self.upper, 0.0)

    def margin(self, value: float) -> float:
        """How far a value is from the nearest limit, negative if it is infeasible."""
        return min(value - self.lower, self.upper - value)

    def limit_near(self, value: float) -> float:
        """The limit that is violated, or else nearest."""
        return self.lower if value - self.lower < self.upper - value else self.upper

    def __str__(self) -> str:
        if math.isinf(self.lower):
            return f"{self.name} <= {self.upper!r}"
        if math.isinf(self.upper):
            return f"{self.name} >= {self.lower!r}"
        return f"{self.lower!r} <= {self.name} <= {self.upper!r}"


def outcome_constraints(texts: object, parameters: Collection[str] = ()) -> tuple[OutcomeConstraint, ...]:
    """The constraints in these texts, one per outcome, in the order in which the outcomes are named first.

    Args:
        texts: such as `["stress <= 150e6", "10 <= frequency <= 20"]`; constraints as they are, too.
        parameters: names of the parameters, which no outcome may have.

    Raises:
        SettingError: if a text is not a constraint, or two of them contradict each other.
    """
    if isinstance(texts, (str, OutcomeConstraint)) or not isinstance(texts, Iterable) or isinstance(texts, Mapping):
        raise SettingError(f"constraints must be a list of texts such as ['stress <= 150e6'], got {texts!r}")
    found: dict[str, OutcomeConstraint] = {}
    for text in texts:
        one = text if isinstance(text, OutcomeConstraint) else _parsed(text)
        if one.name in parameters:
            raise SettingError(
                f"{one.name!r} in {str(text)!r} is a parameter; constraints on parameters go to "
                "SearchSpace(..., constraints=[...]), in study.yaml to parameter_constraints"
            )
        before = found.get(one.name, one)
        found[one.name] = OutcomeConstraint(one.name, max(one.lower, before.lower), min(one.upper, before.upper))
    return tuple(found.values())


def check_outcome_name(name: object) -> None:
    """Refuse what cannot be the name of an outcome.

    Raises:
        SettingError: if it is reserved, too long, or not a word.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise SettingError(
            f"the name of an outcome is a word of letters, digits, '_', '.' and '-' that starts with a letter, of at "
            f"most {LONGEST_NAME} characters, got {name!r}"
        )
    if name in RESERVED:
        raise SettingError(f"{name!r} is reserved, so an outcome cannot have this name; rename it")


def is_outcome_name(name: object) -> bool:
    """Whether this can be the name of an outcome."""
    try:
        check_outcome_name(name)
    except SettingError:
        return False
    return True


def failure_of(outcomes: Mapping[str, float], constraints: Iterable[OutcomeConstraint]) -> str | None:
    """Why a run that gave these outcomes counts as failed: a constrained one is missing or not finite; None if none."""
    for each in constraints:
        if each.name not in outcomes:
            given = ", ".join(outcomes) or "none"
            return f"the run gave no outcome {each.name!r}, which a constraint names; it gave {given}"
        if not math.isfinite(outcomes[each.name]):
            return f"the outcome {each.name!r}, which a constraint names, is {outcomes[each.name]}, not a finite number"
    return None


def _parsed(text: object) -> OutcomeConstraint:
    """The constraint of a text: `NAME <= number`, `NAME >= number`, `low <= NAME <= high`, either way round."""
    expected = f"expected 'NAME <= number', 'NAME >= number' or 'low <= NAME <= high', got {text!r}"
    if not isinstance(text, str):
        raise SettingError(expected)
    first, *rest = _SIDES.split(text.strip())
    operators, terms = rest[::2], [first, *rest[1::2]]
    if len(operators) not in (1, 2) or len(set(operators)) != 1 or any(_OTHER.search(term) for term in terms):
        raise SettingError(expected)
    if operators[0] == ">=":
        terms = terms[::-1]
    names = [position for position, term in enumerate(terms) if _limit(term) is None]
    if len(names) != 1 or (len(terms) == 3 and names != [1]):
        raise SettingError(expected)
    (at,) = names
    below = _limit(terms[at - 1]) if at else None
    above = _limit(terms[at + 1]) if at + 1 < len(terms) else None
    if any(limit is not None and math.isinf(limit) for limit in (below, above)):
        raise SettingError(f"a limit must be a finite number, got {text!r}")
    return OutcomeConstraint(terms[at], -math.inf if below is None else below, math.inf if above is None else above)


def _limit(term: str) -> float | None:
    """A number, `inf` or `-inf`; None for anything else."""
    if term.lower().lstrip("+-") in ("inf", "infinity"):
        return -math.inf if term.startswith("-") else math.inf
    return parse_decimal(term)

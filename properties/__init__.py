"""The claims ledger and the properties that check it.

A property is a pytest test. One of the article, about mathematics, a part or the reference, names
its claims; a check, which an audit runs on a subject, says all that is special about it:

    @claim("ATT-1", component="attention")
    def test_attention_is_its_formula(attention): ...

    @check("causality.perturb", "ATT-4", component="mask")
    def test_a_later_token_never_changes_an_earlier_logit(view): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    import pytest

Test = TypeVar("Test", bound=Callable[..., Any])
Level = Literal["fault", "hazard"]
Budget = Literal["quick", "standard", "thorough"]


def claim(*ids: str, component: str | None = None) -> pytest.MarkDecorator:
    """Mark a test as the property of one or more claims of the ledger.

    Args:
        ids: Claim ids, e.g. "ATT-4".
        component: The part that a failure accuses, one of the report's component names.
    """
    import pytest  # the ledger is read without it

    return pytest.mark.claim(*ids, component=component)


def check(
    name: str,
    *claims: str,
    component: str,
    views: tuple[str, ...] = (),
    level: Level = "fault",
    use: str | None = None,
    budget: Budget = "quick",
    gate: bool = False,
    rows: Literal["alone", "mixed"] = "alone",
) -> Callable[[Test], Test]:
    """Mark a test as a check of an audit. The arguments are literals: they are read unrun, too.

    Args:
        name: The check's id, e.g. "causality.perturb"; its file is called by the prefix.
        claims: The claims that it judges.
        component: The part that a failure accuses, one of the report's component names.
        views: The ways of running the subject in which it is asked; by default as given and
            sharpened, for a test that takes a `view`.
        level: "fault" for what is wrong as the subject is given and in the uses it offers; "hazard"
            for what goes wrong in a use that nobody has declared (`use`). A judgement that knows
            better says its own level.
        use: Of a hazard: the use in which it goes wrong, one of
            `theodolite.fixtures.subject.uses.USES`. Where that is declared or evidently meant, the
            hazard is a fault.
        budget: The smallest budget of an audit that pays for it: "standard" where it costs much
            and, of the known faults, others see nearly all that it sees.
        gate: Whether it runs before all others, since it says why they do not apply.
        rows: "mixed" if it is asked even where rows of a batch change each other.
    """
    import pytest  # the ledger is read without it

    mark = pytest.mark.claim(
        *claims,
        check=name,
        component=component,
        level=level,
        use=use,
        budget=budget,
        gate=gate,
        rows=rows,
    )

    def decorate(test: Test) -> Test:
        mark(test)
        if views:
            pytest.mark.parametrize("view", views, indirect=True)(test)
        if budget == "thorough":
            pytest.mark.slow(test)
        return test

    return decorate

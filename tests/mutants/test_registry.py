"""A mutant changes what it names, everywhere, and leaves nothing behind."""

import pytest
import torch

from theodolite.properties.mutants import Patch, load_hosts, load_mutants, mutant
from theodolite.reference import attention, averaging, model

MUTANTS = load_mutants()


def test_a_replacement_reaches_every_module_that_holds_the_name():
    original, stand_in = attention.causal_mask, object()
    patch = Patch()
    patch.replace(original, stand_in)
    assert attention.causal_mask is averaging.causal_mask is stand_in
    patch.undo()
    assert attention.causal_mask is averaging.causal_mask is original


def test_changes_are_undone_last_first():
    original = attention.MultiHeadAttention.forward
    patch = Patch()
    patch.method(attention.MultiHeadAttention, "forward", "once")
    patch.method(attention.MultiHeadAttention, "forward", "twice")
    patch.undo()
    assert attention.MultiHeadAttention.forward is original


def test_what_nothing_holds_cannot_be_mutated():
    with pytest.raises(LookupError, match="mutate something else"):
        Patch().replace(object(), None)
    with pytest.raises(LookupError, match="does not define 'attend_twice'"):
        Patch().method(attention.MultiHeadAttention, "attend_twice", None)
    with pytest.raises(LookupError, match="has no 'nothing'"):
        Patch().value(attention, "nothing", None)


def test_a_mutant_is_undone_when_a_check_fails_under_it():
    scores = attention.attention_scores
    chosen = next(each for each in MUTANTS if each.name == "no-scale")
    with pytest.raises(AssertionError), chosen.applied():
        assert attention.attention_scores is scores
    assert attention.attention_scores is scores


def test_all_mutants_leave_the_reference_as_it_was():
    ids = torch.arange(12).reshape(2, 6)
    torch.manual_seed(0)
    before = model.GPT()(ids)
    for each in MUTANTS:
        for host in each.hosts:
            with each.applied(host):
                pass
    torch.manual_seed(0)
    assert torch.equal(model.GPT()(ids), before)


def test_a_mutant_is_put_only_where_it_has_a_place():
    of_the_reference = next(each for each in MUTANTS if each.seam == "reference")
    other = next(host for host in load_hosts() if host.name != "reference")
    with pytest.raises(LookupError, match="cannot be put into"), of_the_reference.applied(other):
        pass


@pytest.mark.parametrize(
    ("name", "breaks", "fault", "said"),
    [
        ("no-scale", "SCL-5", "A fault.", "two mutants"),
        ("a-new-one", "", "A fault.", "names no claim"),
        ("a-new-one", "SCL-5", "", "no docstring"),
    ],
)
def test_a_mutant_that_says_too_little_is_refused(name, breaks, fault, said):
    def apply(patch):
        pass

    apply.__doc__ = fault
    with pytest.raises(ValueError, match=said):
        mutant(name, breaks, component="scale")(apply)

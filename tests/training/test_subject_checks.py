"""The training checks of a subject: who passes, who is caught, who is told why not."""

import pytest
import torch
from torch import nn

from theodolite.fixtures.judging.judgement import NotApplicable, PropertyFailure
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.checks import test_training as checks
from theodolite.reference import GPT, GPTConfig
from theodolite.reference.config import gpt2_style

CHECKS = {
    "smoke": checks.test_a_copy_of_the_subject_learns_which_token_follows_which,
    "leak": checks.test_no_training_on_uniform_tokens_gets_below_their_entropy,
}


def gpt(**shape):
    torch.manual_seed(0)
    return GPT(GPTConfig(**{"vocabulary": 31, "width": 32, "layers": 2, "heads": 2, **shape}))


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = gpt()

    def forward(self, ids):
        return self.inner(ids)


class DeadTrunk(Wrapped):
    """Every position's logits are the same learned vector."""

    def __init__(self):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(31))

    def forward(self, ids):
        return self.logits.expand(*ids.shape, 31) + 0 * self.inner(ids)


class ReadsTargets(Wrapped):
    """Its targets, meant for the loss, find their way into the logits."""

    def __init__(self):
        super().__init__()
        self.hint = nn.Embedding(31, 31)

    def forward(self, ids, targets=None):
        logits = self.inner(ids)
        if targets is None:
            return logits[:, -1:], None
        return logits + self.hint(targets), logits.mean()


class Detached(Wrapped):
    def forward(self, ids):
        with torch.no_grad():
            return self.inner(ids)


HONEST = {
    "reference": gpt,
    "one layer": lambda: gpt(layers=1),
    "small weights": lambda: gpt(initial_std=0.02),
    "tied": lambda: gpt(tied=True),
    "large weights": lambda: gpt(initial_std=1.0),
    "no positions": lambda: gpt(positions="none"),
    "post-norm": lambda: gpt(placement="post"),
    "gpt2": lambda: GPT(gpt2_style(vocabulary=31)),
    "half precision": lambda: gpt().to(torch.bfloat16),
    "small vocabulary": lambda: gpt(vocabulary=5),
    "short": lambda: gpt(context=4),
}


@pytest.mark.parametrize("make", HONEST.values(), ids=HONEST)
def test_an_honest_model_passes_both_and_stays_as_it_was(make):
    model = make()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    subject = Subject.load(model)
    CHECKS["smoke"](subject)
    CHECKS["leak"](subject)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name]), name
    assert all(weight.grad is None for weight in model.parameters())


def test_both_are_cheap():
    subject = Subject.load(gpt(initial_std=0.02))
    before = subject.passes
    CHECKS["smoke"](subject)
    assert subject.passes - before <= 60
    before = subject.passes
    CHECKS["leak"](subject)
    assert subject.passes - before == 60


def test_a_model_whose_logits_ignore_the_token_is_caught():
    with pytest.raises(PropertyFailure, match="does not learn which token") as failure:
        CHECKS["smoke"](Subject.load(DeadTrunk()))
    assert failure.value.judgement.cause == "does-not-learn"


def test_a_model_that_reads_its_targets_is_caught():
    with pytest.raises(PropertyFailure, match="know the token that comes next") as failure:
        CHECKS["leak"](Subject.load(ReadsTargets()))
    assert failure.value.judgement.cause == "answer-leaks"


def frozen():
    return gpt().requires_grad_(requires_grad=False)


UNTRAINABLE = {
    "frozen": (frozen, "no parameter takes a gradient"),
    "detached": (Detached, "no gradient reaches the parameters"),
    "two tokens": (lambda: gpt(vocabulary=2), "too small to make up a language"),
}


@pytest.mark.parametrize(("make", "reason"), UNTRAINABLE.values(), ids=UNTRAINABLE)
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_what_cannot_be_trained_is_told_why(make, reason, check):
    subject = Subject.load(make())
    with pytest.raises(NotApplicable, match=reason):
        check(subject)

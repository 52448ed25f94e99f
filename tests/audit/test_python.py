"""``theodolite.audit`` from Python: live models, state left as it was, the same verdict again."""

import copy

import pytest
import torch
from torch import nn

import theodolite
from theodolite.fixtures.errors import SubjectError, UsageError
from theodolite.reference import GPT, GPTConfig

SMALL = GPTConfig(vocabulary=29, width=24, layers=2, heads=4, context=32)


def test_a_live_model_passes_and_is_left_as_it_was():
    torch.manual_seed(3)
    model = GPT(SMALL).train()
    model.blocks[0].eval()
    before = copy.deepcopy(model.state_dict())
    flags = [module.training for module in model.modules()]
    generator, threads = torch.get_rng_state(), torch.get_num_threads()
    report = theodolite.audit(model)
    report.raise_for_failures()
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert flags == [module.training for module in model.modules()]
    assert torch.equal(generator, torch.get_rng_state())
    assert threads == torch.get_num_threads()
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_same_subject_gives_the_same_report():
    first, again = (theodolite.audit("reference", budget="quick").to_dict() for _ in range(2))
    for report in (first, again):
        report.pop("cost")
        for check in report["checks"]:
            check.pop("seconds")
    assert first == again


def test_failures_raise_with_their_messages():
    class Future(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(13, 13)

        def forward(self, ids):
            x = self.embedding(ids)
            return x + x.mean(1, keepdim=True)

    report = theodolite.audit(Future(), select="causality")
    with pytest.raises(AssertionError, match="Changing later tokens changes the logits"):
        report.raise_for_failures()
    first = report.failures[0]
    assert first.happened.startswith("Changing later tokens changes the logits")
    assert first.message.startswith(first.happened)
    assert "causality.perturb" in report._repr_html_()


def test_a_live_model_that_gives_no_logits_is_refused_in_a_sentence():
    with pytest.raises(SubjectError, match="logits"):
        theodolite.audit(nn.Embedding(5, 3).requires_grad_(False) and nn.Flatten())


def test_what_cannot_be_declared_is_refused():
    with pytest.raises(UsageError, match="colour"):
        theodolite.audit("reference", declare={"colour": "red"})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_model_in_another_dtype_passes(dtype):
    torch.manual_seed(0)
    report = theodolite.audit(GPT(SMALL).to(dtype))
    assert report.verdict == "pass", [check.message for check in report.failures]


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "learned", "norm": "layernorm", "feed_forward": "gelu", "bias": True},
        {"positions": "sinusoidal", "placement": "post"},
        {"kv_heads": 2, "qk_norm": True, "rotary_pairing": "half"},
        {"attention_softcap": 20.0, "logit_softcap": 30.0, "tied": True},
        {"fused": True, "layers": 1, "heads": 1},
        {"positions": "none"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_every_style_of_the_reference_passes(changes):
    shape = {"vocabulary": 29, "width": 24, "layers": 2, "heads": 4, "context": 32, **changes}
    torch.manual_seed(0)
    report = theodolite.audit(GPT(GPTConfig(**shape)))
    assert report.verdict == "pass", [check.message for check in report.failures]

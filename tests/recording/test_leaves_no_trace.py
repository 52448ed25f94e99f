"""After a recording, torch and the model are as they were, also when the forward raises."""

import copy

import pytest
import torch
from torch.nn.modules import module as hooks
from torch.overrides import _len_torch_function_stack
from torch.utils._python_dispatch import _len_torch_dispatch_stack

from theodolite.fixtures.recording.amplify import amplified_scores
from theodolite.fixtures.recording.recorder import record


def state_of_torch():
    return (
        _len_torch_function_stack(),
        _len_torch_dispatch_stack(),
        len(hooks._global_forward_hooks),
        len(hooks._global_forward_pre_hooks),
        len(hooks._global_forward_hooks_with_kwargs),
        len(hooks._global_forward_hooks_always_called),
        torch.nn.functional.multi_head_attention_forward,
        torch.nn.functional.scaled_dot_product_attention,
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )


def fused(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def vmapped(q, k, v):
    return torch.vmap(lambda q, k, v: (q @ k.mT).softmax(-1) @ v)(q, k, v)


@pytest.mark.parametrize("attend", [fused, vmapped])
def test_a_recording_changes_nothing(attend, one_layer, ids):
    model = one_layer(attend)
    before, weights = state_of_torch(), copy.deepcopy(model.state_dict())
    random, given = torch.get_rng_state(), ids.clone()
    record(model, lambda: model(ids))
    with amplified_scores(8.0):
        model(ids)
    assert state_of_torch() == before
    assert torch.get_rng_state().equal(random)
    assert ids.equal(given)
    assert all(model.state_dict()[name].equal(weights[name]) for name in weights)
    assert all(not module._forward_hooks for module in model.modules())


def test_a_forward_that_raises_leaves_nothing_behind(one_layer, ids):
    def attend(q, k, v):
        fused(q, k, v)
        raise ValueError("no")

    model, before = one_layer(attend), state_of_torch()
    with pytest.raises(ValueError, match="no"):
        record(model, lambda: model(ids))
    with pytest.raises(ValueError, match="no"), amplified_scores(8.0):
        model(ids)
    assert state_of_torch() == before

"""The worked example at the top of the tracker is what really happens."""

import torch
import torch.nn.functional as F
from torch import nn

from theodolite.fixtures.recording.function_mode import FunctionMode
from theodolite.fixtures.recording.lineage import descent


def test_the_graph_of_five_lines_is_the_one_that_is_drawn():
    torch.manual_seed(0)
    x = torch.randn(1, 2, 5, 4)
    w_q, w_k, w_v = (nn.Parameter(torch.randn(4, 4)) for _ in range(3))
    mode = FunctionMode(None)
    with mode:
        q, k, v = F.linear(x, w_q), F.linear(x, w_k), F.linear(x, w_v)
        s = q @ k.mT / 2
        p = s.softmax(-1)
        o = p @ v
    node = mode.tracker.graph.node
    assert [each.name for each in (node(q), node(s), node(p), node(o))] == [
        "linear",
        "div",
        "softmax",
        "matmul",
    ]
    assert node(q).barrier
    assert node(s).factor == 0.5
    (product, *_) = node(s).parents
    assert [parent.name for parent in product.parents] == ["linear", "mT"]
    origin = descent(node(p))
    assert origin.product is product
    assert origin.softmax is node(p)
    (call,) = mode.tracker.calls()
    assert torch.equal(call.output, o)
    assert torch.equal(call.query, q)

"""Linear layers through oneDNN, where torch has it: the same products, on some CPUs much faster.

On a CPU torch multiplies float32 matrices with MKL, which runs well on the CPUs of its own maker
and at about half of what others can do. oneDNN comes with torch too and treats both alike. Results
differ as two orders of summation do, by rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


def fast_products() -> contextlib.AbstractContextManager[Any]:
    """Inside this context, float32 linear layers without a bias run through oneDNN on a CPU.

    It changes nothing where torch was built without oneDNN, for other dtypes, or elsewhere than on
    a CPU.
    """
    available = torch.backends.mkldnn.is_available() and hasattr(
        torch.ops.mkldnn, "_linear_pointwise"
    )
    return _LinearByOneDNN() if available else contextlib.nullcontext()


class _LinearByOneDNN(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is F.linear and _is_plain(*args, **(kwargs or {})):
            return _product(*args[:2])
        return func(*args, **(kwargs or {}))


def _is_plain(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
    on_cpu = x.device.type == weight.device.type == "cpu"
    return bias is None and on_cpu and x.dtype == weight.dtype == torch.float32


@torch.library.custom_op("theodolite::product", mutates_args=())
def _product(x: Tensor, weight: Tensor) -> Tensor:
    """X (..., C) times weight (D, C) transposed: (..., D)."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
    return result


@_product.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0])


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs)


def _backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    x, weight = context.saved_tensors
    rows = gradient.flatten(0, -2)  # (..., D) -> (N, D)
    by_x = _product(gradient, weight.t())  # (..., D) @ (D, C) -> (..., C)
    by_weight = _product(rows.t(), x.flatten(0, -2).t())  # (D, N) @ (N, C) -> (D, C)
    return by_x, by_weight


_product.register_autograd(_backward, setup_context=_keep)

"""Characters a second in training, side by side: an article's script, the reference, and llama.

Usage:
    python benchmarks/training.py [--article gpt.py] [--threads 2] [--rounds 10] [--compile]

All cases have one shape (74 symbols, width 128, 4 layers of 4 heads, d_ff 344) and one batch (32
windows of 128), and take turns within a round, so that whatever else the machine does weighs on
all. A ratio is the median over rounds of the first case's seconds over this one's.

``--article`` names a file that defines ``GPT(vocab)`` as the article prints it; it is trained as
the article's script does. llama runs where transformers is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from theodolite.fixtures.oracles.corpus import story
from theodolite.reference import GPT, GPTConfig
from theodolite.reference.products import fast_products
from theodolite.reference.training import Trainer, windows

V, BATCH, CONTEXT = 74, 32, 128
TOKENS = BATCH * CONTEXT

Update = Callable[[], object]


def text() -> Tensor:
    """Ids below V of the shipped story."""
    characters = sorted(set(story()))
    return torch.tensor([characters.index(symbol) for symbol in story()])


def article(file: Path, data: Tensor) -> Update:
    """One step as the article's script takes it."""
    spec = importlib.util.spec_from_file_location("article_gpt", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.GPT(V)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def update() -> None:
        starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,))
        x = torch.stack([data[i : i + CONTEXT] for i in starts])
        y = torch.stack([data[i + 1 : i + CONTEXT + 1] for i in starts])
        _, loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return update


def reference(
    data: Tensor,
    *,
    table: bool = True,
    fused: bool = True,
    fused_optimizer: bool = True,
    fast: bool = True,
    compiled: bool = False,
) -> Update:
    """One step of the reference's trainer, with some of its means or all."""
    model = GPT(GPTConfig(vocabulary=V, context=CONTEXT if table else None, fused=fused))
    trainer = Trainer(model, windows(data, BATCH, CONTEXT), fast=fast, compiled=compiled)
    if not fused_optimizer:
        trainer.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    return trainer.update


def llama(data: Tensor) -> Update:
    """One step of Hugging Face's llama, by the plainest loop."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=V,
        hidden_size=128,
        intermediate_size=344,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=CONTEXT,
        use_cache=False,
    )

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = LlamaForCausalLM(config)

        def forward(self, ids: Tensor) -> Tensor:
            logits: Tensor = self.model(input_ids=ids).logits
            return logits

    trainer = Trainer(Logits(), windows(data, BATCH, CONTEXT))
    trainer.optimizer = torch.optim.AdamW(trainer.model.parameters(), lr=3e-3)
    return trainer.update


clock: Callable[[], float] = time.perf_counter


def seconds(update: Update, times: int) -> float:
    """Seconds that one of `times` updates takes on average."""
    began = clock()
    for _ in range(times):
        update()
    return (clock() - began) / times


def product_rates() -> dict[str, float]:
    """The best of many products of the feed-forward's own shape, in FLOP/s, by MKL and oneDNN."""
    x, layer = torch.randn(TOKENS, 128), nn.Linear(128, 344, bias=False)
    flops = 2 * x.numel() * 344
    rates = {"MKL": flops / min(seconds(lambda: layer(x), 5) for _ in range(20))}
    with fast_products():
        rates["oneDNN"] = flops / min(seconds(lambda: layer(x), 5) for _ in range(20))
    return rates


def step_flops() -> float:
    """FLOPs of a step: 6 for each weight that multiplies, 12·T·C a layer for attention, a token."""
    model = GPT(GPTConfig(vocabulary=V))
    multiplying = sum(w.numel() for w in model.parameters() if w.dim() == 2) - V * 128
    return TOKENS * (6.0 * multiplying + 12.0 * CONTEXT * 128 * 4)


def main() -> None:
    """Run every case in turn, `--rounds` times, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--article", type=Path, metavar="FILE", help="file that defines GPT(vocab)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=3, help="updates of each case in a round")
    parser.add_argument("--compile", action="store_true", help="compiled cases too")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count this process's CPU seconds on one thread: for a machine that is busy besides",
    )
    arguments = parser.parse_args()
    if arguments.cpu_time:
        global clock
        clock, arguments.threads = time.process_time, 1
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    data = text()
    plain = {"table": False, "fused": False, "fused_optimizer": False, "fast": False}
    cases: dict[str, Update] = {}
    if arguments.article is not None:
        cases["the article's script"] = article(arguments.article, data)
    cases["reference, as the article"] = reference(data, **plain)
    for means in ("table", "fused", "fused_optimizer", "fast"):
        plain[means] = True
        cases[f"  + {means}"] = reference(data, **plain)
    if arguments.compile:
        cases["compiled, without fast"] = reference(data, fast=False, compiled=True)
        cases["compiled"] = reference(data, compiled=True)
    if importlib.util.find_spec("transformers") is not None:
        cases["llama (transformers)"] = llama(data)
    for update in cases.values():
        seconds(update, 2)
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(arguments.rounds):
        for name, update in cases.items():
            times[name].append(seconds(update, arguments.steps))
    rates = product_rates()
    first = next(iter(times.values()))
    print(f"{'':28}{'char/s':>9}{'best':>9}{'ratio':>7}{'GFLOP/s':>9}")
    for name, taken in times.items():
        ratio = statistics.median(a / b for a, b in zip(first, taken, strict=True))
        print(
            f"{name:28}{TOKENS / statistics.median(taken):9,.0f}{TOKENS / min(taken):9,.0f}"
            f"{ratio:7.2f}{step_flops() / min(taken) / 1e9:9.0f}"
        )
    print("products of this shape: " + ", ".join(f"{k} {v / 1e9:.0f}" for k, v in rates.items()))
    print(f"a step: {step_flops() / 1e9:.1f} GFLOP; threads: {arguments.threads}")


if __name__ == "__main__":
    main()

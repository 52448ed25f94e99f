"""Subjects with bad manners, written from a small right model and what each does wrong, and when.

A manner is a few lines that run in the constructor, in every forward, or from some forward on; or
that take the logits, or the finished model, and give back something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

MODEL = """
import ctypes, os, signal, sys, threading, time, warnings
import torch
from torch import nn
{top}

class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.mix = nn.Linear(width, width)
        self.wide = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(split).transpose(1, 2) for t in self.to_qkv(self.before(x)).chunk(3, -1))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.wide(self.after(x))


class Small(nn.Module):
    def __init__(self, vocabulary=29, width=24, heads=3, layers=2, longest=48):
        super().__init__()
        {built}
        self.calls = 0
        self.longest = longest
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(longest, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def plain(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.head(self.norm(self.layers(self.tokens(ids) + self.places(places))))

    def forward(self, ids):
        self.calls += 1
        if self.calls > {late}:
            {does}
        logits = self.plain(ids)
        return {gives}


def make():
    model = Small()
    return {made}
"""

LATE = 25
"""The forward after which a manner shows that shows late: loading takes about ten."""


@dataclass(frozen=True)
class Subject:
    """A subject: its file, the exit statuses that may be right, and words of the sentence."""

    id: str
    text: str
    statuses: frozenset[int]
    says: str = ""


def subject(name, *, statuses, says="", late=None, **parts):
    filled = {"top": "", "built": "pass", "does": "pass", "gives": "logits", "made": "model"}
    filled |= {part: text.replace("\n", "\n        ") for part, text in parts.items()}
    filled["does"] = parts.get("does", "pass").replace("\n", "\n            ")
    filled["top"] = parts.get("top", "")
    text = MODEL.format(late=0 if late is None else late, **filled)
    return Subject(name, text, frozenset(statuses), says)


ENDS = {
    # what ends or stops a process: the lines, words of the sentence
    "exit": ("sys.exit(0)", "SystemExit"),
    "os_exit": ("os._exit(0)", "exit status 0"),
    "os_exit_3": ("os._exit(3)", "exit status 3"),
    "abort": ("os.abort()", "SIGABRT"),
    "segfault": ("ctypes.string_at(0)", "SIGSEGV"),
    "sigterm": ("os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM"),
    "sigkill": ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    "sigint": ("os.kill(os.getpid(), signal.SIGINT)", ""),
    "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "sleep": ("while True: time.sleep(0.1)", "did not return"),
    "spin": ("while True: pass", "did not return"),
    "deaf": (
        "while True:\n    try: time.sleep(0.1)\n    except BaseException: pass",
        "did not return",
    ),
    "hog": ("junk = torch.ones(40 * 2**28)", "memory"),
    "creep": ("sys.modules.setdefault('kept', []).append(torch.ones(2**26))", "memory"),
    "generator_exit": ("raise GeneratorExit", ""),
    "stop": ("raise StopIteration", "StopIteration"),
    "recursion": ("self.forward(ids)", "RecursionError"),
}

SAYS = {
    # exceptions that are not what they seem, or cannot be shown
    "skip": ("import pytest; pytest.skip('nothing to see')", "nothing to see"),
    "xfail": ("import pytest; pytest.xfail('known')", "known"),
    "pytest_exit": ("import pytest; pytest.exit('enough')", "enough"),
    "unittest_skip": ("import unittest; raise unittest.SkipTest('later')", "later"),
    "assume": ("import hypothesis; hypothesis.reject()", "UnsatisfiedAssumption"),
    "surrogate": ("raise ValueError('\\ud800 [/bold] \\x1b[31m \\x00')", "ValueError"),
    "long": ("raise ValueError('z' * 100_000)", "ValueError"),
    "unprintable": (
        "class Odd(Exception):\n    def __str__(self): raise RuntimeError\nraise Odd",
        "Odd",
    ),
    "empty": ("raise Exception", "Exception"),
}

TRACES = {
    # what a forward leaves behind: the lines, words of the finding
    "seeds": ("torch.manual_seed(0)", "seed the random generators"),
    "keeps": ("self.__dict__.setdefault('kept', []).append(ids)", "grows with every call"),
    "keeps_globally": ("KEPT.append(ids)", "grows with every call"),
    "default_dtype": ("torch.set_default_dtype(torch.float64)", "default dtype"),
    "gradients_off": ("torch.set_grad_enabled(False)", "gradient mode"),
    "deterministic": ("torch.use_deterministic_algorithms(True)", "deterministic algorithms"),
    "chdir": ("os.chdir('/')", "working directory"),
    "environment": ("os.environ['SMALL'] = 'yes'", "environment"),
    "writes": ("open('dump.bin', 'wb').close()", "writes no file"),
}

HARMLESS = {
    "closes_streams": "sys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
    "prints": "print('\\ud800', '[/]', 'x' * 10_000); warnings.warn('beware')",
    "threads": "if self.calls < 3: threading.Thread(target=time.sleep, args=[10**6]).start()",
    "deaf_to_signals": "signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "counts": "self.total = self.__dict__.get('total', 0) + 1",
}

KINDS = {
    # what is no table of logits: what forward gives, or the factory; statuses; words
    "softmax": ("logits.softmax(-1)", {1}, "gives probabilities, not logits"),
    "integers": ("(logits * 1000).long()", {3}, "int64"),
    "complex": ("logits.to(torch.complex64)", {3}, "complex64"),
    "sparse": ("logits.to_sparse()", {3}, "sparse"),
    "text": ("'logits'", {3}, "str"),
    "nothing": ("None", {3}, "None"),
    "nan_sometimes": ("logits if self.calls % 17 else logits * float('nan')", {1}, ""),
    "no_grad": ("logits.detach()", {1}, "carry no gradient"),
    "log_softmax": ("logits.log_softmax(-1)", {0}, ""),
}

MODELS = {
    "meta": ("model.to('meta')", {3}, ""),
    "lazy": ("nn.Sequential(model, nn.LazyLinear(29))", {0, 1, 3, 4}, ""),
    "traced": (
        "torch.jit.trace(model.eval(), torch.zeros(2, 9, dtype=torch.long))",
        {0, 1, 3, 4},
        "",
    ),
    "parametrised": (
        "torch.nn.utils.parametrizations.weight_norm(model.head) and model",
        {0, 1, 4},
        "",
    ),
    "data_parallel": ("nn.DataParallel(model)", {0, 1, 4}, ""),
    "inference_weights": ("torch.inference_mode()(Small)()", {3}, "inference_mode"),
    "a_list": ("[1, 2]", {3}, "not a torch.nn.Module"),
}


def every_subject():
    """All of them: each manner at once, late, and where it fits in the constructor."""
    for name, (lines, says) in ENDS.items():
        yield subject(f"{name}_late", does=lines, late=LATE, statuses={1, 4}, says=says)
        yield subject(f"{name}_at_once", does=lines, statuses={1, 3, 4}, says=says)
        built = lines.replace("self.forward(ids)", "self.__init__()")
        yield subject(f"{name}_built", built=built, statuses={3, 4}, says="")
    for name, (lines, says) in SAYS.items():
        yield subject(f"{name}_late", does=lines, late=LATE, statuses={1}, says=says)
        yield subject(f"{name}_at_once", does=lines, statuses={3}, says=says)
        yield subject(f"{name}_built", built=lines, statuses={3}, says="")
    for name, (lines, says) in TRACES.items():
        yield subject(name, does=lines, top="KEPT = []", statuses={1}, says=says)
    for name, lines in HARMLESS.items():
        yield subject(name, does=lines, statuses={0})
    for name, (gives, statuses, says) in KINDS.items():
        yield subject(name, gives=gives, statuses=statuses, says=says)
    for name, (made, statuses, says) in MODELS.items():
        yield subject(name, made=made, statuses=statuses, says=says)
    for end, trace in product(("os_exit", "segfault"), ("chdir", "default_dtype")):
        both = f"{TRACES[trace][0]}\nif self.calls > {LATE}: {ENDS[end][0]}"
        yield subject(f"{end}_and_{trace}", does=both, statuses={1, 4}, says="")


SUBJECTS = {each.id: each for each in every_subject()}

FEW = (
    "os_exit_late", "segfault_at_once", "hog_late", "skip_late", "surrogate_late",
    "closes_streams", "no_grad",
)  # fmt: skip
"""One of each kind, for the ordinary run of the tests."""

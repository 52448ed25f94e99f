"""A generator of malformed command lines: right ones, each with a mistake or two put in."""

from dataclasses import dataclass, field
from random import Random

from theodolite.fixtures.subject.declarations import DECLARABLE

MODEL = """
import torch
from torch import nn

SIZE = 3


def helper():
    return "no model"


class Good(nn.Module):
    def __init__(self, vocab_size=11, bias=True):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, 8)
        self.head = nn.Linear(8, vocab_size, bias=bias)

    def forward(self, ids):
        return self.head(self.embedding(ids))


class Broken(Good):
    def __init__(self):
        raise RuntimeError("no\\nway")


class Mute(Good):
    def forward(self, ids):
        raise ValueError


class Needy(Good):
    def __init__(self, wibble):
        super().__init__()
"""

COMMANDS = ("audit", "inspect", "claims", "mutants", "train")

SUBJECTS = (
    "", " ", "\t", ":", "::", "-", ".", "..", "/", "mine", "mine/README.md", "model",
    "model.py:Goood", "model.py:", "model.py:helper", "model.py:SIZE", "model.py:Broken",
    "model.py:Mute", "model.py:Needy", "model.py:Good.forward", "model.py:Good.nothing",
    "model.py:Good:Good",
    "model.py:1", "model.py:Go od", "model.pi:Good", "nowhere.py:Good", "nowhere/model.py:Good",
    "no.such.package:GPT", "torch:nn", "os:getcwd", "os:sep", "a:b:c", ":Good", "hf:", "hf:nothing",
    "hf:mine", "hf:/nowhere", "HF:llama", "x" * 5000, "x" * 300 + ".py:Good", "\udcff.py:Good",
    "mode\0l.py:Good", "Ω.py:Ω", "*", "*.py", "**/*.py:Good", "~/model.py:Good", "model.py:Good ",
    "refrence", "Reference", "python -m theodolite", "--", "model.py:Good\nmodel.py:Good",
)  # fmt: skip

_TEXTS = (
    "",
    " ",
    "x",
    "-",
    "None",
    "1,2",
    "[",
    "{}",
    "\0",
    "é",
    "\udcff",
    "x" * 3000,
    "'",
    "$HOME",
)
_NO_FILES = (
    "",
    "mine",
    "nowhere/report",
    "model.py/report",
    "a\0b",
    "y" * 300,
    ".",
    "/",
    "model.py",
)

VALUES = {
    "--time-limit": (
        "", "x", "inf", "-inf", "nan", "0", "-1", "1e999", "1e10", "1s", "1,5", "None", "0x1",
    ),
    "--budget": ("", "quik", "QUICK", "quick standard", "1", "None", "standard "),
    "--select": ("", " ", "*", ".", "causality.", "causality.pertrub", "ROPE-", "ROPE-99", "rope-4",
                 "AVG-1", "causality,batch", "test_rope.py", "[", "\udcff"),
    "--skip": ("", "nothing", "causality.*", "cache.stps", "ATT4"),
    "-k": ("", "(", "a or", "and", "not", "rope[0]", "f(x)", "a b", "a == b", "\0", "lambda: 1",
           "1 +", "no_check_is_called_this", "(" * 500),
    "--keyword": ("not (", "x if y else z", "rope; cache", "rope and not rope"),
    "--audit-limit": ("", "0", "-3", "inf", "nan", "1h"),
    "--memory-limit": ("", "0", "-1", "nan", "8GiB", "None"),
    "--durations": ("", "x", "-1", "1.5", "1e3", "all"),
    "--json": _NO_FILES,
    "--junit": _NO_FILES,
    "--reproduce": ("", "mine", "model.py", ".", "..", "/", "model.py/x", "a\0b"),
    "--set": ("", "=", "=1", "vocab_size", "a..b=1", ".=1", "bias=FALSE", "bias=[1", "bias={",
              "vocab_size='1"),
}  # fmt: skip
"""Option → values that it cannot have."""

SETTINGS = (
    "nonsense=1", "bias=no", "vocab_size=word", "vocab_size=-3", "vocab_size=[1, 2]",
    "config.nothing=1", "vocab_siz=11", "Bias=True", "\0=1", "vocab_size.x=1",
)  # fmt: skip
"""Settings that the model of `MODEL` does not take."""

_COUNTS = ("0", "-1", "1.5", "x", "[]", "true", "'3'", "[3, 4]x", "NaN")
_NUMBERS = ("0", "-1", "x", "NaN", "Infinity", "-Infinity", "[]", "true", "{}", "[1, x]", "'1'")
_NUMBER_KEYS = ("scale", "soft_cap", "rope_base", "rope_frequencies", "rope_magnitude", "norm_eps")
_WORDS = ("", "x", "1", "[]", "{}", "true", "['x']", "Rms")

PROJECTS = (
    "[tool.theodolite", "tool = 1\n[tool.theodolite]", "[tool]\ntheodolite = 'x'", "\0", "é = 1",
    "[tool.theodolite]\nsubjct = 'reference'", "[tool.theodolite]\nsubject = ''",
    "[tool.theodolite]\nsubject = ['model.py:Good']", "[tool.theodolite]\nset = 'x=1'",
    "[tool.theodolite]\nset = { 'a..b' = 1 }", "[tool.theodolite]\ndeclare = { heads = 0 }",
    "[tool.theodolite]\ndeclare = { longest = 1979-05-27 }", "[tool.theodolite]\ntime-limit = nan",
    "[tool.theodolite]\ntime-limit = -1", "[tool.theodolite]\nbudget = 1",
    "[tool.theodolite]\nselect = 'causalty'", "[tool.theodolite]\nskip = [[]]",
    "[tool.theodolite]\ndurations = 1.5", "[tool.theodolite]\nlist = 1",
    "[tool.theodolite]\nfail-fast = 'true'", "[tool.theodolite]\njson = 'nowhere/x'",
    "[tool.theodolite]\nreproduce = 'mine'", "[tool.theodolite]\nkeyword = '('",
    "[tool.theodolite]\nexpected-failures = []",
    "[tool.theodolite.expected-failures]\n'causality' = 'x'",
    "[tool.theodolite.expected-failures]\n'causality.past' = 1",
    "[tool.theodolite]\n[tool.theodolite]", "[tool.theodolite]\nset = { x = \"\\q\" }",
    "[tool.theodolite]\n" + "x = " + "[" * 2000,
)  # fmt: skip

ARGUMENTS = {
    "claims": (["nothing"], ["ROPE-99"], ["rope-4"], [""], ["--json", "mine"], ["--josn", "x"],
               ["ROPE", "ATT"], ["--json"], ["\0"], ["\udcff"], ["x" * 3000], ["cache."]),
    "mutants": (["no-scal", "--list"], ["--host", "bert"], ["--component", "x", "--list"],
                ["--jobs", "0"], ["--jobs", "x"], ["--jobs"], ["--json", "nowhere/x", "--list"],
                ["--once=1"], ["no-scale", "--hots", "nano"], [""]),
    "train": ([], ["nowhere.txt"], ["mine"], ["model.py", "--steps", "0"],
              ["model.py", "--lr", "x"],
              ["model.py", "--set", "x"], ["model.py", "--curve", "x.doc"], ["model.py", "a"],
              ["model.py", "--json", "model.py"], ["model.py", "--log", "nowhere/x"], ["\0"],
              ["x" * 5000], ["model.py", "--seed", "-1"], ["model.py", "--set", "layers=0"],
              ["model.py", "--set", "norm=FALSE"], ["model.py", "--device", "nothing"],
              ["model.py", "--prompt", ""], ["model.py", "--checkpoint", "model.py"]),
}  # fmt: skip


@dataclass
class Line:
    """A command line that cannot be carried out, and the project's file that lies beside it."""

    words: list[str]
    project: str | None = None
    mistakes: list[str] = field(default_factory=list)

    def __str__(self):
        shown = " ".join(word if word.isidentifier() else ascii(word[:40]) for word in self.words)
        return shown if self.project is None else f"{shown} < {self.project[:60]!a}"


def lines(count, seed=0, *, loading=True):
    """`count` malformed command lines, the same for the same seed, each kind of mistake in turn.

    Args:
        count: How many.
        seed: Another one gives others.
        loading: Whether there are mistakes among them that show only when a model is loaded, which
            takes a process of its own.
    """
    random = Random(seed)
    kinds = [_value, _declaration, _option, _project, _value, _command, _other]
    if loading:
        kinds += [_subject, _setting, _many]
    return [kinds[number % len(kinds)](random) for number in range(count)]


def prepare(folder):
    """The files that the lines speak of."""
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    (folder / "mine").mkdir()
    (folder / "mine" / "README.md").write_text("mine", encoding="utf-8")


def _right(random, without=()):
    """Options that are right, but for those of `without`."""
    choices = {
        "--set": ["--set", "vocab_size=13"], "--declare": ["--declare", "longest=32"],
        "--budget": ["--budget", "quick"], "--time-limit": ["--time-limit", "20"],
        "--select": ["--select", "shape"], "--skip": ["--skip", "cache"], "-k": ["-k", "shape"],
        "--explore": ["--explore"], "--fail-fast": ["--fail-fast"], "--json": ["--json", "-"],
        "--durations": ["--durations", "3"], "--as-configured": ["--no-as-configured"],
    }  # fmt: skip
    taken = random.sample(sorted(set(choices) - set(without)), random.choice((0, 0, 1, 2)))
    return [choices[name] for name in taken]


def _joined(random, command, parts, last=()):
    random.shuffle(parts)
    return Line([command, *(word for part in parts for word in part), *last])


def _subject(random):
    subject = random.choice(SUBJECTS)
    if subject.startswith("-"):
        return _joined(random, "audit", _right(random), ["--", subject, "x"])
    return _joined(random, "audit", [[subject], *_right(random, without=["--set"])])


def _mistaken(random):
    option = random.choice(sorted(VALUES))
    value = random.choice(VALUES[option])
    joined = option.startswith("--") and random.random() < 0.5
    return option, [f"{option}={value}"] if joined or value.startswith("-") else [option, value]


def _value(random):
    option, words = _mistaken(random)
    without = [option, "-k" if option == "--keyword" else ""]
    return _joined(random, "audit", [["model.py:Good"], words, *_right(random, without)])


def _setting(random):
    words = [["model.py:Good"], ["--set", random.choice(SETTINGS)]]
    return _joined(random, "audit", [*words, *_right(random, ["--set"])])


def _declaration(random):
    key = random.choice([*DECLARABLE, "windw", "", "Heads", "rope base"])
    if key in _NUMBER_KEYS:
        value = random.choice(_NUMBERS)
    elif key in ("layout", "profile", "positions", "norm", "placement", "activation", "targets"):
        value = random.choice(_WORDS)
    else:
        value = random.choice(
            _COUNTS[:2] if key == "heads" else ("x y", "[]", "{}", "null!", "1.5")
        )
    command = random.choice(("audit", "audit", "inspect"))
    right = _right(random, ["--declare"]) if command == "audit" else []
    return _joined(random, command, [["model.py:Good"], ["--declare", f"{key}={value}"], *right])


def _option(random):
    known = [name for name in VALUES if name != "-k"]
    name = random.choice(known)
    at = random.randrange(3, len(name))
    wrong = random.choice((
        f"{name[:at]}{name[at + 1 :]}x", f"{name}s", name[1:], name.upper(), f"--no{name[1:]}",
        name[: max(at, 4)] + "_" + name[at:], "--", "-z", "---", f"{name[:4]}?",
    ))  # fmt: skip
    if random.random() < 0.3:
        return _joined(random, "audit", [["model.py:Good"], *_right(random, [name])], [name])
    return _joined(random, "audit", [["model.py:Good"], [wrong, "x", "y"], *_right(random)])


def _project(random):
    line = _joined(random, random.choice(("audit", "audit", "inspect")), [])
    line.project = random.choice(PROJECTS)
    if line.words[0] == "inspect":  # which takes no more of a project than the subject's own keys
        line.project = random.choice(PROJECTS[:5])
    return line


def _command(random):
    command = random.choice(COMMANDS)
    at = random.randrange(len(command))
    wrong = random.choice((
        command[:at] + command[at + 1 :], command.upper(), command + "s ", "", " ", "help", "1",
        *_TEXTS[2:], "audit inspect",
    ))  # fmt: skip
    return Line([wrong] if wrong.startswith("-") else [wrong, "model.py:Good"])


def _other(random):
    command = random.choice(sorted(ARGUMENTS))
    return Line([command, *random.choice(ARGUMENTS[command])])


def _many(random):
    """Several mistakes at once."""
    parts = [_mistaken(random)[1] for _ in range(random.randint(2, 4))]
    line = _joined(random, "audit", [*parts, [random.choice(SUBJECTS[:20])]])
    line.project = random.choice((None, None, random.choice(PROJECTS)))
    return line

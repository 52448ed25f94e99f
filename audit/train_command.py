"""Train the reference GPT on a text, character by character, and let it write.

Examples:
  theodolite train stories.txt
  theodolite train stories.txt --steps 5000 --checkpoint run/ --curve loss.svg
  theodolite train stories.txt --set width=64 --set layers=2 --context 64

With --checkpoint, the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from theodolite.fixtures.errors import UsageError
from theodolite.outputs import require_files

CURVES = (".png", ".svg")
"""Endings of the files that a curve can be drawn to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="the text, in UTF-8")
    add("--characters", type=int, metavar="N", help="use the first N characters only")
    add("--steps", type=int, default=1501, metavar="N", help="updates to make (1501)")
    add("--batch", type=int, default=32, metavar="N", help="windows in a batch (32)")
    add("--context", type=int, default=128, metavar="N", help="characters in a window (128)")
    add("--lr", type=float, default=3e-3, metavar="RATE", help="learning rate of AdamW (0.003)")
    add("--seed", type=int, default=0, metavar="N", help="of weights, windows and sample (0)")
    add(
        "--set",
        dest="shape",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a field of the model's shape, for example layers=2 or norm=layernorm; repeatable",
    )
    add("--eval-every", type=int, default=500, metavar="N", help="validate every N steps (500)")
    add(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="save there at every validation, when interrupted and at the end; go on from there",
    )
    add(
        "--device",
        default="cpu",
        metavar="NAME",
        help="where to train: cpu, cuda, cuda:1 ... (cpu)",
    )
    add("--compile", action="store_true", help="compile the model first (needs a C++ compiler)")
    add("--prompt", metavar="TEXT", help="what the sample begins with (the text's first letter)")
    add("--sample", type=int, default=200, metavar="N", help="characters to write at the end (200)")
    add("--curve", type=Path, metavar="FILE", help="draw the losses, as .png or .svg")
    add("--log", type=Path, metavar="FILE", help="write the loss of every step as lines of JSON")
    add("--json", metavar="FILE", help="write the result as JSON (- for stdout)")


def run(arguments: argparse.Namespace) -> int:
    """Train as the arguments say; return the exit status."""
    _require_ranges(arguments)
    _require_places(arguments)
    text = read_text(arguments.file, arguments.characters)
    from theodolite.training_run import train

    return train(text, arguments)


def read_text(file: Path, characters: int | None = None) -> str:
    """The text in `file`, or its first `characters`; line ends become single newlines.

    Raises:
        UsageError: If there is no such file, or it is not text.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}: give the path of a text file") from None
    except IsADirectoryError:
        raise UsageError(f"{file} is a folder: give the path of a text file") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file} is not text in UTF-8 (byte {error.start} is 0x{error.object[error.start]:02x})"
            ": convert it to UTF-8, or give another file"
        ) from None
    except (OSError, ValueError) as error:  # the latter for what is no path
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{str(file)!r} cannot be read: {why}") from error
    if "\0" in text:
        raise UsageError(f"{file} is not text (it holds zero bytes): give a text file")
    return text[:characters]


def _require_ranges(arguments: argparse.Namespace) -> None:
    for name in ("steps", "batch", "context", "eval_every", "characters"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} is {value}: give at least 1")
    if arguments.sample < 0:
        raise UsageError(f"--sample is {arguments.sample}: give 0 (no sample) or more")
    if not 0 <= arguments.seed < 2**63:
        raise UsageError(f"--seed is {arguments.seed}: give a whole number from 0 to 2^63 - 1")


def _require_places(arguments: argparse.Namespace) -> None:
    """Find out before the training, not after it, where nothing can be written."""
    if arguments.curve is not None and arguments.curve.suffix not in CURVES:
        raise UsageError(f"--curve {arguments.curve}: give a name that ends in .png or .svg")
    if arguments.checkpoint is not None and arguments.checkpoint.is_file():
        raise UsageError(f"--checkpoint {arguments.checkpoint} is a file: give a folder")
    require_files(
        {"--curve": arguments.curve, "--log": arguments.log, "--json": arguments.json},
        kept=(arguments.file, "the text"),
    )

"""The command line: ``theodolite audit``, ``inspect`` ..., each with an example in its help.

Exit status: 0 all that was planned ran and passed; 1 a check failed; 2 the command or its
configuration is wrong; 3 the subject could not be loaded or called; 4 too little could be judged.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from theodolite.fixtures.errors import TheodoliteError

COMMANDS = {
    "audit": "audit_command",
    "inspect": "inspect_command",
    "claims": "claims_command",
    "mutants": "mutants_command",
    "train": "train_command",
}
"""Each command and its module: `add_arguments(parser)`, `run(arguments) -> int`, a docstring."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (or the process's own) name; return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser(words)
    chosen = parser.parse_args(words)
    try:
        status: int = _module(chosen.command).run(chosen)
    except TheodoliteError as error:
        if getattr(chosen, "debug", False):
            raise
        sys.stderr.write(f"theodolite: {str(error).rstrip('.')}.\n")
        return error.exit_status
    except KeyboardInterrupt:
        sys.stderr.write("theodolite: interrupted.\n")
        return 130
    return status


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"theodolite.{COMMANDS[command]}")


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the module of the command in use is imported."""
    parser = argparse.ArgumentParser(
        prog="theodolite",
        description="Point it at a Transformer and read off whether it is one.",
        epilog="Example: theodolite audit my_gpt.py:GPT",
    )
    parser.add_argument("--version", action=_Version, help="versions of theodolite, torch, Python")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        in_use = name in words
        purpose, _, example = (_module(name).__doc__ or "").partition("\n\n")
        command = commands.add_parser(
            name,
            help=purpose.rstrip("."),
            description=purpose,
            epilog=example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--debug", action="store_true", help="show tracebacks")
        if in_use:
            _module(name).add_arguments(command)
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_rest: object) -> None:
        from importlib.metadata import version

        import theodolite

        sys.stdout.write(
            f"theodolite {theodolite.__version__}, torch {version('torch')}, "
            f"Python {sys.version.split()[0]}\n"
        )
        parser.exit()

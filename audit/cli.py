"""The command line: ``theodolite audit``, ``inspect`` ..., each with an example in its help.

Exit status: 0 all that was planned ran and passed; 1 a check failed; 2 the command or its
configuration is wrong; 3 the subject could not be loaded or called; 4 too little could be judged,
be it for an error of Theodolite's own.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

from theodolite.arguments import Parser
from theodolite.fixtures.errors import TheodoliteError, UsageError
from theodolite.fixtures.loading.settings import near

COMMANDS = {
    "audit": "audit_command",
    "inspect": "inspect_command",
    "compare": "compare_command",
    "survey": "survey_command",
    "explain": "explain_command",
    "claims": "claims_command",
    "mutants": "mutants_command",
    "train": "train_command",
    "init": "init_command",
}
"""Each command and its module: a docstring for its help, `add_arguments(parser)`, `run(arguments)
-> int`, and `complete(parser)` where a project's settings are defaults. Importing one is cheap."""

_INCOMPLETE = 4
_INTERRUPTED = 130
_PIPE_CLOSED = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (or the process's own) name; return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _allow_any_text()
    debug = "--debug" in words
    try:
        chosen = _parsed(words)
        status: int = _module(chosen.command).run(chosen)
        if sys.stdout is not None:
            sys.stdout.flush()
    except TheodoliteError as error:
        if debug:
            traceback.print_exc()
        _say(f"{str(error).rstrip('.')}.")
        return error.exit_status
    except KeyboardInterrupt:
        _say("interrupted.")
        return _INTERRUPTED
    except BrokenPipeError:
        _write_nowhere()
        return _PIPE_CLOSED
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:
            _write_nowhere()
            _say(f"standard output cannot be written: {error.strerror}.")
            return UsageError.exit_status
        traceback.print_exc()
        _say("this is an error of Theodolite, not of the model: please report it with the above.")
        return _INCOMPLETE
    return status


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments, completed by what the project says."""
    command = next((word for word in words if not word.startswith("-")), None)
    if command is not None and command not in COMMANDS:
        raise UsageError(
            f"there is no command {command!r}.{near(command, COMMANDS)} "
            f"There are {', '.join(COMMANDS)}"
        )
    if command is None and "--version" in words:
        _parser_alone().parse_args(["--version"])
    parser, own = _parser(command)
    if own is None and not {"-h", "--help"} & set(words):
        raise UsageError(f"name a command: {', '.join(COMMANDS)}. `theodolite --help` says more")
    chosen, strange = parser.parse_known_args(words)
    if strange:
        (own or parser).refuse(strange)
    complete = getattr(_module(chosen.command), "complete", None)
    if own is not None and complete is not None:
        complete(own)
        chosen = parser.parse_args(words)
    return chosen


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"theodolite.{COMMANDS[command]}")


def _parser_alone() -> Parser:
    """The parser without its commands, whose modules it need not import."""
    parser = Parser(
        prog="theodolite",
        description="Point it at a Transformer and read off whether it is one.",
        epilog="Example: theodolite audit my_gpt.py:GPT",
    )
    parser.add_argument("--version", action=_Version, help="versions of theodolite, torch, Python")
    _add_debug(parser)
    return parser


def _parser(used: str | None) -> tuple[Parser, Parser | None]:
    """The parser, and that of the command in use."""
    parser = _parser_alone()
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    own = None
    for name in COMMANDS:
        purpose, _, example = (_module(name).__doc__ or "").partition("\n\n")
        command = commands.add_parser(
            name,
            help=purpose.rstrip("."),
            description=purpose,
            epilog=example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == used:
            own = command
            _add_debug(command)
            _module(name).add_arguments(command)
    return parser, own


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks"
    )


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_rest: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        import theodolite

        try:
            torch = f"torch {version('torch')}"
        except PackageNotFoundError:
            torch = "torch not installed"
        sys.stdout.write(
            f"theodolite {theodolite.__version__}, {torch}, Python {sys.version.split()[0]}\n"
        )
        parser.exit()


def _allow_any_text() -> None:
    """Let no character of a name or a message be more than the streams' encoding can take."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _write_nowhere() -> None:
    """Standard output takes no more: what Python flushes to it at the end must not be an error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(sentence: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"theodolite: {sentence}\n")

"""Find the first place where two models that are meant to be one function part.

Examples:
  theodolite compare hf:llama my_llama.py:Llama
  theodolite compare hf:gpt2 my_gpt.py:GPT --write-weights gpt.safetensors --write-map map.toml
  theodolite compare hf:qwen3 hf:qwen3 --b backend=eager
  theodolite compare hf:llama hf:llama --b dtype=bfloat16
  theodolite compare hf:llama --record llama.safetensors
  theodolite compare llama.safetensors my_llama.py:Llama
"""

from __future__ import annotations

import argparse
import shlex
import sys

from theodolite.arguments import Parser, seconds
from theodolite.fixtures.errors import SubjectError, UsageError
from theodolite.fixtures.loading.settings import parse_settings
from theodolite.outputs import require_files, write_json, write_text
from theodolite.subject_arguments import LIMIT

_STATUS = {"equal": 0, "parted": 1, "error": SubjectError.exit_status}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "a", metavar="A", help="what is taken for right: named as for audit, or a trace"
    )
    parser.add_argument("b", metavar="B", nargs="?", default=None, help="what is compared with it")
    for side in ("a", "b"):
        parser.add_argument(
            f"--{side}",
            dest=f"settings_{side}",
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help=f"keyword argument for building {side.upper()}"
            + ("; dtype and backend say how it runs" if side == "b" else ""),
        )
        parser.add_argument(
            f"--weights-{side}", metavar="FILE", help=f"weights of {side.upper()}, from a file"
        )
    parser.add_argument(
        "--declare",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="what is known of both (vocabulary, longest ...)",
    )
    parser.add_argument(
        "--map", metavar="FILE", help="TOML that says what parameters of B are in A"
    )
    parser.add_argument(
        "--record", metavar="FILE", help="write a trace of A instead, to be named as A later"
    )
    parser.add_argument("--write-map", metavar="FILE", help="write the map that was found")
    parser.add_argument(
        "--write-weights", metavar="FILE", help="write A's weights as B's, in safetensors"
    )
    parser.add_argument(
        "--as-configured",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="build both at the size of their classes' own defaults",
    )
    parser.add_argument(
        "--time-limit",
        type=seconds,
        default=LIMIT,
        metavar="SECONDS",
        help=f"longest that one forward may take ({LIMIT:g})",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the comparison as JSON (- for stdout)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show every place")


def complete(parser: Parser) -> None:
    """Nothing of a project's settings concerns two subjects."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Compare, show and write what was found; return the exit status."""
    for name, given in (("A", arguments.a), ("B", arguments.b)):
        if given is not None and not given.strip():
            raise UsageError(f"{name} is empty: name a subject, as in my_gpt.py:GPT")
    if arguments.record is not None:
        return _record(arguments)
    if arguments.b is None:
        raise UsageError(
            "name two models, as in `theodolite compare hf:llama my_llama.py:Llama`, or keep a "
            "trace of one with --record FILE"
        )
    require_files(
        {
            "--json": arguments.json,
            "--write-map": arguments.write_map,
            "--write-weights": arguments.write_weights,
        }
    )
    from theodolite.comparison import compare
    from theodolite.console import console

    found = compare(
        arguments.a,
        arguments.b,
        settings_a=parse_settings(arguments.settings_a),
        settings_b=parse_settings(arguments.settings_b),
        declare=parse_settings(arguments.declare),
        map=arguments.map,
        as_configured=arguments.as_configured,
        weights_a=arguments.weights_a,
        weights_b=arguments.weights_b,
        time_limit=arguments.time_limit,
    )
    found.command = shlex.join(["theodolite", *_words()])
    if arguments.json is not None:
        write_json(found.to_dict(), arguments.json)
    if arguments.json != "-":
        found.show(console(), verbose=arguments.verbose)
    if arguments.write_map is not None:
        write_text(found.map, arguments.write_map)
    if arguments.write_weights is not None:
        found.write_weights(arguments.write_weights)
    return UsageError.exit_status if found.asked else _STATUS[found.verdict]


def _record(arguments: argparse.Namespace) -> int:
    if arguments.b is not None:
        raise UsageError("--record keeps a trace of one model: leave out B")
    require_files({"--record": arguments.record})
    from theodolite.comparison import record

    record(
        arguments.a,
        arguments.record,
        settings=parse_settings(arguments.settings_a),
        declare=parse_settings(arguments.declare),
        as_configured=arguments.as_configured,
        weights=arguments.weights_a,
        time_limit=arguments.time_limit,
    )
    return 0


def _words() -> list[str]:
    return sys.argv[1:]

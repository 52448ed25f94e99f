"""The arguments that say how a subject is judged, common to the commands that audit."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from theodolite.arguments import Listed, amount, one_of, seconds
from theodolite.command_line import BUDGET, BUDGETS

if TYPE_CHECKING:
    from theodolite.job import Job

AUDIT_LIMIT = 3600.0
"""Seconds that a whole audit may take."""


def add_judging_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what an audit asks, and what it may cost."""
    add = parser.add_argument
    add(
        "--budget",
        type=one_of(*BUDGETS),
        default=BUDGET,
        metavar="|".join(BUDGETS),
        help=f"what the audit may cost ({BUDGET})",
    )
    add(
        "--select",
        metavar="CHECK",
        action=Listed,
        help="run this check, group (causality), claim (ATT-4) or chapter (ROPE); repeatable",
    )
    add("--skip", metavar="CHECK", action=Listed, help="leave these out; repeatable")
    add("-k", "--keyword", metavar="EXPRESSION", help='run what it names: "rope and not cache"')
    add(
        "--explore",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="draw fresh examples in this run",
    )
    add(
        "--fail-fast",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="stop at the first failure",
    )
    add(
        "--strict",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="fail for hazards too: what goes wrong in a use alone that nobody has declared",
    )
    add(
        "--proof",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="prove causes: mend what is said to be wrong in a copy and judge again what failed",
    )
    add(
        "--audit-limit",
        type=seconds,
        default=AUDIT_LIMIT,
        metavar="SECONDS",
        help=f"longest that the whole audit may take ({AUDIT_LIMIT:g})",
    )
    add(
        "--memory-limit",
        type=amount("GiB"),
        metavar="GIB",
        help="memory that the audit may use (8 GiB and 16 times the weights, at most three "
        "quarters of what is free)",
    )


def require_judgeable(arguments: argparse.Namespace) -> None:
    """Refuse, before a model is loaded, checks that do not exist.

    Raises:
        UsageError: If a check is chosen, or expected to fail, that does not exist.
    """
    from theodolite.selection import require_expected, selection

    if arguments.select or arguments.skip or arguments.keyword is not None:
        selection(arguments.select, arguments.skip, arguments.keyword, budget=arguments.budget)
    if arguments.expected_failures:
        require_expected(arguments.expected_failures)


def job_of(arguments: argparse.Namespace, named: dict[str, Any], **more: Any) -> Job:
    """The audit that the arguments ask for.

    Args:
        arguments: What was given, expected failures included.
        named: The subject and how to build it; see `theodolite.subject_arguments.subject_of`.
        more: Further fields of the job.
    """
    from theodolite.job import Job

    return Job(
        named,
        expected=arguments.expected_failures,
        budget=arguments.budget,
        select=arguments.select,
        skip=arguments.skip,
        keyword=arguments.keyword,
        explore=arguments.explore,
        fail_fast=arguments.fail_fast,
        strict=arguments.strict,
        proof=arguments.proof,
        memory_limit=arguments.memory_limit,
        **more,
    )

"""On which side of its bound a passed check stands."""

from theodolite.fixtures.judging.bounds import nearness


def past_their_bounds(report):
    """The passed checks whose measurement is told as past its bound; there must be none."""
    return [
        (check.id, check.measured, check.at_most, check.at_least)
        for check in report.checks
        if check.outcome == "passed" and nearness(check.measured, check.at_most, check.at_least) > 1
    ]

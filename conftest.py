"""Settings for the project's own test run."""

import os


def pytest_configure() -> None:
    """One thread a worker: workers that each take every core wait for one another."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")

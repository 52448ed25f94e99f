"""What takes minutes: the article's table from a file that is given, and wider comparisons."""

import os
import statistics
from pathlib import Path

import pytest

from theodolite.fixtures.oracles.small_trainings import train_on_story
from theodolite.reference import count_parameters
from theodolite.reference.training import TextRun

pytestmark = pytest.mark.slow

STORIES = "THEODOLITE_STORIES"
"""Environment variable: path of the first million characters of TinyStories, 74 distinct."""

ARTICLE = {0: (4.495, 3.523), 500: (1.005, 1.105), 1000: (0.953, 1.038), 1500: (0.818, 1.007)}
"""Step → training and validation loss, as the article prints them."""


def test_the_articles_table_is_reproduced():
    """TRAIN-2. The article names no exact file, and one batch's training loss swings by 0.1.

    Validation is held to 0.05 from step 500 on. At step 0 it is measured after one update, and the
    initial loss depends on the alphabet's layout: seeds and layouts give 4.44 to 4.51.
    """
    path = os.environ.get(STORIES)
    if not path:
        pytest.skip(f"the text is not shipped: name its file in {STORIES}")
    run = TextRun.begin(Path(path).read_text(encoding="utf-8")[:1_000_000])
    assert (len(run.tokenizer), count_parameters(run.model)) == (74, 810_624)
    for _ in run.steps(1501, 500):
        pass
    assert [record.step for record in run.records] == list(ARTICLE)
    for record in run.records:
        train, validation = ARTICLE[record.step]
        assert abs(record.train - train) < 0.1, record
        assert abs(record.validation - validation) < (0.05 if record.step else 0.1), record


WIDE = {"steps": 400, "width": 64, "heads": 4, "batch": 16, "context": 64, "learning_rate": 3e-3}
SEEDS = range(6)


def differences(one, other):
    """Validation loss of the first kind less the second's, for each seed."""
    return [
        train_on_story(**WIDE, seed=seed, **one) - train_on_story(**WIDE, seed=seed, **other)
        for seed in SEEDS
    ]


def interval(values):
    """The 95 % interval of the mean (Student, 5 degrees of freedom)."""
    mean, error = statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5
    return mean - 2.57 * error, mean + 2.57 * error


def test_the_gated_form_trains_better_than_relu():
    """FFN-6, and at this size more than it claims: measured -0.026, standard deviation 0.006."""
    _, highest = interval(differences({"feed_forward": "swiglu"}, {"feed_forward": "relu"}))
    assert highest < 0


def test_rmsnorm_and_layernorm_train_alike():
    """NORM-7."""
    lowest, highest = interval(differences({"norm": "rmsnorm"}, {"norm": "layernorm"}))
    assert -0.05 < lowest < highest < 0.05

"""Bounds in the bodies of scripts: ``$NAME`` there stands for the constant of that name here.

Where a check has a bound of its own, its script rests on the same one.
"""

from __future__ import annotations

from theodolite.fixtures.judging.tolerances import (
    EQUAL,
    GRADIENT,
    LARGEST_SANE_WEIGHT,
    LEAK,
    LINEAR,
    MULTIPLIER,
    NO_GRADIENT,
    PHASE,
    RELATION,
    SLOPE,
)

SCALED = 1e-3
"""Relative distance of a scale from the wanted one.

It is read as one quotient of differences of float32 scores, good to 1e-6 of their size, and the
median over rows and heads leaves out quotients of small differences. The checks allow more because
they fit a slope. A scale by another width is off by a factor of √2.
"""

NORMED = 1e-2
"""Relative distance of two outputs of a norm that ought to be equal but for epsilon.

The inputs are rows of unit variance, whose mean square is hardly below 1/4: an epsilon of 1e-5
leaves 2e-5 there, one of 1e-3 leaves 2e-3. Ten times the input moves the output by 1e-2 at a power
of 0.004, where `norm.formula` allows 0.02; no other formula is within a tenth.
"""

FADED = 2e-2
"""Distance of a norm's gains, or of its output for a faint input, from what they ought to be.

Gains are read off the same rows, with what epsilon leaves there (see `NORMED`), and are about 1. At
an input of 3e-3 the place of an epsilon of 1e-6 makes 5 %, that of 1e-5 makes 45 %.
"""

MOVED = 0.05
"""Movement of the logits, in their standard deviations, when the stream is eight times as large.

The bound of `assembly.final_norm`. A norm leaves epsilon's share, 1e-5 or so of a mean square near
1; without one the logits are eight times as large, and move by seven standard deviations.
"""

NATS = 1e-4
"""Distance of a float32 loss from the cross-entropy of its logits.

`fixtures.serving.loss.rounding` allows 64 · 1.2e-7 of the largest logit and the logarithm of
the vocabulary together: 1e-4 where these come to 13. A token more or less in a mean over a dozen
moves it by a tenth.
"""

LEARNT = 0.8
"""Part of the entropy of single tokens below which a loss shows learning: as `training.smoke`."""

SHARE = 0.07
"""Distance of a token's share of 2,000 draws from its probability.

By Hoeffding's inequality a share is as far off with a chance of 2·exp(-2·2000·0.07²) = 6e-9.
"""

BOUNDS = {
    "LEAK": LEAK,
    "RELATION": RELATION,
    "GRADIENT": GRADIENT,
    "EQUAL": EQUAL,
    "PHASE": PHASE,
    "LINEAR": LINEAR,
    "NO_GRADIENT": NO_GRADIENT,
    "MULTIPLIER": MULTIPLIER,
    "SANE": LARGEST_SANE_WEIGHT,
    "SCALED": SCALED,
    "NORMED": NORMED,
    "FADED": FADED,
    "MOVED": MOVED,
    "SLOPE": SLOPE,
    "NATS": NATS,
    "LEARNT": LEARNT,
    "SHARE": SHARE,
}

"""Faults of windows and of blocks that stand for them."""

from __future__ import annotations

from theodolite.properties.mutants.registry import source

source("window-lost-in-one-backend", "ATT-2 AUD-7", "window.field", component="window",
    says="Fused attention is called without the window.")  # fmt: skip
source("window-of-nothing-is-a-width", "GPT-7", "logits.finite", component="mask",
    says="A window of 0, which is to be none, hides every key.")  # fmt: skip
source("window-in-half-the-heads", "ATT-2 AUD-7", "window.field", component="window",
    says="Every second head sees past the window.")  # fmt: skip
source("blocks-for-a-window", "ATT-2", "declared.window", component="window",
    says="Blocks as wide as the window stand in its place.")  # fmt: skip
source("window-shrinks-with-the-position", "ATT-2 AUD-7", "window.field", component="window",
    says="The window changes with the position of its query.")  # fmt: skip
source("window-in-every-layer", "ATT-2", "declared.window", component="window",
    says="Every layer has the window, though every second one should.")  # fmt: skip
source("window-in-the-other-layers", "ATT-2 AUD-7", "window.field", component="window",
    says="The window stands in the layers that should have none, and not in the "
         "others.")  # fmt: skip
source("padding-replaces-the-window", "ATT-2 AUD-7", "window.field", component="window",
    says="Where a padding mask is given, the window is lost.")  # fmt: skip
source("window-for-blocks", "ATT-2 AUD-7", "window.field", component="window",
    says="A window stands in place of the declared blocks.")  # fmt: skip
source("blocks-begin-elsewhere", "ATT-2 AUD-7", "window.field", component="window",
    says="The declared blocks begin two positions early.")  # fmt: skip
source("cached-window-one-short", "AUD-6", "window.cache", component="window",
    says="The rolling cache keeps one token fewer than the window reads.")  # fmt: skip
source("cached-window-one-long", "AUD-6", "window.cache", component="window",
    says="The rolling cache keeps one token more than the window, and single steps "
         "read all of it.")  # fmt: skip
source("chunk-cut-to-the-window", "AUD-6", "window.cache", component="window",
    says="A chunk behind a cache keeps only a window's worth of keys, which its "
         "first tokens lack.")  # fmt: skip
source("values-less-their-mean-so-far", "AUD-6 GEN-4", "cache.chunks", component="cache",
    says="Values are taken less the mean of those read together: a cache makes "
         "other ones.")  # fmt: skip

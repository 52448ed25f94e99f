"""``python -m theodolite`` is the command ``theodolite``."""

import sys

from theodolite.cli import main

sys.exit(main())

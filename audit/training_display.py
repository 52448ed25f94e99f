"""What a training run shows and leaves behind: lines, a bar, a log, a curve, a result."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from theodolite.fixtures.errors import UsageError
from theodolite.outputs import write_json
from theodolite.reference.checkpoint import save_checkpoint
from theodolite.reference.parameters import count_parameters
from theodolite.reference.training import Record, TextRun

SCHEMA = "theodolite-training/1"


class Session:
    """One sitting of a run: from where it stands to its last step, or to Ctrl-C.

    Args:
        run: The run, perhaps resumed.
        arguments: Those of ``theodolite train``.
    """

    def __init__(self, run: TextRun, arguments: argparse.Namespace) -> None:
        self.run = run
        self.arguments = arguments
        self.folder: Path | None = arguments.checkpoint
        self.began_at = run.trainer.step
        self.seconds_before = run.seconds
        # Results on standard output must stay one JSON document.
        self.console = Console(stderr=arguments.json == "-", highlight=False, soft_wrap=True)

    def train(self) -> int:
        """Make the updates; save at every validation, when interrupted, and at the end.

        Returns:
            0 when the last step is done; 128 + the signal's number when a signal stopped it.
        """
        run, arguments = self.run, self.arguments
        self._introduce()
        status = 0
        with _stop_requests() as requests, self._log() as log, self._bar() as bar:
            task = bar.add_task("", total=arguments.steps, completed=self.began_at, speed="")
            for record in run.steps(arguments.steps, arguments.eval_every):
                log(record)
                speed = f"loss {record.train:.3f}  {self._speed():,.0f} characters/s"
                bar.update(task, completed=record.step + 1, speed=speed)
                if record.validation is not None:
                    bar.console.print(
                        f"step {record.step:5d}  train {record.train:.3f}  "
                        f"val {record.validation:.3f}  {self._speed():,.0f} characters/s"
                    )
                    if self.folder is not None:
                        save_checkpoint(run, self.folder)
                if requests and run.trainer.step < arguments.steps:
                    status = 128 + requests[0]
                    break
        return status

    def conclude(self, prompt: str, status: int) -> None:
        """Say how to go on, or show the sample; write the curve and the result."""
        run, arguments = self.run, self.arguments
        if status:
            self._say_how_to_resume()
        sample = None
        if not status and arguments.sample:
            sample = run.sample(prompt, arguments.sample)
            self.console.print(f"\n{sample}", markup=False)
        if arguments.curve is not None:
            draw_curve(run, arguments.curve)
        if arguments.json is not None:
            write_json(self._result(sample), arguments.json)

    def _introduce(self) -> None:
        run = self.run
        self.console.print(
            f"vocabulary {len(run.tokenizer)}, parameters {count_parameters(run.model):,}"
        )
        if not self.began_at:
            return
        self.console.print(f"going on from step {self.began_at} in {self.folder}")
        if self.began_at >= self.arguments.steps:
            self.console.print(
                f"the {self.arguments.steps} steps are done already: give more --steps to go on"
            )

    def _say_how_to_resume(self) -> None:
        done = f"stopped after {self.run.trainer.step} of {self.arguments.steps} steps"
        if self.folder is None:
            sys.stderr.write(f"{done}; nothing was saved: with --checkpoint DIR it could go on\n")
            return
        save_checkpoint(self.run, self.folder)
        sys.stderr.write(
            f"{done} and saved in {self.folder}: the same command goes on from there\n"
        )

    def _speed(self) -> float:
        """Characters a second in this sitting's updates."""
        settings = self.run.settings
        updates = self.run.trainer.step - self.began_at
        seconds = self.run.seconds - self.seconds_before
        return updates * settings.batch * settings.context / seconds if seconds else 0.0

    def _bar(self) -> Progress:
        return Progress(
            TextColumn("step {task.completed:.0f} of {task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )

    @contextlib.contextmanager
    def _log(self) -> Iterator[Any]:
        """Write records as lines of JSON; those of earlier sittings come first."""
        if self.arguments.log is None:
            yield lambda _record: None
            return
        validated = {record.step: record.validation for record in self.run.records}
        try:
            with self.arguments.log.open("w", encoding="utf-8") as stream:

                def write(record: Record) -> None:
                    line = {"step": record.step, "train": record.train}
                    if record.validation is not None:
                        line["validation"] = record.validation
                    stream.write(json.dumps(line) + "\n")
                    stream.flush()

                for step, train in enumerate(self.run.trainer.losses):
                    write(Record(step, train, validated.get(step)))
                yield write
        except OSError as error:
            raise UsageError(f"{self.arguments.log} cannot be written: {error.strerror}") from error

    def _result(self, sample: str | None) -> dict[str, Any]:
        run = self.run
        return {
            "schema": SCHEMA,
            "text": str(self.arguments.file),
            "vocabulary": len(run.tokenizer),
            "parameters": count_parameters(run.model),
            "steps": run.trainer.step,
            "seconds": run.seconds,
            "characters_per_second": self._speed(),
            "records": [
                {"step": each.step, "train": each.train, "validation": each.validation}
                for each in run.records
            ],
            "sample": sample,
        }


def draw_curve(run: TextRun, file: Path) -> None:
    """Draw training and validation loss by step, as PNG or SVG after the name of `file`.

    Raises:
        UsageError: If matplotlib is missing or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("a curve needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(run.trainer.losses, linewidth=0.6, alpha=0.6, label="training, each batch")
    validated = {each.step: each.validation for each in run.records if each.validation is not None}
    axes.plot(list(validated), list(validated.values()), "o-", label="validation")
    axes.set(xlabel="step", ylabel="loss, nats a character")
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """Gather Ctrl-C and a polite kill, to stop between two steps; a second one stops at once."""
    requests: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        if requests:
            raise KeyboardInterrupt
        requests.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield requests
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

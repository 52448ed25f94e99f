"""What ``theodolite train`` does with a text: begin or resume the run, train, conclude."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import torch

from theodolite.fixtures.errors import TheodoliteError, UsageError
from theodolite.fixtures.loading.settings import listing, near, parse_settings
from theodolite.reference.checkpoint import CheckpointError, holds_checkpoint, resume
from theodolite.reference.config import GPTConfig
from theodolite.reference.training import DivergenceError, TextRun, TrainingSettings
from theodolite.training_display import Session


class TrainingError(TheodoliteError):
    """The training itself went wrong (exit status 1)."""

    exit_status = 1


def train(text: str, arguments: argparse.Namespace) -> int:
    """Train, show the losses, save what was asked for, write a sample; return the exit status."""
    try:
        training = _begin(text, arguments)
    except ValueError as error:
        raise UsageError(str(error)) from error
    prompt = arguments.prompt
    if prompt is None:
        prompt = (text.lstrip() or text)[0]
    _require_prompt(prompt, training)
    try:
        if arguments.checkpoint is not None and holds_checkpoint(arguments.checkpoint):
            resume(training, arguments.checkpoint)
        session = Session(training, arguments)
        status = session.train()
        session.conclude(prompt, status)
    except CheckpointError as error:
        raise UsageError(str(error)) from error
    except DivergenceError as error:
        raise TrainingError(f"{str(error).rstrip('.')}{_kept(training, arguments)}") from error
    except RuntimeError as error:
        if not arguments.compile or training.trainer.step:
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"the model could not be compiled ({reason}): leave out --compile"
        ) from error
    return status


def _begin(text: str, arguments: argparse.Namespace) -> TextRun:
    settings = TrainingSettings(
        batch=arguments.batch,
        context=arguments.context,
        learning_rate=arguments.lr,
        seed=arguments.seed,
    )
    return TextRun.begin(
        text,
        settings,
        _shape(arguments.shape),
        device=_device(arguments.device),
        compiled=arguments.compile,
    )


def _require_prompt(prompt: str, training: TextRun) -> None:
    if not prompt:
        raise UsageError("--prompt is empty: give at least one character")
    strange = [symbol for symbol in prompt if symbol not in training.tokenizer.symbols]
    if strange:
        raise UsageError(
            f"--prompt holds {strange[0]!r}, which the text does not: use the text's characters"
        )


def _shape(pairs: list[str]) -> GPTConfig:
    shape: dict[str, Any] = parse_settings(pairs)
    fields = {field.name for field in dataclasses.fields(GPTConfig)} - {"vocabulary", "context"}
    for name in shape:
        if name not in fields:
            known = listing(sorted(fields))
            raise UsageError(f"the shape has no {name!r}; it has {known}.{near(name, fields)}")
    try:
        return GPTConfig(**{"fused": "attention_softcap" not in shape, **shape, "context": 1})
    except TypeError as error:
        raise UsageError(f"--set {' --set '.join(pairs)}: {error}") from error


def _device(name: str) -> Any:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise UsageError(f"--device {name} cannot be used here ({reason}): give cpu") from error
    return device


def _kept(training: TextRun, arguments: argparse.Namespace) -> str:
    if arguments.checkpoint is None or not training.records:
        return ""
    return f" The checkpoint in {arguments.checkpoint} was left as it was"

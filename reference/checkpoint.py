"""Checkpoints: all that a run needs to go on as if it had never stopped (claim TRAIN-3).

A checkpoint is a folder of two files. ``step-000501.safetensors`` holds weights, the optimizer's
state, the generator's state and the losses; ``state.json`` says what run that is and names the
first with its SHA-256. The second is put in place last, in one move, so a run killed while saving
leaves the checkpoint before it. Nothing in either file is ever executed.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from theodolite.reference.training import Record, TextRun, Trainer

SCHEMA = "theodolite-training/1"
_STATE = "state.json"


class CheckpointError(Exception):
    """A checkpoint cannot be read, written, or continued; the message says what to do."""


def save_checkpoint(run: TextRun, folder: Path) -> None:
    """Write `run` as it stands to `folder`, and remove the checkpoint that it replaces.

    Raises:
        CheckpointError: If the folder cannot be written to.
    """
    content = save(_tensors(run.trainer))
    name = f"step-{run.trainer.step:06d}.safetensors"
    state = {
        "schema": SCHEMA,
        "tensors": name,
        "sha256": sha256(content).hexdigest(),
        "step": run.trainer.step,
        "seconds": run.seconds,
        "records": [asdict(record) for record in run.records],
        **_identity(run),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = _tensor_files(folder)
        _replace(folder / name, content)
        _replace(folder / _STATE, json.dumps(state, indent=1).encode())
        for file in before - {folder / name}:
            file.unlink()
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint could not be written to {folder} ({error.strerror}): give a folder "
            "that can be written to and has room."
        ) from error


def holds_checkpoint(folder: Path) -> bool:
    """Whether there is a checkpoint in `folder`."""
    return (folder / _STATE).exists()


def resume(run: TextRun, folder: Path) -> None:
    """Bring `run`, freshly begun with the same text, settings and shape, to where `folder` stands.

    Raises:
        CheckpointError: If the checkpoint is damaged or of another run. `run` is then unchanged.
    """
    state = _read_state(folder)
    _require_same_run(run, state, folder)
    tensors = _read_tensors(folder, state)
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != _expected_shapes(run.trainer, state["step"]):
        raise _damaged(folder / state["tensors"], "it does not hold what state.json promises")
    _restore(run.trainer, tensors)
    run.records = [Record(**record) for record in state["records"]]
    run.seconds = float(state["seconds"])


def _identity(run: TextRun) -> dict[str, Any]:
    """What must agree for one run to be the continuation of another."""
    return {
        "config": asdict(run.model.config),
        "settings": asdict(run.settings),
        "symbols": run.tokenizer.symbols,
        "text": run.digest,
    }


def _tensors(trainer: Trainer) -> dict[str, Tensor]:
    tensors = {"generator": trainer.generator.get_state()}
    tensors["losses"] = torch.tensor(trainer.losses, dtype=torch.float64)
    for name, parameter in trainer.model.named_parameters():
        tensors[f"model.{name}"] = parameter
        for key, value in trainer.optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{name}.{key}"] = value
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _expected_shapes(trainer: Trainer, step: int) -> dict[str, tuple[int, ...]]:
    shapes = {"generator": tuple(trainer.generator.get_state().shape), "losses": (step,)}
    for name, parameter in trainer.model.named_parameters():
        shapes[f"model.{name}"] = tuple(parameter.shape)
        if step:  # AdamW has no state before its first step
            shapes[f"optimizer.{name}.step"] = ()
            for moment in ("exp_avg", "exp_avg_sq"):
                shapes[f"optimizer.{name}.{moment}"] = tuple(parameter.shape)
    return shapes


def _restore(trainer: Trainer, tensors: dict[str, Tensor]) -> None:
    trainer.generator.set_state(tensors["generator"])
    trainer.losses[:] = tensors["losses"].tolist()
    with torch.no_grad():
        for name, parameter in trainer.model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
            prefix = f"optimizer.{name}."
            moments = {
                key.removeprefix(prefix): value.to(parameter.device)
                for key, value in tensors.items()
                if key.startswith(prefix)
            }
            if moments:
                trainer.optimizer.state[parameter] = moments


def _read_state(folder: Path) -> dict[str, Any]:
    file = folder / _STATE
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise _damaged(file, "it is no whole JSON document") from error
    needed = {"tensors", "sha256", "step", "seconds", "records", "config", "settings", "symbols"}
    if not isinstance(state, dict) or state.get("schema") != SCHEMA or not needed <= set(state):
        raise CheckpointError(
            f"{file} is not the state of a training run ({SCHEMA}): give another folder."
        )
    return state


def _require_same_run(run: TextRun, state: dict[str, Any], folder: Path) -> None:
    mine = _identity(run)
    if state["symbols"] != mine["symbols"] or state.get("text") != mine["text"]:
        raise CheckpointError(
            f"{folder} holds a run on another text: give the text that it was begun with, or "
            "another folder."
        )
    for part in ("config", "settings"):
        for name, value in mine[part].items():
            other = state[part].get(name)
            if other != value:
                raise CheckpointError(
                    f"{folder} holds a run with {name} {other}, and this one has {name} {value}: "
                    "give the same settings to go on with it, or another folder to begin anew."
                )


def _read_tensors(folder: Path, state: dict[str, Any]) -> dict[str, Tensor]:
    file = folder / Path(str(state["tensors"])).name
    try:
        content = file.read_bytes()
    except OSError as error:
        raise _damaged(file, f"it cannot be read: {error.strerror}") from error
    if sha256(content).hexdigest() != state["sha256"]:
        raise _damaged(file, f"its {len(content)} bytes are not those that were saved")
    try:
        tensors: dict[str, Tensor] = load(content)
    except SafetensorError as error:
        raise _damaged(file, str(error)) from error
    return tensors


def _damaged(file: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint is damaged: {file} was cut off or changed ({why}). Restore it from a "
        "copy, or give another folder to begin anew."
    )


def _tensor_files(folder: Path) -> set[Path]:
    """The tensor file that the present state names, if there is one."""
    if not holds_checkpoint(folder):
        return set()
    try:
        return {folder / Path(_read_state(folder)["tensors"]).name}
    except CheckpointError:
        return set()


def _replace(file: Path, content: bytes) -> None:
    """Put `content` in place of `file`, whole or not at all."""
    temporary = file.with_name(f".{file.name}.part")
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)

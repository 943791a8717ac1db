"""The training loop: one optimizer step after another, to be read in a sitting."""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.files import write_whole
from instruct_distill.losses import LOSSES
from instruct_distill.models.attention import use_cpu_attention
from instruct_distill.models.loading import LoadedModel
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.training.agreement import mean_kendall
from instruct_distill.training.checkpoints import load_checkpoint, save_checkpoint
from instruct_distill.training.gradient import add_gradient
from instruct_distill.training.lists import TrainingList, steps
from instruct_distill.training.parameters import StudentParameters, TrainingParameters
from instruct_distill.training.probe import Probe, take_probe
from instruct_distill.training.processes import own_share, process_state, sum_over_processes
from instruct_distill.training.schedule import learning_rate, steps_per_epoch
from instruct_distill.training.updates.choose import make_updater


class Trained(NamedTuple):
    """What training did.

    Args:
        steps: optimizer steps.
        seconds: time spent in steps, over all runs that were needed.
        tokens: real tokens of the prompts, over all processes.
        agreement: mean Kendall τ between student and teacher over the lists of the last epoch, as they were
            met in training; None without an informative list.
        processes: how many shared the work.
        probe: some scores at the end; None without lists.
    """

    steps: int
    seconds: float
    tokens: int
    agreement: float | None
    processes: int
    probe: Probe | None


def student_encoder(student: StudentParameters, loaded: LoadedModel) -> PromptEncoder:
    """Return the encoder of a student's prompt."""
    return PromptEncoder(
        student.prompt_record,
        loaded.tokenizer,
        family=loaded.model.family,
        max_length=student.max_length,
        document_words=student.document_words,
        decoder_start=getattr(loaded.model.model.config, "decoder_start_token_id", None),
    )


def train(
    loaded: LoadedModel,
    student: StudentParameters,
    lists: Sequence[TrainingList],
    parameters: TrainingParameters,
    *,
    seed: int,
    checkpoints: Path,
    log: Path,
) -> Trained:
    """Train a student on labelled lists, going on from the newest checkpoint.

    Args:
        loaded: the student's weights, in the number format that is computed in; changed in place (in the
            main process only, where the launch spreads them over the processes).
        student: its prompt and score.
        lists: the labelled lists; those without information take part in every count but give no gradient.
        parameters: loss, rate, steps.
        seed: order, choice of documents and dropout are functions of it.
        checkpoints: the folder for checkpoints.
        log: a JSONL file with a line for each optimizer step.

    Raises:
        InputError: no list is informative.
        NonFiniteScoreError: the loss or the gradient is NaN or infinite; the last checkpoint stands.
    """
    useful = [item for item in lists if len(item.documents) > 0]
    if parameters.epochs and not any(item.informative for item in useful):
        raise InputError(
            f"none of the {len(lists)} labelled lists orders any two documents: there is nothing to learn; "
            "look at the label file (did the teacher answer the same to everything?)"
        )
    model = loaded.model
    state = process_state()
    encoder = student_encoder(student, loaded)
    choice = parameters.loss_choice
    loss = functools.partial(LOSSES.load(choice.name).loss, **choice.parameters)
    updater = make_updater(model, parameters)
    if updater.device.type == "cpu":
        use_cpu_attention(model.model)
    total = parameters.epochs * steps_per_epoch(len(useful), parameters.lists_per_step)
    start = load_checkpoint(checkpoints, updater)
    done = start.step if start else 0
    progress = dict(start.state["progress"]) if start else {"seconds": 0.0, "tokens": 0}
    kendall: dict[str, list[Any]] = dict(start.state["kendall"]) if start else {}
    if state.is_main_process:
        _cut_log(log, done)

    was_training = model.training
    model.train()
    bar = tqdm(total=total, initial=done, desc="train", unit="step", disable=not state.is_main_process)
    for step, epoch, batch in steps(useful, parameters, seed, done):
        began = time.perf_counter()
        # dropout is a function of seed, step and process: nothing has to be restored on resume
        torch.manual_seed((seed * 1_000_003 + step) * 1_009 + state.process_index)
        mine = own_share(batch)
        found = add_gradient(
            updater,
            encoder,
            mine,
            loss,
            informative=sum(item.informative for item in batch),
            score=student.score,
            tokens_per_micro_batch=parameters.tokens_per_micro_batch,
        )
        rate = learning_rate(parameters, step, total)
        norm = updater.step(rate)
        tau, ordered = mean_kendall([item.scores for item in mine], found.scores)
        sums = torch.tensor(
            [sum(found.losses), found.tokens, found.padded, tau * ordered, ordered],
            dtype=torch.float64,
            device=updater.device,
        )
        sum_over_processes([sums])
        step_loss = float(sums[0]) / max(sum(item.informative for item in batch), 1)
        if not (math.isfinite(step_loss) and math.isfinite(norm)):
            raise NonFiniteScoreError(
                f"step {step + 1}: loss {step_loss}, gradient norm {norm}; queries "
                f"{[item.query.query_id for item in batch][:8]}. The last checkpoint in {checkpoints} "
                "stands: lower learning_rate, or use precision fp32"
            )
        _note_agreement(kendall, epoch, *sums[3:].tolist())
        seconds = time.perf_counter() - began
        progress = {"seconds": progress["seconds"] + seconds, "tokens": progress["tokens"] + int(sums[1])}
        if state.is_main_process:
            _write_log(log, step + 1, epoch + 1, step_loss, rate, norm, batch, sums.tolist(), seconds)
        if step + 1 == total or (step + 1) % parameters.checkpoint_every == 0:
            kept = {"progress": progress, "kendall": kendall}
            save_checkpoint(checkpoints, step + 1, updater, kept, parameters.keep)
        bar.set_postfix(loss=f"{step_loss:.3f}", tokens_s=f"{sums[1] / seconds:.0f}", refresh=False)
        bar.update()
    bar.close()
    model.eval()
    probe = take_probe(updater, encoder, useful, student.score)
    updater.finish()
    model.train(was_training)
    return Trained(
        total,
        float(progress["seconds"]),
        int(progress["tokens"]),
        _mean(kendall),
        state.num_processes,
        probe,
    )


def _note_agreement(kendall: dict[str, list[Any]], epoch: int, total: float, count: float) -> None:
    """Keep the last epoch's sum and count of Kendall τ."""
    if str(epoch) not in kendall:
        kendall.clear()
        kendall[str(epoch)] = [0.0, 0]
    kendall[str(epoch)][0] += total
    kendall[str(epoch)][1] += int(count)


def _mean(kendall: dict[str, list[Any]]) -> float | None:
    for total, count in kendall.values():
        return total / count if count else None
    return None


def _write_log(
    log: Path,
    step: int,
    epoch: int,
    loss: float,
    rate: float,
    norm: float,
    batch: Sequence[TrainingList],
    sums: Sequence[float],
    seconds: float,
) -> None:
    _, tokens, padded, *_ = sums
    record = {
        "step": step,
        "epoch": epoch,
        "loss": loss,
        "learning_rate": rate,
        "gradient_norm": norm,
        "query_ids": [item.query.query_id for item in batch],
        "tokens": int(tokens),
        "padding": 1 - tokens / padded if padded else 0.0,
        "seconds": round(seconds, 3),
    }
    with open(log, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def _cut_log(log: Path, done: int) -> None:
    """Take out the lines of steps after the checkpoint: they are done again."""
    if not log.exists():
        log.parent.mkdir(parents=True, exist_ok=True)
        return
    kept = []
    # bytes: a kill may have torn the last line inside a character
    for line in log.read_bytes().splitlines():
        try:
            if json.loads(line)["step"] <= done:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            break
    with write_whole(log, "wb") as stream:
        stream.writelines(line + b"\n" for line in kept)

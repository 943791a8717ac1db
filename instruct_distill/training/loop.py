"""The training loop: one optimizer step after another, to be read in a sitting."""

from __future__ import annotations

import functools
import logging
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from instruct_distill.errors import InputError, NonFiniteScoreError
from instruct_distill.losses import LOSSES
from instruct_distill.models.attention import use_cpu_attention
from instruct_distill.models.checkpointing import gradient_checkpointing
from instruct_distill.models.loading import LoadedModel
from instruct_distill.models.question_encoder import question_encoder
from instruct_distill.prompts.encoder import PromptEncoder
from instruct_distill.training.agreement import mean_kendall
from instruct_distill.training.checkpoints import load_checkpoint, load_step, save_checkpoint
from instruct_distill.training.dev import Best, Dev, held_back, measure
from instruct_distill.training.gradient import Loss, add_gradient
from instruct_distill.training.lists import TrainingList, steps
from instruct_distill.training.parameters import StudentParameters, TrainingParameters
from instruct_distill.training.probe import Probe, take_probe
from instruct_distill.training.processes import own_share, process_state, sum_over_processes
from instruct_distill.training.schedule import learning_rate, steps_per_epoch
from instruct_distill.training.trackers import Trackers
from instruct_distill.training.training_log import cut_log, write_line
from instruct_distill.training.updates.choose import make_updater

logger = logging.getLogger(__name__)

_COLLAPSED = 0.01
"""Logits: a student whose scores of a list spread by less does not tell its documents apart."""

_COLLAPSE_STEPS = 20
"""Steps in a row after which that is said."""


class Trained(NamedTuple):
    """What training did.

    Args:
        steps: optimizer steps.
        seconds: time spent in steps, over all runs that were needed.
        tokens: real tokens of the prompts, over all processes.
        agreement: mean Kendall τ between student and teacher over the lists of the last epoch, as they were
            met in training; None without an informative list.
        processes: how many shared the work.
        best_step: the step whose weights were taken, by the dev set; None without one.
        dev: the dev set's figure at that step.
        probe: some scores at the end; None without lists.
    """

    steps: int
    seconds: float
    tokens: int
    agreement: float | None
    processes: int
    best_step: int | None = None
    dev: float | None = None
    probe: Probe | None = None


def student_encoder(student: StudentParameters, loaded: LoadedModel) -> PromptEncoder:
    """Return the encoder of a student's prompt."""
    return question_encoder(
        loaded,
        student.prompt_record,
        max_length=student.max_length,
        document_words=student.document_words,
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
    name: str = "train",
    dev: Dev | None = None,
) -> Trained:
    """Train a student on labelled lists, going on from the newest checkpoint.

    Args:
        loaded: the student's weights, in the number format that is computed in; changed in place (in the
            main process only, where the launch spreads them over the processes).
        student: its prompt and score.
        lists: the labelled lists; those without information take part in every count but give no gradient.
        parameters: loss, rate, steps.
        seed: order, choice of documents, dropout and held-back lists are functions of it.
        checkpoints: the folder for checkpoints.
        log: a JSONL file with a line for each optimizer step and each measurement on the dev set.
        name: what trackers call the run.
        dev: the dev set of ``parameters.dev.task``, ready to be measured.

    Raises:
        InputError: no list is informative.
        NonFiniteScoreError: the loss or the gradient is NaN or infinite; the last checkpoint stands.
    """
    choice = parameters.loss_choice
    loss: Loss = functools.partial(LOSSES.load(choice.name).loss, **choice.parameters)
    useful = [item for item in lists if len(item.documents) > 0]
    if parameters.dev is not None and parameters.dev.held_back:
        useful, dev = held_back(useful, parameters.dev, loss, seed)
    if parameters.epochs and not any(item.informative for item in useful):
        raise InputError(
            f"none of the {len(lists)} labelled lists orders any two documents: there is nothing to learn; "
            "look at the label file (did the teacher answer the same to everything?)"
        )
    model = loaded.model
    state = process_state()
    encoder = student_encoder(student, loaded)
    updater = make_updater(model, parameters)
    if updater.device.type == "cpu":
        use_cpu_attention(model.model)
    total = parameters.epochs * steps_per_epoch(len(useful), parameters.lists_per_step)
    start = load_checkpoint(checkpoints, updater)
    done = start.step if start else 0
    progress = dict(start.state["progress"]) if start else {"seconds": 0.0, "tokens": 0}
    kendall: dict[str, list[Any]] = dict(start.state["kendall"]) if start else {}
    best = None if dev is None else Best(dev.parameters, start.state.get("dev", []) if start else [])
    trackers = None
    if state.is_main_process:
        cut_log(log, done)
        trackers = Trackers(parameters.trackers, name, log.parent, {"seed": seed, "lists": len(useful)})
    collapse = _Collapse()

    was_training = model.training
    model.train()
    bar = tqdm(total=total, initial=done, desc="train", unit="step", disable=not state.is_main_process)
    for step, epoch, batch in steps(useful, parameters, seed, done):
        if best is not None and best.patience_is_over:
            break
        began = time.perf_counter()
        # dropout is a function of seed, step and process: nothing has to be restored on resume
        torch.manual_seed((seed * 1_000_003 + step) * 1_009 + state.process_index)
        mine = own_share(batch)
        cut_before = encoder.cut_prompts
        with gradient_checkpointing(model.model, parameters.gradient_checkpointing):
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
            [
                sum(found.losses),
                found.tokens,
                found.padded,
                sum(len(item.documents) for item in mine),
                encoder.cut_prompts - cut_before,
                sum(statistics.pstdev(scores) for scores in found.scores if scores),
                tau * ordered,
                ordered,
            ],
            dtype=torch.float64,
            device=updater.device,
        )
        sum_over_processes([sums])
        losses, tokens, padded, documents, cut, spreads, *agreement = sums.tolist()
        step_loss = losses / max(sum(item.informative for item in batch), 1)
        if not (math.isfinite(step_loss) and math.isfinite(norm)):
            raise NonFiniteScoreError(
                f"step {step + 1}: loss {step_loss}, gradient norm {norm}; queries "
                f"{[item.query.query_id for item in batch][:8]}. The last checkpoint in {checkpoints} "
                "stands: lower learning_rate, or use precision fp32"
            )
        _note_agreement(kendall, epoch, *agreement)
        seconds = time.perf_counter() - began
        progress = {"seconds": progress["seconds"] + seconds, "tokens": progress["tokens"] + int(tokens)}
        figures = {
            "loss": step_loss,
            "learning_rate": rate,
            "gradient_norm": norm,
            "spread": spreads / len(batch),
            "tokens": int(tokens),
            "padding": 1 - tokens / padded if padded else 0.0,
            "cut": cut / documents,
            "seconds": round(seconds, 3),
        }
        if trackers is not None:
            ids = [item.query.query_id for item in batch]
            write_line(log, {"step": step + 1, "epoch": epoch + 1, **figures, "query_ids": ids})
            trackers.log(figures, step + 1)
            collapse.look(figures["spread"], figures["cut"])
        last = step + 1 == total
        improved = False
        if dev is not None and best is not None and (last or (step + 1) % dev.parameters.every == 0):
            model.eval()
            measured = measure(dev, updater, encoder, student.score, student.tokens_per_batch)
            model.train()
            best.history.append([step + 1, measured[dev.parameters.metric]])
            improved = best.step == step + 1
            if trackers is not None:
                write_line(log, {"step": step + 1, "dev": measured})
                trackers.log({f"dev/{metric}": value for metric, value in measured.items()}, step + 1)
        over = best is not None and best.patience_is_over
        if last or improved or over or (step + 1) % parameters.checkpoint_every == 0:
            kept = {"progress": progress, "kendall": kendall, "dev": best.history if best else []}
            chosen = best.step if best else None
            save_checkpoint(checkpoints, step + 1, updater, kept, parameters.keep, chosen)
        bar.set_postfix(
            loss=f"{step_loss:.3f}",
            rate=f"{rate:.1e}",
            lists_s=f"{len(batch) / seconds:.2f}",
            tokens_s=f"{tokens / seconds:.0f}",
            refresh=False,
        )
        bar.update()
        done = step + 1
    bar.close()
    if trackers is not None:
        trackers.close()
    if best is not None and best.step is not None and best.step != done:
        load_step(checkpoints, best.step, updater)
        logger.info(
            "train: the weights of step %d, the best of %d measurements", best.step, len(best.history)
        )
    model.eval()
    probe = take_probe(updater, encoder, useful, student.score)
    updater.finish()
    model.train(was_training)
    return Trained(
        done,
        float(progress["seconds"]),
        int(progress["tokens"]),
        _mean(kendall),
        state.num_processes,
        best.step if best else None,
        best.value if best else None,
        probe,
    )


class _Collapse:
    """Says once that a student has come to score all documents of a list alike."""

    def __init__(self) -> None:
        self._steps = 0

    def look(self, spread: float, cut: float) -> None:
        """Look at the mean standard deviation of a step's scores, and at the share of cut documents."""
        self._steps = self._steps + 1 if spread < _COLLAPSED else 0
        if self._steps == _COLLAPSE_STEPS:
            logger.warning(
                "over %d steps the scores of a list have spread by less than %g: the student does not tell "
                "documents apart. Lower learning_rate, add warmup_steps, and look whether what differs is "
                "within the budget (%.0f%% of the documents are cut to max_length or document_words)",
                _COLLAPSE_STEPS,
                _COLLAPSED,
                100 * cut,
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

"""The `pretrain` loop: everything that one optimizer step computes, in its order, in `PretrainLoop.steps`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils import clip_grad_norm_

from lab.contracts import Evaluation, Step
from lab.contracts.loss import IGNORED
from lab.data.cache import TokenCache
from lab.data.packing import Sampler
from lab.training import checkpoint, fingerprint, flops, model, optimizer
from lab.training.batch import move
from lab.training.precision import allow_tf32, computing
from lab_pretrain.feed import Feed
from lab_pretrain.options import Sections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from lab.contracts import LoopContext
    from lab.training.batch import MicroBatch

logger = logging.getLogger(__name__)
REPEATS = (
    "an evaluation of %d batches of %d tokens sees validation documents more than once: "
    "raise data.validation_tokens or lower evaluate.batches"
)


class PretrainLoop:
    """Trains a decoder from scratch on packed documents, as the baseline does."""

    def __init__(self, context: LoopContext) -> None:
        assert context.tokens is not None, "the worker hands over the token cache of an experiment with [data]"
        assert context.attention is not None
        assert context.loss is not None
        allow_tf32()
        self.context = context
        self.attention, self.loss = context.attention, context.loss
        self.sections = sections = Sections.of(context.experiment)
        self.cache = TokenCache.open(context.tokens)
        self.vocabulary = int(self.cache.manifest["tokenizer"]["vocabulary"])
        self.cache.require(vocabulary=self.vocabulary)
        self.feed = Feed(self._train_sampler(), sections.data.context, sections.batch, sections.train, context.device)
        self.model = model.build(
            sections.model,
            sections.train,
            vocabulary=self.vocabulary,
            context=sections.data.context,
            seed=context.experiment.seed,
            device=context.device,
            rows=self.feed.static.rows if self.feed.static else None,
        )
        self.parameters = list(self.model.parameters())
        self.optimizer = optimizer.adamw(self.model, sections.optimizer)
        self.step = 0
        self._told_of_repeats = False
        self._note_facts()

    def steps(self) -> Iterator[Step]:
        """One update after another: the loss of a step is a sum over its tokens until its gradients are scaled once."""
        phase = self.context.phase
        while True:
            with phase("batch"):
                fed = self.feed.next()
                targets = sum(batch.counted for batch in fed.batches)
            with phase("zero_grad"):
                self.optimizer.zero_grad(set_to_none=True)
            total = torch.zeros((), device=self.context.device)
            for batch in fed.batches:
                with phase("forward"):
                    loss = self._forward(batch)
                with phase("backward"):
                    loss.backward()
                total += loss.detach()
            mean = total / targets if targets else torch.full_like(total, torch.nan)
            norm = torch.zeros_like(total)
            with phase("optimizer"):
                if targets:  # a step without targets has no gradient: it counts, and changes nothing
                    optimizer.scale_gradients(self.parameters, 1.0 / targets)
                    norm = clip_grad_norm_(self.parameters, self.sections.optimizer.clip)
                    optimizer.step_if_finite(self.optimizer, self.step + 1, mean, norm)
            self.step += 1
            yield Step(
                loss=mean,
                targets=targets,
                gradient_norm=norm,
                tokens=sum(batch.inputs for batch in fed.batches),
                segments=sum(batch.segments for batch in fed.batches),
                packs=sum(batch.packs for batch in fed.batches),
                micro_batches=len(fed.batches),
                learning_rate=self.sections.optimizer.learning_rate,
                flops=self._flops(fed.batches),
                fed=fed.digest,
            )

    def evaluate(self) -> Evaluation | None:
        """Sum the loss over the validation batches, which a sampler rebuilt from the start draws in one fixed order."""
        section = self.context.experiment.evaluate
        if section is None:
            return None
        split, context = self.cache.split("validation"), self.sections.data.context
        sampler = Sampler(split, context=context, capacity=section.tokens, shuffle=False)
        packed = [sampler.next_batch() for _ in range(section.batches)]
        if sampler.epoch and not self._told_of_repeats:
            self._told_of_repeats = True
            logger.warning(REPEATS, section.batches, section.tokens)
        token_bytes = self.cache.token_bytes()
        loss, targets, tokens, text_bytes = 0.0, 0, 0, 0
        with torch.no_grad():
            for each in packed:
                batch = move(each, self.context.device)
                loss += float(self._forward(batch))
                targets += batch.counted
                tokens += batch.inputs
                text_bytes += int(token_bytes[each.targets[each.targets != IGNORED]].sum(dtype="int64"))
        inputs = fingerprint.fed(fingerprint.EMPTY, packed)
        return Evaluation(loss / targets, targets, tokens, len(packed), inputs, text_bytes)

    def state_dict(self) -> dict[str, object]:
        """Weights, moments, and where the data and its fingerprint stand."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "feed": self.feed.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after the step whose state this is."""
        checkpoint.check_same(self.model.state_dict(), state["model"])
        self.model.load_state_dict(state["model"])
        optimizer.load(self.optimizer, state["optimizer"])
        self.feed.load_state_dict(state["feed"])
        self.step = state["step"]

    def weights(self) -> str:
        """The fingerprint of the weights as they are now."""
        return fingerprint.weights(self.model)

    def _forward(self, batch: MicroBatch) -> Tensor:
        """The FP32 sum of the micro-batch's cross-entropies."""
        with computing(self.sections.train.precision, self.context.device):
            plan = self.attention.plan(batch.cu_seqlens, batch.max_seqlen)
            hidden = self.model.hidden(batch.tokens, batch.positions, self.attention, plan)
            return self.loss(hidden, self.model.head, batch.targets)

    def _flops(self, batches: tuple[MicroBatch, ...]) -> int:
        shape = self.sections.model
        tokens, squares = sum(batch.inputs for batch in batches), sum(batch.squares for batch in batches)
        return flops.step_flops(shape.layers, shape.width, self.vocabulary, tokens, squares)

    def _train_sampler(self) -> Sampler:
        context, batch = self.sections.data.context, self.sections.batch
        return Sampler(
            self.cache.split("train"),
            context=context,
            capacity=batch.tokens or context,
            packs=batch.packs or 1,
            buffer=batch.buffer,
            seed=self.context.experiment.seed,
        )

    def _note_facts(self) -> None:
        note = self.context.note
        note("parameters", sum(parameter.numel() for parameter in self.parameters))
        note("parameter_types", sorted({str(parameter.dtype) for parameter in self.parameters}))
        note("flops", {"formula": flops.FORMULA, "meaning": flops.MEANING})  # no text: the head shows those
        note("optimizer_groups", [
            {"weight_decay": group.weight_decay, "parameters": list(group.parameters)}
            for group in optimizer.groups(self.model, self.sections.optimizer.weight_decay)
        ])  # fmt: skip

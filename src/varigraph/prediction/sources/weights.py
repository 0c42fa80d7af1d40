"""Weights that training might have made others (EU1), as dropout masks tell."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from varigraph.errors import ModelError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.propagation import with_noise
from varigraph.moments.tape import Noise
from varigraph.options import warn
from varigraph.prediction.masks import fitting
from varigraph.prediction.network_call import injected, refuse_own_dropout
from varigraph.prediction.passes import NO_DROPOUT, covariance_over_masks
from varigraph.prediction.sources.source import Drawn, Source

if TYPE_CHECKING:
    from varigraph.prediction.masks import Site
    from varigraph.prediction.question import Question
    from varigraph.prediction.sampled.network import Inputs, Network
    from varigraph.prediction.sampled.shortcuts import Trial


class Weights(Source):
    """Dropout at prediction time, the network's own or injected: a mask wherever it acts."""

    name = "weights"
    epistemic = True
    masks = True
    in_small_space = True
    remedy = "train on more nodes like it"

    def held(self, question: Question) -> Question:  # noqa: D102
        return replace(question, samples=0)

    def uncertain(self, question: Question) -> bool:  # noqa: D102
        return question.masked

    def considered(self, question: Question) -> bool:  # noqa: D102
        return question.samples > 0

    def acting(self, question: Question, *, plain: bool) -> AbstractContextManager[None]:
        """Dropout is injected, where that is asked for."""
        if question.dropout is None:
            return nullcontext()
        return injected(question.model, question.dropout, plain=plain)

    def check_noises(self, noises: Sequence[Noise]) -> None:  # noqa: D102
        if not any(noise.source == self.name for noise in noises):
            warn(NO_DROPOUT)

    def by_masks(self, question: Question) -> Tensor | None:  # noqa: D102
        if question.weights != "sampled" or question.samples == 0:
            return None
        return covariance_over_masks(question.only(self.name), question.nodes)

    def draw(self, network: Network, sample: int, sites: Sequence[Site]) -> Drawn:  # noqa: D102
        return {place: network.mask(site, place, sample) for place, site in enumerate(sites)}

    def use(self, inputs: Inputs, drawn: Drawn) -> None:  # noqa: D102
        if drawn:
            inputs.masking = lambda site, place: fitting(drawn[place], site)

    def put(self, inputs: Inputs, network: Network, sample: int) -> None:
        """Masks are drawn where they are met, since a run tells where that is."""
        inputs.masking, inputs.masks_of = network.masking(sample), sample

    def check(self, trial: Trial) -> None:  # noqa: D102
        if trial.random and not trial.network.question.masked:
            raise ModelError(
                "the model draws random numbers even in evaluation mode, but its weights are to be "
                "taken as certain",
                f'leave that out at prediction time, or consider it: sources=(..., "{self.name}")',
            )

    def acts(self, trial: Trial) -> bool:  # noqa: D102
        return bool(trial.first.sites) or trial.random

    def reaches(self, *, coins: bool) -> bool:  # noqa: D102
        return False


WEIGHTS = Weights.name


def closed_form_dropout(x: Gaussian, rate: float) -> Gaussian:
    r"""Dropout as one more independent source: :math:`V[z h] = \frac{r}{1 - r} E[h^2]`.

    Args:
        x: what is dropped out.
        rate: r.
    """
    refuse_own_dropout(rate)
    return with_noise(x, rate / (1 - rate) * (x.mean.square() + x.var), WEIGHTS)

"""FLASH: Chang et al., "FLASH: federated learning across simultaneous heterogeneities", arXiv 2402.08769.

Client selection as a linear contextual bandit with Thompson sampling. In round t each of the m clients has a context
x_t(i), (d,); those chosen in round k have contexts X_k, (M_k, d), and rewards r_k, (M_k,):

    V_t = lam I + sum_k X_k^T X_k,    theta_hat = V_t^-1 sum_k X_k^T r_k
    a_t = sqrt(lam) + sqrt(d ln((1 + t m) / delta)),    theta ~ N(theta_hat, a_t^2 V_t^-1)

and the M_t clients with the largest theta^T x_t(i) are chosen. Clients train on a robust loss for noisy labels.

The context and the reward are **our reconstruction**: the exact vectors are not public. Both are functions that one
can replace. What they stand on, a client's signals (5,), are measured with the received model before it trains:

    entropy of its labels / ln k, loss on its validation rows, loss there with pseudo labels,
    share of training rows whose label is not the pseudo label, expected seconds of a round
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from horizontal.average import Contribution, UpdateError

Vector: TypeAlias = NDArray[np.float64]
SIGNALS = "signals"
"""The name of a client's signals among its extras: float64 (5,)."""
SIGNAL_COUNT = 5

Context: TypeAlias = Callable[[Vector, Vector, Vector], Vector]
"""(signals (m, 5), numbers of training rows (m,), rounds since last chosen (m,)) -> contexts (m, d)."""
Reward: TypeAlias = Callable[[float, Vector, Vector], Vector]
"""(drop of the global loss, cosine of each chosen client's change to the mean change (s,), seconds (s,)) -> (s,)."""


def check_signals(contribution: Contribution) -> None:
    """UpdateError naming the client if a signal, in a description or an update, is negative: none can be."""
    if (contribution.extras[SIGNALS].astype(np.float64) < 0).any():
        raise UpdateError(f"{contribution.client}: expected signals of 0 or more, some are negative")


def default_context(signals: Vector, examples: Vector, since: Vector) -> Vector:
    """(m, 8) in [0, 1] (ours): share of rows, the five signals, rounds since last chosen, and 1.

    Rows and seconds are shares of the largest; losses and rounds are squeezed by x/(1 + x).
    """
    entropy, given, pseudo, disagreement, seconds = signals.T
    columns = (
        *(_share(examples), entropy, _squeezed(given), _squeezed(pseudo)),
        *(disagreement, _share(seconds), _squeezed(since), np.ones(len(signals))),
    )
    return np.stack(columns, axis=1)


def default_reward(price: float) -> Reward:
    """The drop, shared by alignment max(0, cosine), minus `price` times the share of the longest time (ours)."""

    def reward(drop: float, alignment: Vector, seconds: Vector) -> Vector:
        return drop * _part(np.maximum(0.0, alignment)) - price * _share(seconds)

    return reward


def _share(x: Vector) -> Vector:
    return x / x.max() if x.max(initial=0.0) > 0 else np.zeros_like(x)


def _part(x: Vector) -> Vector:
    return x / x.sum() if x.sum() > 0 else np.full_like(x, 1 / max(len(x), 1))


def _squeezed(x: Vector) -> Vector:
    return x / (1 + x)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bandit:
    """What the bandit has seen: `gram` V_t (d, d) and `moment` sum of X_k^T r_k (d,)."""

    gram: Vector
    moment: Vector

    @classmethod
    def of(cls, size: int, lam: float) -> Bandit:
        """One that has seen nothing, for contexts of `size` d; lam > 0."""
        return cls(gram=lam * np.eye(size), moment=np.zeros(size))

    def learned(self, contexts: Vector, rewards: Vector) -> Bandit:
        """After a round with contexts (M, d) and rewards (M,)."""
        return Bandit(gram=self.gram + contexts.T @ contexts, moment=self.moment + contexts.T @ rewards)

    def estimate(self) -> Vector:
        """theta_hat (d,)."""
        return np.asarray(linalg.cho_solve((linalg.cholesky(self.gram, lower=True), True), self.moment))

    def draw(self, width: float, generator: np.random.Generator) -> Vector:
        """theta (d,): with V = L L^T and z ~ N(0, I), L^-T z has the covariance V^-1."""
        lower = linalg.cholesky(self.gram, lower=True)
        noise = linalg.solve_triangular(lower, generator.standard_normal(len(lower)), lower=True, trans="T")
        return self.estimate() + width * np.asarray(noise)


def width(number: int, clients: int, size: int, *, lam: float, delta: float) -> float:
    """a_t of round t = `number` with m `clients` and contexts of `size` d."""
    return math.sqrt(lam) + math.sqrt(size * math.log((1 + number * clients) / delta))


def patience(rounds: int) -> int:
    """N: 1 % of the rounds, but at least 3."""
    return max(3, math.ceil(rounds / 100))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """What the aggregator keeps between rounds, arrays over the m clients in their given order.

    `signals` (m, 5), NaN for a client that has not answered yet; `examples` its training rows; `since` rounds since it
    was last chosen; `behind` for how many of its rounds in a row it disappointed; `retired`. Of the last round, until
    its reward is known: `waiting` who was chosen, `contexts` (m, d), `alignment`.
    """

    bandit: Bandit
    signals: Vector
    examples: Vector
    since: Vector
    behind: NDArray[np.int64]
    retired: NDArray[np.bool_]
    waiting: NDArray[np.bool_]
    contexts: Vector
    alignment: Vector

    @classmethod
    def of(cls, clients: int, size: int, lam: float) -> Memory:
        """The memory before the first round."""
        zeros, none = np.zeros(clients), np.zeros(clients, np.bool_)
        return cls(
            bandit=Bandit.of(size, lam),
            signals=np.full((clients, SIGNAL_COUNT), np.nan),
            examples=zeros,
            since=zeros,
            behind=np.zeros(clients, np.int64),
            retired=none,
            waiting=none,
            contexts=np.zeros((clients, size)),
            alignment=zeros,
        )

    @property
    def known(self) -> NDArray[np.bool_]:
        """Who has sent signals."""
        return np.asarray(~np.isnan(self.signals).any(axis=1))

    def loss(self) -> float:
        """The global loss: the mean over all known clients' rows of the last loss that each reported (ours)."""
        rows = self.examples * self.known
        return float(rows @ np.nan_to_num(self.signals[:, 1]) / rows.sum()) if rows.sum() > 0 else 0.0

    def context(self, function: Context) -> Vector:
        """The contexts (m, d) now; those of unknown clients mean nothing."""
        return function(np.nan_to_num(self.signals), self.examples, self.since)

    def heard(
        self, signals: Vector, examples: Vector, reward: Reward, *, literal: bool, limit: int
    ) -> Memory:
        """With new signals (m, 5), NaN for clients that sent none, and rows (m,).

        They settle the reward of the last round, from which the bandit learns. A client whose reward was below its
        predicted theta_hat^T x for `limit` of its rounds in a row is retired (ours); `literal` takes the paper's words,
        which retire a client whose reward is *above* its prediction.
        """
        came = ~np.isnan(signals).any(axis=1)
        after = replace(
            self,
            signals=np.where(came[:, None], signals, self.signals),
            examples=np.where(came, examples, self.examples),
        )
        chosen = self.waiting
        if not came.any() or not chosen.any():
            return after
        x, seconds = self.contexts[chosen], after.signals[chosen, 4]
        rewards = reward(self.loss() - after.loss(), self.alignment[chosen], seconds)
        predicted = x @ self.bandit.estimate()
        behind = self.behind.copy()
        behind[chosen] = np.where(
            predicted < rewards if literal else rewards < predicted, behind[chosen] + 1, 0
        )
        return replace(
            after,
            bandit=self.bandit.learned(x, rewards),
            behind=behind,
            retired=self.retired | (behind >= limit),
            waiting=np.zeros_like(chosen),
        )

    def trained(self, contexts: Vector, alignment: Vector) -> Memory:
        """After a round: the contexts (m, d) it was chosen by, and for those who trained, the alignment, else NaN."""
        chosen = ~np.isnan(alignment)
        since = np.where(chosen, 0.0, self.since + 1)
        return replace(
            self, since=since, waiting=chosen, contexts=contexts, alignment=np.nan_to_num(alignment)
        )


def choose(scores: Vector, may_take_part: NDArray[np.bool_], size: int) -> list[int]:
    """The `size` clients with the largest scores (m,), or all who may take part if they are fewer; sorted."""
    order = [int(i) for i in np.argsort(-scores, kind="stable") if may_take_part[i]]
    return sorted(order[:size])

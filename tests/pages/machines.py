"""How long simulated workers take, by the models that the pages of papers state: the mean of the
slowest from the distribution of a maximum, rounds as clocks that wait for one another. No line of
the program is used. Times in seconds, bandwidths in bytes a second."""

import heapq
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

CDF = NormalDist().cdf
FORWARD = 1 / 3  # of the computation of a step


@dataclass(frozen=True)
class Machines:
    node: int  # workers on one
    inside: float  # bandwidth within a node
    inside_latency: float
    between: float
    latency: float

    def together(self, i, j):
        return i // self.node == j // self.node

    def transfer(self, i, j, size, sharing):
        if self.together(i, j):
            return self.inside_latency + size / self.inside
        return self.latency + size * sharing / self.between

    def all_reduce(self, n, size):
        """Among n workers in a row: the faster of a ring through all and a tree of nodes."""
        nodes, here = math.ceil(n / self.node), min(n, self.node)
        wire = min(self.inside if here > 1 else math.inf, self.between if nodes > 1 else math.inf)
        crossings = nodes if nodes > 1 else 0
        ring = 2 * (n - 1) / n * (crossings * self.latency +
                                  (n - crossings) * self.inside_latency + size / wire)
        tree = 2 * (math.ceil(math.log2(nodes)) * self.latency +
                    (here - 1) * self.inside_latency + size / wire)
        return min(ring, tree)


JEAN_ZAY = Machines(8, 2e11, 1e-5, 12.5e9, 2e-5)


def mean_of_slowest(of, means, sigma):
    """E of(T), T the largest of log-normal times with these means: the integral over P(T <= t)."""
    counted = {m: means.count(m) for m in set(means)}
    first, last = math.log(min(means)) - 6 * sigma, math.log(max(means)) + 7 * sigma
    t = np.exp(np.linspace(first, last, 3000))
    below = np.ones(len(t))
    for mean, count in counted.items():
        below *= np.array([CDF((math.log(v / mean) + sigma**2 / 2) / sigma) for v in t]) ** count
    middle = (t[1:] + t[:-1]) / 2
    return float(np.sum(np.array([of(v) for v in middle]) * np.diff(below)))


def reduced(slowest, buckets, took):
    """The end of a step: bucket b of the gradients is there once its part of backward is done, and
    waits for the ones before."""
    return max((FORWARD + (1 - FORWARD) * b / buckets) * slowest + (buckets - b + 1) * took
               for b in range(1, buckets + 1))


def all_reduce_step(machines, means, sigma, size, buckets):
    took = machines.all_reduce(len(means), size / buckets)
    return mean_of_slowest(lambda slowest: reduced(slowest, buckets, took), means, sigma)


# --- one slow worker; each on a node of its own

APART = Machines(1, 1e11, 1e-5, 3.125e9, 1e-4)
GRADIENT, MODEL, SIGMA = .25, 102e6, .3


def efficiency(method, n, runs=64):
    """Steps of all workers by those of workers that never wait: one needs three times as long."""
    means = np.full(n, GRADIENT)
    means[3] *= 3
    rng = np.random.default_rng(n)

    def draw(*count):
        return means * np.exp(SIGMA * rng.normal(size=(*count, n)) - SIGMA**2 / 2)

    if method == "allreduce":
        return n / all_reduce_step(APART, list(means), SIGMA, MODEL, 4) / np.sum(1 / means)
    if method == "local-sgd":
        slowest = draw(runs * 40, 8).sum(axis=1).max(axis=1).mean()
        return n / ((slowest + APART.all_reduce(n, MODEL)) / 8) / np.sum(1 / means)
    # These begin together, and the slow one is felt further away later: so to the same end.
    wire, now, computed = APART.transfer(0, 1, MODEL, 1), np.zeros((runs, n)), np.zeros((runs, n))
    out, k = np.zeros(runs), 0
    while not out.all():
        took = draw(runs)
        computed += took
        if method == "sgp":  # waits for the end of one other's step, and for its model
            there = np.roll(now + took, 2 ** (k % math.ceil(math.log2(n))), axis=1)
            now = np.maximum(now + took, there) + wire
        else:  # both neighbours' models of the step before, one after the other
            both = np.sort([np.roll(now, 1, axis=1), np.roll(now, -1, axis=1)], axis=0)
            here = np.maximum(now, both[0]) + wire
            now = np.maximum(now + took, np.maximum(here, both[1]) + wire)
        k += 1
        ended = (now[:, 0] >= 1000 * GRADIENT) & (out == 0)
        out[ended] = (1 / now[ended]).sum(axis=1) / (1 / computed[ended]).sum(axis=1)
    return out.mean()


# --- without spread: iterations of clusters whose nodes share a link

def groups(rounds, n, node, k):
    """Who meets whom in round k: of each worker the others that it waits for."""
    powers = round(math.log2(n))
    if rounds == "one-peer-exp":
        return [[i ^ 2 ** (k % powers)] for i in range(n)]
    if rounds == "one-peer-exp-directed":
        return [[(i - 2 ** (k % powers)) % n] for i in range(n)]
    hop = 2 ** (k // 2 % round(math.log2(n // node)))  # aer
    out = []
    for i in range(n):
        here, other = i // node, i // node ^ hop
        low = min(here, other)
        pair = low // (2 * hop) * hop + low % hop
        met = [here] if pair % 2 == k % 2 else [here, other]
        out.append([j for j in range(n) if j // node in met and j != i])
    return out


def iteration(machines, rounds, n, compute, size):
    """Of steps that send models beside the computation of the next, in the time of 600 gradients
    that nothing delays."""
    period = round(2 * math.log2(n // machines.node) if rounds == "aer" else math.log2(n))
    now, plans = np.zeros(n), []
    for k in range(max(period, 1)):
        met = groups(rounds, n, machines.node, k)
        crossing = np.zeros(n // machines.node, int)  # models that leave a node at a time
        for i, others in enumerate(met):
            crossing[i // machines.node] += any(not machines.together(i, j) for j in others)
        plan = []
        for i, others in enumerate(met):
            if rounds == "aer":  # one mean of the group
                seconds = machines.all_reduce(len(others) + 1, size)
            else:
                j = others[0]
                share = max(1, crossing[i // machines.node], crossing[j // machines.node])
                seconds = machines.transfer(i, j, size, share)
            plan.append((np.array(others), seconds))
        plans.append(plan)
    steps = 0
    while now[0] < 600 * compute:
        plan = plans[steps % len(plans)]
        now = np.array([max(now[i] + compute, max(now[i], now[others].max()) + seconds)
                        for i, (others, seconds) in enumerate(plan)])
        steps += 1
    return now[0] / steps


# --- the pairing of A2CiD2's published code

def part_that_waits(machines, n, compute, sigma, size, gradients, generator=1):
    """Of the time: worker 0 pairs who is free with a free neighbour on the exponential graph, in
    random order; both then send, one after the other. A gradient waits at a barrier until its
    exchanges are done, of which each has one more, or as many more as Poisson's law of mean 1
    says."""
    rng = np.random.default_rng(generator)
    hops = [2**k for k in range(int(math.log2(n // 2)) + 1)]
    near = [sorted({(i + s * h) % n for h in hops for s in (1, -1)}) for i in range(n)]
    spread = lambda: math.exp(sigma * rng.normal() - sigma**2 / 2)
    message = lambda i, j: machines.transfer(i, j, 0, 1)
    due, order = [], 0

    def later(at, *what):
        nonlocal order
        order += 1
        heapq.heappush(due, (at, order, what))

    free, computed, exchanged = set(), [False] * n, [False] * n
    wanted, made, since = [1] * n, [0] * n, [0.0] * n
    leaving = [0] * (n // machines.node + 1)
    waited, done, now = 0.0, 0, 0.0

    def at_barrier(i):
        nonlocal waited
        if not (computed[i] and exchanged[i]):
            return
        computed[i] = exchanged[i] = False
        waited += now - since[i]
        wanted[i] += int(rng.poisson(1))
        later(now + compute * spread(), "computed", i)
        later(now + message(i, 0), "free", i)

    for i in range(n):
        later(compute * spread(), "computed", i)
        later(message(i, 0), "free", i)
    while done < gradients:
        now, _, (what, i, *other) = heapq.heappop(due)
        if what == "computed":
            done += 1
            computed[i], since[i] = True, now
            at_barrier(i)
        elif what == "free":
            partner = next((j for j in rng.permutation(near[i]) if j in free), None)
            if partner is None:
                free.add(i)
                continue
            free.remove(partner)
            ends = {i // machines.node, int(partner) // machines.node}
            if len(ends) > 1:
                for end in ends:
                    leaving[end] += 1
            share = (max(leaving[end] for end in ends) + 1) // 2  # half of them go each way
            one_way = machines.transfer(i, int(partner), size, max(share, 1))
            told = max(message(0, i), message(0, int(partner)))
            later(now + told + 2 * one_way, "exchanged", i, int(partner))
        else:
            pair = (i, other[0])
            if not machines.together(*pair):
                for worker in pair:
                    leaving[worker // machines.node] -= 1
            for worker in pair:
                made[worker] += 1
                if made[worker] < wanted[worker]:
                    later(now + message(worker, 0), "free", worker)
                else:
                    exchanged[worker] = True
                    at_barrier(worker)
    return waited / now / n

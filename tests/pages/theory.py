"""What the pages for learners say, computed from textbooks' formulas with numpy: no line of the
program is used. Graphs are lists of edges (i, j, rate), rates n/2 together."""

import math

import numpy as np


def graph(name, n):
    if name == "ring":
        pairs = [(i, (i + 1) % n) for i in range(n)]
    elif name == "chain":
        pairs = [(i, i + 1) for i in range(n - 1)]
    elif name == "star":
        pairs = [(0, i) for i in range(1, n)]
    elif name == "complete":
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    else:
        raise ValueError(name)
    return [(i, j, n / 2 / len(pairs)) for i, j in pairs]


def chi(name, n):
    """chi1 from the smallest eigenvalue above 0, chi2 by the potentials of a unit current."""
    laplacian = np.zeros((n, n))
    for i, j, rate in graph(name, n):
        d = np.zeros(n)
        d[i], d[j] = 1, -1
        laplacian += rate * np.outer(d, d)
    grounded = np.linalg.inv(laplacian[1:, 1:])  # worker 0 has the potential 0
    resistances = []
    for i, j, _ in graph(name, n):
        current = np.zeros(n)
        current[i], current[j] = 1, -1
        volts = np.concatenate([[0], grounded @ current[1:]])
        resistances.append(volts[i] - volts[j])
    return 1 / np.linalg.eigvalsh(laplacian)[1], max(resistances) / 2


def constants(name, n):
    one, two = chi(name, n)
    return 1 / (2 * math.sqrt(one * two)), math.sqrt(one / two) / 2


def spectral(name, n):
    """rho of Metropolis weights, and the rounds until a millionth."""
    degree = np.zeros(n)
    for i, j, _ in graph(name, n):
        degree[i] += 1
        degree[j] += 1
    w = np.eye(n)
    for i, j, _ in graph(name, n):
        weight = 1 / (1 + max(degree[i], degree[j]))
        w[i, j] += weight
        w[j, i] += weight
        w[i, i] -= weight
        w[j, j] -= weight
    rho = sorted(abs(np.linalg.eigvalsh(w)))[-2]
    return rho, (1 if rho < 1e-9 else math.ceil(math.log(1e-6) / math.log(rho)))


class Ring:
    """E[z z'] of z = (x, x~) of all workers of a ring, exactly, as exchanges come at random times.
    Between them x and x~ drift; in one, z <- z - u (d'z), which makes of E = E[z z']
    E - u (d'E) - (E d) u' + (d'E d) u u'. Plain gossip has no x~."""

    def __init__(self, n, accelerated):
        self.eta, alpha_tilde = constants("ring", n) if accelerated else (0, .5)
        self.n, self.h = n, .2 if accelerated else .5  # of steps in time
        self.by = np.array([.5, alpha_tilde] if accelerated else [.5])
        copies, apart = len(self.by), np.eye(n) - 1 / n
        self.start = np.kron(np.ones((copies, copies)), apart)
        self.apart = np.kron(np.eye(copies), apart)

    def change(self, s):
        n = self.n
        along = (s[:n] - np.roll(s[:n], -1, 0)) / 2  # d'E of each edge, times its rate
        squares = np.diag(along[:, :n]) - np.diag(np.roll(along[:, :n], -1, 1))
        once = along - np.roll(along, 1, 0)
        out = -np.vstack([b * once for b in self.by])
        if self.eta:
            out += self.eta * (np.vstack([s[n:], s[:n]]) - s)
        edges = np.diag(squares + np.roll(squares, 1))
        i = np.arange(n)
        edges[i, (i + 1) % n] -= squares
        edges[(i + 1) % n, i] -= squares
        return out + out.T + np.kron(np.outer(self.by, self.by), edges)

    def step(self, s):
        h, f = self.h, self.change
        a = f(s)
        b = f(s + h / 2 * a)
        c = f(s + h / 2 * b)
        return s + h / 6 * (a + 2 * b + 2 * c + f(s + h * c))

    def steps(self, s):  # 50; what rounding adds to the mean, and between z and z', would stay
        for _ in range(50):
            s = self.step(s)
        s = self.apart @ s @ self.apart
        return (s + s.T) / 2

    def distance(self, s):
        return np.trace(s[:self.n, :self.n]) / self.n

    def slope(self, begin, end):
        """Of the logarithm of the mean (x - mean)^2 between two times, by least squares."""
        s, curve = self.start, []
        for _ in range(round(end / self.h) + 1):
            curve.append(self.distance(s))
            s = self.step(s)
        return slope(np.array(curve), self.h, begin, end)

    def rate_in_the_long_run(self):
        s, last, rate = self.start, self.distance(self.start), 0
        for k in range(1000):
            s = self.steps(s)
            now = self.distance(s)
            before, rate = rate, -math.log(now / last) / (50 * self.h)
            s, last = s / now, 1
            if k > 5 and abs(rate - before) < 1e-5 * rate:
                return rate
        raise RuntimeError("the rate does not settle")


class Noisy(Ring):
    """The same with momentum: z = (x, x~, m). At random times, one a unit, a worker draws g of
    variance 1, and m <- momentum m + g, x <- x - m, x~ <- x~ - m."""

    def __init__(self, n, accelerated, momentum):
        super().__init__(n, accelerated)
        copies = len(self.by)
        self.kept = np.array([-momentum] * copies + [momentum - 1])
        self.drawn = np.array([-1.] * copies + [1])
        self.all_apart = np.kron(np.eye(copies + 1), np.eye(n) - 1 / n)

    def change(self, s):
        n, z = self.n, len(self.by) * self.n
        mixed = super().change(s[:z, :z])
        # m beside x and x~: exchanges and drift change these only
        beside = s[:z, z:]
        along = (beside[:n] - np.roll(beside[:n], -1, 0)) / 2
        once = along - np.roll(along, 1, 0)
        part = -np.vstack([b * once for b in self.by])
        if self.eta:
            part += self.eta * (np.vstack([beside[n:], beside[:n]]) - beside)
        out = np.block([[mixed, part], [part.T, np.zeros((n, n))]])
        steps = np.vstack([b * s[z:] for b in self.kept])
        of_m = np.diag(np.diag(s[z:, z:]))
        return out + steps + steps.T + np.kron(np.outer(self.kept, self.kept), of_m) + np.kron(
            np.outer(self.drawn, self.drawn), np.eye(n))

    def floor(self):
        """Where the mean (x - mean)^2 settles."""
        s, last = 0 * self.all_apart, 0
        for _ in range(1000):
            for _ in range(50):
                s = self.step(s)
            s = self.all_apart @ s @ self.all_apart
            now = self.distance(s)
            if abs(now - last) < 2e-4 * now:
                return now
            last = now
        raise RuntimeError("the floor does not settle")


def slope(curve, h, begin, end):
    t = h * np.arange(len(curve))
    part = (t >= begin) & (t <= end)
    return -np.polyfit(t[part], np.log(curve[part]), 1)[0]


def published(n, end, seeds, staleness=math.inf, generator=1):
    """(x - mean)^2 on a ring at whole times, mean over seeds, in the published order of events: x
    is sent as it was last written (at most `staleness` ago), then x and x~ drift, then x becomes
    the mean of both. All seeds at once; each has its own times and edges."""
    rng = np.random.default_rng(generator)
    eta, alpha_tilde = constants("ring", n)
    x = rng.normal(size=(seeds, n))
    twin, written = x.copy(), np.zeros((seeds, n))
    clock, all_seeds = np.zeros(seeds), np.arange(seeds)
    out, seen = np.zeros((end + 1, seeds)), np.zeros(seeds, int)

    def drift(i, until):
        e = np.exp(-2 * eta * np.maximum(until - written[all_seeds, i], 0))
        a, b = x[all_seeds, i], twin[all_seeds, i]
        x[all_seeds, i] = (1 + e) / 2 * a + (1 - e) / 2 * b
        twin[all_seeds, i] = (1 - e) / 2 * a + (1 + e) / 2 * b
        written[all_seeds, i] = np.maximum(until, written[all_seeds, i])

    def spread(of, now):
        e = np.exp(-2 * eta * (now[:, None] - written[of]))
        return ((1 + e) / 2 * x[of] + (1 - e) / 2 * twin[of]).var(axis=1)

    while (seen <= end).any():
        clock = clock + rng.exponential(2 / n, seeds)
        while len(passed := np.flatnonzero((seen <= end) & (seen <= clock))):
            out[seen[passed], passed] = spread(passed, seen[passed])
            seen[passed] += 1
        i = rng.integers(n, size=seeds)
        j = (i + 1) % n
        sent = []
        for worker in (i, j):
            if math.isfinite(staleness):
                drift(worker, clock - staleness)
            sent.append(x[all_seeds, worker].copy())
        for worker, received in ((i, sent[1]), (j, sent[0])):
            drift(worker, clock)
            mine = x[all_seeds, worker]
            twin[all_seeds, worker] += alpha_tilde * (received - mine)
            x[all_seeds, worker] = (mine + received) / 2
    return out.mean(axis=1)


def part_that_is_kept(n=16, runs=20000, most=5):
    """On a ring, by plain gossip: what part of a number of worker 0 is still there after its 1st,
    2nd ... exchange since; means over runs."""
    rng = np.random.default_rng(2)
    x, out = np.zeros((runs, n)), np.zeros(most)
    x[:, 0] = 1
    own, rows = np.zeros(runs, int), np.arange(runs)
    while (own < most).any():
        i = rng.integers(n, size=runs)
        j = (i + 1) % n
        x[rows, i] = x[rows, j] = (x[rows, i] + x[rows, j]) / 2
        met = ((i == 0) | (j == 0)) & (own < most)
        np.add.at(out, own[met], x[met, 0])
        own += met
    return out / runs


def slowest(name, n):
    """A start of the Laplacian's smallest eigenvalue above 0."""
    if name == "ring":
        return np.cos(2 * np.pi * np.arange(n) / n)
    return np.eye(n)[1] - np.eye(n)[2]


def exchanges_of_a2cid2(name, n, runs):
    """Until the mean over runs of |x - mean|^2 is 1e-12 of its start, the slowest one."""
    rng = np.random.default_rng(3)
    edges = graph(name, n)
    ends = np.array([e[:2] for e in edges])
    eta, alpha_tilde = constants(name, n)
    x = np.tile(slowest(name, n), (runs, 1))
    x /= np.linalg.norm(x[0])
    twin, last = x.copy(), np.zeros((runs, n))
    clock, rows, count, apart = np.zeros(runs), np.arange(runs), 0, 1
    while apart > 1e-12:
        count += 1
        clock += rng.exponential(2 / n, runs)
        i, j = ends[rng.integers(len(edges), size=runs)].T
        for w in (i, j):
            e = np.exp(-2 * eta * (clock - last[rows, w]))
            a, b = x[rows, w], twin[rows, w]
            x[rows, w] = ((1 + e) * a + (1 - e) * b) / 2
            twin[rows, w] = ((1 - e) * a + (1 + e) * b) / 2
            last[rows, w] = clock
        d = x[rows, i] - x[rows, j]
        x[rows, i] -= d / 2
        x[rows, j] += d / 2
        twin[rows, i] -= alpha_tilde * d
        twin[rows, j] += alpha_tilde * d
        if count % n == 0:
            e = np.exp(-2 * eta * (clock[:, None] - last))
            now = ((1 + e) * x + (1 - e) * twin) / 2
            apart = n * now.var(axis=1).mean()
    return count


def exchanges_until_agreed(name):
    """For 16, 32 ... 1,024 workers: simulated up to 64, then by the law of growth, n or n^2."""
    out = [(exchanges_of_a2cid2(name, n, 200), .1) for n in (16, 32, 64)]
    growth = 4 if name == "ring" else 2
    return out + [(out[-1][0] * growth ** k, .12) for k in range(1, 5)]


# --- table 1 of A2CiD2: exchanges until |x - mean| is a millionth, from the slowest start

def waves(name, n):
    """Eigenvalues of the Laplacian above 0, each with how often it is there; the slowest first."""
    if name == "ring":
        return [(2 - 2 * math.cos(2 * math.pi * k / n), 1 if 2 * k == n else 2)
                for k in range(1, n // 2 + 1)]
    return [(n, n - 1)] if name == "complete" else [(1, n - 2), (n, 1)]


def edges_of(name, n):
    return {"ring": n, "star": n - 1, "complete": n * (n - 1) // 2}[name]


def exchanges_in_rounds(name, n):
    """Synchronous, and accelerated: |x| falls as 1/T_k(1/rho) with Chebyshev's polynomials."""
    weight, edges = 1 / 3 if name == "ring" else 1 / n, edges_of(name, n)
    rho = 1 - weight * waves(name, n)[0][0]
    if rho < 1e-9:
        return [edges, edges]
    return [edges * math.ceil(math.log(1e-6) / math.log(rho)),
            edges * math.ceil(math.acosh(1e6) / math.acosh(1 / rho))]


def exchanges_at_random_times(name, n):
    """Of A2CiD2: the second moments of each wave in x and x~, exactly. All edges of these graphs
    look alike, so E (x_i - x_j)^2 is the same on each: the sum over waves, by the edges. So is
    their resistance, (n - 1) by the sum of all rates (Foster), of which chi2 is a half."""
    edges = edges_of(name, n)
    rate, two = n / 2 / edges, (n - 1) / n
    one = 1 / rate / waves(name, n)[0][0]
    eta, alpha_tilde = 1 / (2 * math.sqrt(one * two)), math.sqrt(one / two) / 2
    values, counts = map(np.array, zip(*waves(name, n)))
    m = len(values)
    a = np.zeros((3 * m, 3 * m))  # of xx, xx~, x~x~, each for all waves
    xx, xy, yy = (slice(k * m, (k + 1) * m) for k in range(3))
    own = np.diag(rate * values)
    a[xx, xx] -= own
    a[xy, xy] -= own / 2
    a[xy, xx] -= own * alpha_tilde
    a[yy, xy] -= 2 * own * alpha_tilde
    for part, by in ((xx, .25), (xy, alpha_tilde / 2), (yy, alpha_tilde**2)):
        a[part, xx] += rate * by * np.outer(values, counts * values) / edges
    for part, to, by in ((xx, xx, -2), (xx, xy, 2), (xy, xy, -2), (xy, xx, 1), (xy, yy, 1),
                         (yy, yy, -2), (yy, xy, 2)):
        a[part, to] += eta * by * np.eye(m)
    start = np.zeros(m)
    start[0] = 1 / counts[0]
    state, step = np.tile(start, 3), 6 * math.log(10) / eta / 200
    forward = exponential(a * step)
    before, time = 1, 0
    while True:
        state, time = forward @ state, time + step
        now = counts @ state[xx]
        if now <= 1e-12:
            return (time - step * math.log(1e-12 / now) / math.log(before / now)) * n / 2
        before = now


def exponential(a):
    """e^a, by Taylor's series of a part and squaring."""
    halvings = max(0, math.ceil(math.log2(abs(a).sum(axis=1).max())) + 3)
    part, term = np.eye(len(a)), np.eye(len(a))
    for k in range(1, 9):
        term = term @ a / 2**halvings / k
        part = part + term
    for _ in range(halvings):
        part = part @ part
    return part


def powers_of_n(name):
    """By which the three counts grow, fitted over n = 16 ... 1,024."""
    sizes = [2**k for k in range(4, 11)]
    counts = [[*exchanges_in_rounds(name, n), exchanges_at_random_times(name, n)] for n in sizes]
    return np.polyfit(np.log(sizes), np.log(counts), 1)[0]

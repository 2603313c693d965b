// The simulator of dist/simulation in plain JavaScript, for up to 64 workers: the same random
// numbers, graphs, constants and events, so that a seed gives the run of the program. No drawing.
"use strict";
const Engine = (() => {
  // --- random numbers: Philox4x32-10 (core/random.h); 64-bit numbers are pairs of 32 bits

  const high = (a, b) => {  // of the 64-bit product
    const al = a & 0xffff, ah = a >>> 16, bl = b & 0xffff, bh = b >>> 16;
    const lh = al * bh, hl = ah * bl;
    const middle = ((al * bl) >>> 16) + (lh & 0xffff) + (hl & 0xffff);
    return (ah * bh + (lh >>> 16) + (hl >>> 16) + (middle >>> 16)) >>> 0;
  };
  class Rng {
    constructor(seed, stream = 0, streamHigh = 0) {
      this.key = [seed >>> 0, Math.floor(seed / 4294967296) >>> 0];
      this.stream = [stream >>> 0, streamHigh >>> 0];
      this.counter = 0;
      this.words = [];
    }
    word() {
      if (!this.words.length) this.words = this.four(this.counter++);
      return this.words.shift();
    }
    four(counter) {
      let c0 = counter >>> 0, c1 = Math.floor(counter / 4294967296) >>> 0;
      let [c2, c3] = this.stream, [a, b] = this.key;
      for (let round = 0; round < 10; ++round) {
        const h0 = high(0xD2511F53, c0), l0 = Math.imul(0xD2511F53, c0) >>> 0;
        const h1 = high(0xCD9E8D57, c2), l1 = Math.imul(0xCD9E8D57, c2) >>> 0;
        c0 = (h1 ^ c1 ^ a) >>> 0;
        c1 = l1;
        c2 = (h0 ^ c3 ^ b) >>> 0;
        c3 = l0;
        a = (a + 0x9E3779B9) >>> 0;
        b = (b + 0xBB67AE85) >>> 0;
      }
      return [c0, c1, c2, c3];
    }
    uniform() {  // [0, 1), 53 bits
      const top = this.word();
      return (top * 2097152 + (this.word() >>> 11)) / 9007199254740992;
    }
    normal() {
      const u = 1 - this.uniform(), v = this.uniform();
      return Math.fround(Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * v));
    }
    exponential() { return -Math.log(1 - this.uniform()); }
  }

  // --- graphs (dist/graph/graph_shapes.cpp): edges {a, b, rate}, a < b, in order

  const shapes = {
    ring: (n, add) => { for (let i = 0; i < (n > 2 ? n : n - 1); ++i) add(i, (i + 1) % n); },
    chain: (n, add) => { for (let i = 0; i + 1 < n; ++i) add(i, i + 1); },
    complete: (n, add) => {
      for (let i = 0; i < n; ++i) for (let j = i + 1; j < n; ++j) add(i, j);
    },
    star: (n, add) => { for (let i = 1; i < n; ++i) add(0, i); },
    tree: (n, add) => { for (let i = 1; i < n; ++i) add((i - 1) >> 1, i); },
    exponential: (n, add) => {
      for (let hop = 1; hop <= n / 2; hop *= 2)
        for (let i = 0; i < n; ++i) add(i, (i + hop) % n);
    },
    hypercube: (n, add) => {
      if (n & (n - 1)) throw new Error("hypercube");
      for (let i = 0; i < n; ++i)
        for (let bit = 1; bit < n; bit *= 2) if (i < (i ^ bit)) add(i, i ^ bit);
    },
    torus: (n, add) => {
      let rows = 1;
      for (let r = 2; r * r <= n; ++r) if (n % r === 0) rows = r;
      if (rows === 1 && n > 3) throw new Error("rows");
      const columns = n / rows;
      for (let row = 0; row < rows; ++row)
        for (let c = 0; c < columns; ++c) {
          const here = row * columns + c;
          if (columns > 2 || c === 0) add(here, row * columns + (c + 1) % columns);
          if (rows > 2 || row === 0) add(here, (row + 1) % rows * columns + c);
        }
    }
  };

  // Edges sorted, repeated ones added up, rates scaled to rate * n / 2 for the whole network.
  function graphOf(n, pairs, rate = 1, active = n) {
    const weights = new Map();
    for (const [a, b, weight = 1] of pairs) {
      if (a === b) continue;
      const key = Math.min(a, b) * n + Math.max(a, b);
      weights.set(key, (weights.get(key) || 0) + weight);
    }
    const edges = [...weights].sort((x, y) => x[0] - y[0]).map(
        ([key, weight]) => ({a: Math.floor(key / n), b: key % n, rate: weight}));
    const total = edges.reduce((sum, e) => sum + e.rate, 0);
    for (const e of edges) e.rate *= rate * active / 2 / total;
    return {n, edges};
  }
  function makeGraph(name, n, rate = 1) {
    const pairs = [];
    shapes[name](n, (a, b) => pairs.push([a, b]));
    return graphOf(n, pairs, rate);
  }
  function pieces(graph) {  // the number of the piece in which each worker lies
    const root = Array.from({length: graph.n}, (_, i) => i);
    const find = i => { while (root[i] !== i) i = root[i]; return i; };
    for (const e of graph.edges) root[find(e.a)] = find(e.b);
    return root.map((_, i) => find(i));
  }
  // What is left without the dead: the neighbours of each are joined in a cycle (graph.h).
  function heal(graph, dead) {
    const w = new Map(), active = new Set();
    let total = 0;
    for (const e of graph.edges) {
      w.set(e.a * graph.n + e.b, e.rate);
      total += e.rate;
      active.add(e.a).add(e.b);
    }
    const before = active.size;
    for (let gone = 0; gone < graph.n; ++gone) {
      if (!dead[gone]) continue;
      const left = [];
      let rate = 0;
      for (const [key, weight] of [...w]) {
        const a = Math.floor(key / graph.n), b = key % graph.n;
        if (a !== gone && b !== gone) continue;
        left.push(a === gone ? b : a);
        rate += weight;
        w.delete(key);
      }
      left.sort((a, b) => a - b);
      const count = left.length;
      for (let k = 0; count > 1 && k < (count === 2 ? 1 : count); ++k) {
        const a = left[k], b = left[(k + 1) % count];
        const key = Math.min(a, b) * graph.n + Math.max(a, b);
        if (!w.has(key)) w.set(key, rate / count);
      }
      active.delete(gone);
    }
    const pairs = [...w].map(([key, weight]) =>
        [Math.floor(key / graph.n), key % graph.n, weight]);
    return graphOf(graph.n, pairs, 2 * total / before, active.size);
  }

  // --- eigenvalues of a symmetric matrix by Jacobi's rotations: values ascending, vectors[k]

  function eigen(matrix) {
    const n = matrix.length, a = matrix.map(row => Float64Array.from(row));
    const v = a.map((_, i) => { const row = new Float64Array(n); row[i] = 1; return row; });
    for (let sweep = 0; sweep < 60; ++sweep) {
      let off = 0, all = 0;
      for (let p = 0; p < n; ++p)
        for (let q = 0; q < n; ++q) all += a[p][q] ** 2, off += p === q ? 0 : a[p][q] ** 2;
      if (off <= 1e-32 * all) break;
      for (let p = 0; p < n; ++p)
        for (let q = p + 1; q < n; ++q) {
          if (a[p][q] === 0) continue;
          const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
          const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
          const c = 1 / Math.sqrt(t * t + 1), s = t * c;
          for (let k = 0; k < n; ++k) {
            const x = a[k][p], y = a[k][q];
            a[k][p] = c * x - s * y;
            a[k][q] = s * x + c * y;
          }
          for (let k = 0; k < n; ++k) {
            const x = a[p][k], y = a[q][k];
            a[p][k] = c * x - s * y;
            a[q][k] = s * x + c * y;
          }
          for (let k = 0; k < n; ++k) {
            const x = v[p][k], y = v[q][k];  // rows of v are the vectors
            v[p][k] = c * x - s * y;
            v[q][k] = s * x + c * y;
          }
        }
    }
    const order = a.map((_, i) => i).sort((i, j) => a[i][i] - a[j][j]);
    return {values: order.map(i => a[i][i]), vectors: order.map(i => v[i])};
  }
  function laplacian(graph) {
    const m = Array.from({length: graph.n}, () => new Float64Array(graph.n));
    for (const {a, b, rate} of graph.edges) {
      m[a][a] += rate, m[b][b] += rate;
      m[a][b] -= rate, m[b][a] -= rate;
    }
    return m;
  }
  // lambda2, chi1, chi2, eta, alphaTilde; the resistance of every edge; null: it falls apart.
  // Workers without edges do not count.
  function constants(whole) {
    const number = new Map();
    for (const e of whole.edges) number.set(e.a, 0).set(e.b, 0);
    [...number.keys()].sort((a, b) => a - b).forEach((worker, i) => number.set(worker, i));
    const graph = {n: number.size, edges: whole.edges.map(
        e => ({a: number.get(e.a), b: number.get(e.b), rate: e.rate}))};
    if (graph.n < 2) return null;
    const {values, vectors} = eigen(laplacian(graph));
    if (values[1] < 1e-9 * values[graph.n - 1]) return null;
    const resistances = graph.edges.map(e => {
      let r = 0;
      for (let k = 1; k < graph.n; ++k) r += (vectors[k][e.a] - vectors[k][e.b]) ** 2 / values[k];
      return r;
    });
    const chi1 = 1 / values[1], chi2 = Math.max(...resistances) / 2;
    return {lambda2: values[1], chi1, chi2, eta: 1 / (2 * Math.sqrt(chi1 * chi2)), alpha: .5,
            alphaTilde: .5 * Math.sqrt(chi1 / chi2), resistances, values};
  }

  // --- the exponent of E|x - mean|^2, exactly, from second moments (dist/graph/theory.cpp). Null:
  // not a graph that looks the same from every worker by moving along, and too large

  function solver(m) {  // LU with partial pivoting
    const n = m.length, order = m.map((_, i) => i);
    for (let k = 0; k < n; ++k) {
      let best = k;
      for (let i = k + 1; i < n; ++i) if (Math.abs(m[i][k]) > Math.abs(m[best][k])) best = i;
      [m[k], m[best]] = [m[best], m[k]];
      [order[k], order[best]] = [order[best], order[k]];
      const top = m[k];
      for (let i = k + 1; i < n; ++i) {
        const row = m[i], f = row[k] /= top[k];
        if (f !== 0) for (let j = k + 1; j < n; ++j) row[j] -= f * top[j];
      }
    }
    return b => {
      const x = order.map(i => b[i]);
      for (let i = 0; i < n; ++i) for (let j = 0; j < i; ++j) x[i] -= m[i][j] * x[j];
      for (let i = n - 1; i >= 0; --i) {
        for (let j = i + 1; j < n; ++j) x[i] -= m[i][j] * x[j];
        x[i] /= m[i][i];
      }
      return x;
    };
  }
  function movesAlong(graph) {
    const rate = new Map(graph.edges.map(e => [e.a * graph.n + e.b, e.rate]));
    const at = (a, b) => rate.get(Math.min(a, b) * graph.n + Math.max(a, b)) || 0;
    return graph.edges.every(e => {
      const next = at((e.a + 1) % graph.n, (e.b + 1) % graph.n);
      return Math.abs(next - e.rate) < 1e-12;
    });
  }
  function decayExponent(graph, eta, alphaTilde) {
    const n = graph.n, along = movesAlong(graph), twin = eta > 0;
    if (!along && n > (twin ? 12 : 20)) return null;
    const pairs = along ? n : n * n, kinds = twin ? 4 : 1, size = pairs * kinds;
    const place = (p, q) => along ? (q - p + n) % n : p * n + q;
    const index = (y, z, p, q) => (2 * y + z) * pairs + place(p, q);
    const near = Array.from({length: n}, () => []);
    for (const {a, b, rate} of graph.edges) near[a].push([b, rate]), near[b].push([a, rate]);
    const busiest = Math.max(...near.map(list => list.reduce((s, [, r]) => s + r, 0)));
    const kappa = 8 * (1 + eta + busiest), step = [.5, alphaTilde];
    const m = Array.from({length: size}, () => new Float64Array(size));
    for (let kind = 0; kind < kinds; ++kind)
      for (let which = 0; which < pairs; ++which) {
        const y = kind >> 1, z = kind & 1;
        const p = along ? 0 : Math.floor(which / n), q = along ? which : which % n;
        const out = m[index(y, z, p, q)];
        const add = (y2, z2, p2, q2, f) => { out[index(y2, z2, p2, q2)] += f; };
        if (twin) add(1 - y, z, p, q, eta), add(y, 1 - z, p, q, eta), add(y, z, p, q, -2 * eta);
        for (const [j, rate] of near[p])
          add(0, z, p, q, -rate * step[y]), add(0, z, j, q, rate * step[y]);
        for (const [j, rate] of near[q])
          add(y, 0, p, q, -rate * step[z]), add(y, 0, p, j, rate * step[z]);
        for (const [j, rate] of near[p]) {
          if (p !== q && j !== q) continue;
          const f = (p === q ? 1 : -1) * rate * step[y] * step[z];
          add(0, 0, p, p, f), add(0, 0, j, j, f), add(0, 0, p, j, -f), add(0, 0, j, p, -f);
        }
        for (let r = 0; r < n; ++r) add(y, z, r, q, -kappa / n), add(y, z, p, r, -kappa / n);
      }
    let x = new Float64Array(size);
    for (let kind = 0; kind < kinds; ++kind)
      for (let which = 0; which < pairs; ++which) {
        const same = along ? which === 0 : which % (n + 1) === 0;
        x[kind * pairs + which] = (same ? 1 : 0) - 1 / n;
      }
    const rightmost = (shift, rounds) => {  // inverse iteration
      const solve = solver(m.map((row, i) => {
        const copy = row.slice();
        copy[i] -= shift;
        return copy;
      }));
      let value = 0;
      for (let k = 0; k < rounds; ++k) {
        const next = solve(x), before = value;
        let along2 = 0, squares = 0;
        for (let i = 0; i < size; ++i) along2 += x[i] * next[i], squares += next[i] * next[i];
        value = shift + along2 / squares;
        x = next.map(v => v / Math.sqrt(squares));
        if (Math.abs(value - before) < 1e-12 * (1 + Math.abs(value)) && k > 8) break;
      }
      return value;
    };
    const rough = rightmost(.5, 200);
    return -rightmost(rough + .1 * Math.abs(rough) + 1e-4, 400);
  }

  // --- a worker of A2CiD2 (dist/gossip/a2cid2.h, dist/simulation/simulated_worker.h)

  const mixOver = drift => {
    const e = Math.exp(-2 * drift);
    return [(1 + e) / 2, (1 - e) / 2];
  };
  class Worker {
    // twin false: AD-PSGD
    constructor(x, {eta = 0, alpha = .5, alphaTilde = .5} = {}, twin = true) {
      this.x = Float64Array.from(x);
      this.twin = twin ? Float64Array.from(x) : null;
      Object.assign(this, {eta, alpha, alphaTilde, longestGap: 1e300, time: 0, drifted: 0});
    }
    gap(t) { return Math.min(Math.max(t - this.time, 0), this.longestGap); }
    drift(t) {
      const since = this.gap(t);
      const [c, s] = mixOver(this.eta * since);
      this.time = Math.max(this.time, t);
      this.drifted += this.eta * since;
      if (!this.twin) return;
      for (let k = 0; k < this.x.length; ++k) {
        const x = this.x[k], y = this.twin[k];
        this.x[k] = c * x + s * y;
        this.twin[k] = s * x + c * y;
      }
    }
    update(u) {
      for (let k = 0; k < u.length; ++k) {
        this.x[k] -= u[k];
        if (this.twin) this.twin[k] -= u[k];
      }
    }
    look(t) {  // x at t; changes nothing
      const [c, s] = mixOver(this.eta * this.gap(t));
      return this.twin ? this.x.map((v, k) => c * v + s * this.twin[k]) : this.x;
    }
    lookTwin(t) {
      const [c, s] = mixOver(this.eta * this.gap(t));
      return this.twin ? this.twin.map((v, k) => c * v + s * this.x[k]) : this.x;
    }
    snapshot(t) {  // leaves x and the twin alone
      return {mark: this.drifted + this.eta * this.gap(t), x: Float64Array.from(this.look(t))};
    }
    // The difference of the own snapshot and the received one, exactly, however late it is.
    arrived(snapshot, received) {
      const [c, s] = mixOver(this.drifted - snapshot.mark);
      const forX = c * this.alpha + s * this.alphaTilde;
      const forTwin = s * this.alpha + c * this.alphaTilde;
      for (let k = 0; k < this.x.length; ++k) {
        const d = snapshot.x[k] - received[k];
        this.x[k] -= forX * d;
        if (this.twin) this.twin[k] -= forTwin * d;
      }
    }
    // The published code: x becomes the mean of what it is now and what was received.
    published(t, received) {
      this.drift(t);
      for (let k = 0; k < this.x.length; ++k) {
        if (this.twin) this.twin[k] += this.alphaTilde * (received[k] - this.x[k]);
        this.x[k] = .5 * (this.x[k] + received[k]);
      }
    }
  }
  function exchange(a, b, t, method = "a2cid2") {
    if (method === "published") {
      const fromA = a.x.slice(), fromB = b.x.slice();
      a.published(t, fromB);
      b.published(t, fromA);
      return;
    }
    a.drift(t);
    b.drift(t);
    const one = a.snapshot(t), two = b.snapshot(t);
    a.arrived(one, two.x);
    b.arrived(two, one.x);
  }

  // --- rounds of pairs (dist/graph/rounds.cpp): the partner of a worker in round k, or -1

  const matchings = {
    "ring-matching": (n, k, i) => {
      const period = n <= 2 ? 1 : n % 2 ? n : 2, r = k % period;
      const first = n % 2 ? (n - r) % n : r, at = (i - first + n) % n;
      return n % 2 && at === n - 1 ? -1 : (first + (at ^ 1)) % n;
    },
    "one-peer-exp": (n, k, i) => {
      const powers = Math.max(1, Math.ceil(Math.log2(n))), single = (n & (n - 1)) === 0;
      const r = k % (powers * (single ? 1 : n)), moved = Math.floor(r / powers);
      const other = (i + moved) % n ^ (1 << r % powers);
      return other < n ? (other - moved + n) % n : -1;
    }
  };

  // --- ideal gossip (dist/simulation/events.cpp). Options: graph, method (a2cid2, adpsgd,
  // published), pairing (poisson, matching), seed, dims, etaScale, start (a list for each worker),
  // problem (see quadratic()), learningRate, momentum, speeds (gradients of each worker in a unit
  // of time; all 1 if there are none), onEvent({kind, t, i, j})

  class Sampler {  // of an edge by its rate: Walker's alias method
    constructor(edges) {
      const n = edges.length;
      this.total = edges.reduce((sum, e) => sum + e.rate, 0);
      const share = edges.map(e => e.rate / this.total * n);
      this.own = new Float64Array(n).fill(1);
      this.other = new Int32Array(n);
      const small = [], large = [];
      share.forEach((s, i) => (s < 1 ? small : large).push(i));
      while (small.length && large.length) {
        const few = small.pop(), many = large[large.length - 1];
        this.own[few] = share[few];
        this.other[few] = many;
        share[many] -= 1 - share[few];
        if (share[many] < 1) large.pop(), small.push(many);
      }
    }
    at(ticket) {
      const place = ticket * this.own.length;
      const i = Math.min(Math.floor(place), this.own.length - 1);
      return place - i < this.own[i] ? i : this.other[i];
    }
  }
  function startOf(seed, worker, dims) {
    const random = new Rng(seed, 0x74000000 + worker, 0x73746172);
    return Array.from({length: dims}, () => random.normal());
  }
  class Simulation {
    constructor(options) {
      const o = this.o = {method: "a2cid2", pairing: "poisson", seed: 0, dims: 1, etaScale: 1,
                          learningRate: .05, momentum: 0, ...options};
      const n = o.graph.n, k = o.constants || constants(o.graph);
      const numbers = o.method === "adpsgd" ? {} :
          {eta: k.eta * o.etaScale, alphaTilde: k.alphaTilde};
      const dims = this.dims = o.problem ? o.problem.dims : o.dims;
      this.workers = Array.from({length: n}, (_, i) => new Worker(
          o.problem ? o.problem.start : o.start ? o.start[i] : startOf(o.seed, i, dims), numbers,
          o.method !== "adpsgd"));
      this.momentum = this.workers.map(() => new Float64Array(dims));
      this.random = new Rng(o.seed, 1);
      this.noise = new Rng(o.seed, 2);
      this.sampler = new Sampler(o.graph.edges);
      this.speeds = o.speeds || new Array(n).fill(1);
      this.rate = this.sampler.total +
          (o.problem ? this.speeds.reduce((sum, r) => sum + r, 0) : 0);
      Object.assign(this, {now: 0, round: 0, exchanges: 0, gradients: 0});
      this.next = o.pairing === "matching" ? Infinity : this.random.exponential() / this.rate;
      this.partner = matchings[o.rounds || "ring-matching"];
    }
    runUntil(t) {
      if (this.o.pairing === "matching")
        for (; this.round + 1 <= t; ++this.round) this.match();
      for (; this.next <= t; this.next += this.random.exponential() / this.rate) this.event();
      this.now = Math.max(this.now, t);
    }
    event() {
      const ticket = this.random.uniform() * this.rate, of = this.sampler.total;
      if (ticket >= of) {
        let i = 0, left = ticket - of;
        for (; i + 1 < this.speeds.length && left >= this.speeds[i]; ++i) left -= this.speeds[i];
        return this.gradient(i, this.next);
      }
      const e = this.o.graph.edges[this.sampler.at(ticket / of)];
      this.exchange(e.a, e.b, this.next);
    }
    match() {
      const t = this.round + 1, n = this.o.graph.n;
      if (this.o.problem) for (let i = 0; i < n; ++i) this.gradient(i, t);
      for (let i = 0; i < n; ++i) {
        const j = this.partner(n, this.round, i);
        if (i < j) this.exchange(i, j, t);
      }
    }
    exchange(i, j, t) {
      ++this.exchanges;
      exchange(this.workers[i], this.workers[j], t, this.o.method);
      if (this.o.onEvent) this.o.onEvent({kind: "exchange", t, i, j});
    }
    gradient(i, t) {
      const w = this.workers[i], m = this.momentum[i];
      ++this.gradients;
      w.drift(t);
      const g = this.o.problem.gradient(i, w.x, this.noise);
      for (let k = 0; k < g.length; ++k) {
        m[k] = this.o.momentum * m[k] + g[k];
        g[k] = this.o.learningRate * m[k];
      }
      w.update(g);
      if (this.o.onEvent) this.o.onEvent({kind: "gradient", t, i, j: -1, update: g});
    }
    distance() { return spread(this.workers.map(w => w.look(this.now))); }
    mean() {
      const mean = new Float64Array(this.dims);
      for (const w of this.workers)
        w.look(this.now).forEach((v, k) => { mean[k] += v / this.workers.length; });
      return mean;
    }
  }
  // mean over workers and coordinates of (x - mean)^2
  function spread(all) {
    const n = all.length, dims = all[0].length;
    let sum = 0;
    for (let k = 0; k < dims; ++k) {
      let mean = 0;
      for (const x of all) mean += x[k] / n;
      for (const x of all) sum += (x[k] - mean) ** 2;
    }
    return sum / n / dims;
  }
  // The function of `gossamer simulate quadratic` (dist/simulation/problems.cpp).
  function quadratic(workers, {dims = 16, curvature = 1, heterogeneity = 1, noise = 1,
                               seed = 0} = {}) {
    const target = Array.from({length: workers}, (_, i) => {
      const random = new Rng(seed, i, 0x71756164);
      return Array.from({length: dims}, () => heterogeneity * random.normal());
    });
    const mean = target[0].map((_, k) => target.reduce((sum, b) => sum + b[k] / workers, 0));
    return {dims, target, start: new Array(dims).fill(1),
            loss: x => x.reduce((sum, v, k) => sum + .5 * curvature * (v - mean[k]) ** 2, 0),
            gradient: (i, x, random) =>
        Float64Array.from(x, (v, k) => curvature * (v - target[i][k]) +
                          (noise > 0 ? noise * random.normal() : 0))};
  }

  // --- a file of `gossamer simulate … --events`, repeated: {head, start, events, difference}.
  // Each event gets what this engine computes: states[i] = {x, twin} of the workers it changed.

  function readEvents(text) {
    const lines = text.split("\n").filter(line => line.trim()).map(line => JSON.parse(line));
    const [head, ...rest] = lines;
    if (!head || !head.edges || !head.workers) throw new Error("noEvents");
    return {head, start: rest.filter(e => e.event === "start"),
            events: rest.filter(e => e.event !== "start")};
  }
  function replay(text) {
    const {head, start, events} = readEvents(text);
    const twin = head.method !== "adpsgd";
    const numbers = {eta: head.eta, alpha: head.alpha, alphaTilde: head.alpha_tilde};
    const workers = start.map(s => new Worker(s.x, twin ? numbers : {}, twin));
    const rate = 2 * head.edges.reduce((sum, e) => sum + e[2], 0) / head.workers;
    const late = events.some(e => e.event === "snapshot");
    if (late) for (const w of workers) w.longestGap = 2 / rate, w.eta = 0;
    const sent = new Map();
    let difference = 0;
    const compare = (ours, theirs) => {
      if (theirs) ours.forEach((v, k) => {
        difference = Math.max(difference, Math.abs(v - theirs[k]));
      });
    };
    for (const e of events) {
      const w = workers[e.i];
      if (e.event === "exchange") {
        exchange(w, workers[e.j], e.t, head.method);
      } else if (e.event === "gradient") {
        w.eta = e.eta;
        w.drift(e.own);
        if (e.update) w.update(e.update);
      } else if (e.event === "snapshot") {
        w.drift(e.own);
        w.sent = w.snapshot(e.own);
        sent.set(e.i * head.workers + e.j, w.sent.x);
      } else if (e.event === "arrival") {
        w.arrived(w.sent, sent.get(e.j * head.workers + e.i));
      }
      compare(w.x, e.x);
      if (w.twin) compare(w.twin, e.twin);
      if (e.other_x) compare(workers[e.j].x, e.other_x);
      if (e.other_twin) compare(workers[e.j].twin, e.other_twin);
    }
    return {head, start, events, difference};
  }

  return {Rng, shapes: Object.keys(shapes), graphOf, makeGraph, pieces, heal, eigen, constants,
          decayExponent, mixOver, Worker, exchange, matchings, Simulation, startOf, spread,
          quadratic, readEvents, replay};
})();

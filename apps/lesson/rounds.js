// Synchronous methods of the lesson: time lines (dist/simulation/timeline.cpp), D-PSGD under
// consensus control and own steps between averages (dist/simulation/rounds.cpp), exchanges until
// agreement (exchanges.cpp).
"use strict";
const Rounds = (() => {
  // Weights of each worker's neighbours, 1/(1 + max degree), and its own.
  function metropolis(graph) {
    const degree = new Array(graph.n).fill(0);
    for (const e of graph.edges) ++degree[e.a], ++degree[e.b];
    const rows = degree.map(() => ({own: 1, from: []}));
    for (const {a, b} of graph.edges) {
      const weight = 1 / (1 + Math.max(degree[a], degree[b]));
      rows[a].from.push([b, weight]);
      rows[b].from.push([a, weight]);
    }
    for (const row of rows) {
      row.from.sort((x, y) => x[0] - y[0]);
      for (const [, weight] of row.from) row.own -= weight;
    }
    return rows;
  }

  // --- time lines. machines: {computeS, sigma, slow: factor of each worker, latencyS, bandwidth,
  // bytes, buckets, period}. A lane of segments {from, to, kind: compute | wait | transfer} for
  // each worker, and the efficiency: steps by those of workers that never wait.

  const forward = 1 / 3;
  function timeline(method, graph, machines, seconds, seed = 0) {
    const n = graph.n, m = machines, random = new Engine.Rng(seed, 1);
    const lanes = Array.from({length: n}, () => []);
    const worker = lanes.map(() => ({now: 0, computed: 0}));
    const transfer = m.latencyS + m.bytes / m.bandwidth;
    const took = i => m.computeS * m.slow[i] * (m.sigma > 0 ?
        Math.exp(m.sigma * random.normal() - m.sigma * m.sigma / 2) : 1);
    const neighbours = metropolis(graph).map(row => row.from.map(f => f[0]));
    const put = (i, from, to, kind) => { if (to > from) lanes[i].push({from, to, kind}); };
    let steps = 0;
    if (method === "a2cid2") return asynchronous();
    for (; worker[0].now < seconds; ++steps) {
      const began = worker.map(w => w.now), ended = began.map((t, i) => {
        const one = took(i);
        worker[i].computed += one;
        put(i, t, t + one, "compute");
        return t + one;
      });
      const last = Math.max(...ended);
      const together = buckets => {
        const bytes = m.bytes / buckets / m.bandwidth,  // on a ring, or on a tree
              one = Math.min(2 * (n - 1) / n * (n * m.latencyS + bytes),
                             2 * (Math.ceil(Math.log2(n)) * m.latencyS + bytes));
        let done = 0;
        for (let b = 1; b <= buckets; ++b) {
          const part = forward + (1 - forward) * b / buckets;
          const ready = Math.max(...began.map((t, i) => t + part * (ended[i] - t)));
          done = Math.max(done, ready) + one;
        }
        worker.forEach((w, i) => {
          put(i, ended[i], last, "wait");
          put(i, last, done, "transfer");
          w.now = done;
        });
      };
      if (method === "allreduce") together(m.buckets);
      else if (method === "local-sgd" && (steps + 1) % m.period === 0) together(1);
      else if (method === "local-sgd") worker.forEach((w, i) => { w.now = ended[i]; });
      else {
        const ready = method === "dpsgd" ? began : ended;
        worker.forEach((w, i) => {
          let here = ready[i], busy = 0;
          for (const there of neighbours[i].map(j => ready[j]).sort((a, b) => a - b)) {
            const begins = Math.max(here, there);
            here = begins + transfer;
            busy += Math.max(0, here - Math.max(begins, ended[i]));
          }
          const late = Math.max(0, here - ended[i]);
          put(i, ended[i], ended[i] + Math.max(0, late - busy), "wait");
          put(i, ended[i] + Math.max(0, late - busy), ended[i] + late, "transfer");
          w.now = ended[i] + late;
        });
      }
    }
    let all = 0, perfect = 0;
    for (const w of worker) all += steps / w.now, perfect += steps / w.computed;
    return {lanes, links: [], efficiency: all / perfect, stepsPerS: all,
            steps: worker.map(() => steps)};

    // Computation never waits. Exchanges, at Poisson times, are between two that are free, and who
    // starts one draws another neighbour than its last partner: the pairing of the program is a
    // protocol (dist/gossip/pairing.h); this is a picture of it.
    function asynchronous() {
      const links = [], free = new Array(n).fill(0), done = new Array(n).fill(0);
      const last = new Array(n).fill(-1);
      worker.forEach((w, i) => {
        for (; w.now < seconds; ++done[i]) {
          const one = took(i);
          put(i, w.now, w.now + one, "compute");
          w.now += one;
        }
      });
      const clock = new Engine.Rng(seed, 3), rate = n / 2 / m.computeS;
      for (let t = clock.exponential() / rate; t < seconds; t += clock.exponential() / rate) {
        const i = Math.floor(clock.uniform() * n);
        const others = neighbours[i].filter(j => j !== last[i] || neighbours[i].length === 1);
        const j = others[Math.floor(clock.uniform() * others.length)];
        if (free[i] > t || free[j] > t) continue;
        free[i] = free[j] = t + transfer;
        last[i] = j, last[j] = i;
        links.push({from: t, to: t + transfer, i, j});
      }
      const rates = worker.map((w, i) => done[i] / w.now);
      return {lanes, links, efficiency: 1, stepsPerS: rates.reduce((a, b) => a + b), steps: done};
    }
  }

  // --- D-PSGD on the noise of gradients, under control with one fraction of the plateau

  class Controlled {
    constructor({graph, dims = 8, learningRate = .1, fraction = .5, steps = 300, seed = 0,
                 measure = .02, most = 100}) {
      this.rows = metropolis(graph);
      this.noise = new Engine.Rng(seed, 2);
      this.x = this.rows.map(() => new Float64Array(dims).fill(1));
      Object.assign(this, {learningRate, fraction, most, target: 0, rounds: 0, means: 0, seen: []});
      this.measuring = fraction >= 1 || fraction === 0 ? -1 :
          Math.max(10, Math.round(measure * steps));
    }
    step() {
      const g = this.x.map(x => Float64Array.from(x, () => this.noise.normal()));
      this.combine();
      this.x.forEach((x, i) => x.forEach((_, k) => { x[k] -= this.learningRate * g[i][k]; }));
      let distance = this.distance();
      if (this.measuring > 0) {
        this.seen.push(distance);
        if (--this.measuring === 0) {
          const half = this.seen.slice(Math.floor(this.seen.length / 2));
          this.target = this.fraction * half.reduce((a, b) => a + b) / half.length;
        }
      }
      const exact = this.fraction === 0;
      for (let k = 0; exact || (this.target > 0 && distance > this.target); ++k) {
        if (exact || k === this.most) return this.average();
        const before = distance, old = this.combine();
        ++this.rounds;
        distance = this.distance();
        if (distance > this.target) continue;
        const moved = this.x.reduce((sum, x, i) =>
            sum + x.reduce((s, v, d) => s + (v - old[i][d]) ** 2, 0), 0);
        const part = partOfRound(before, distance, moved / this.x.length, this.target);
        this.x.forEach((x, i) => x.forEach((v, d) => {
          x[d] = part * v + (1 - part) * old[i][d];
        }));
        distance = this.target;
        break;
      }
      return distance;
    }
    combine() {
      const old = this.x;
      this.x = this.rows.map((row, i) => {
        const y = old[i].map(v => row.own * v);
        for (const [j, weight] of row.from) old[j].forEach((v, k) => { y[k] += weight * v; });
        return y;
      });
      return old;
    }
    average() {
      ++this.means;
      const n = this.x.length, mean = this.x[0].map((_, k) =>
          this.x.reduce((sum, x) => sum + x[k] / n, 0));
      this.x = this.x.map(() => Float64Array.from(mean));
      return 0;
    }
    distance() { return Math.sqrt(Engine.spread(this.x) * this.x[0].length); }
  }
  // consensus_controller.h; moved: theta^2
  function partOfRound(before, after, moved, target) {
    const fall = before * before - after * after, wanted = before * before - target * target;
    const root = Math.sqrt((moved - fall) ** 2 + 4 * moved * (fall - wanted));
    return Math.min(1, Math.max(0, 2 * wanted / (moved + fall + root)));
  }

  // --- own steps, then an average: local-sgd, diloco, noloco (dist/methods/diloco.h)

  class LocalSteps {
    // problem: see Engine.quadratic
    constructor({method, n, period, problem, learningRate = .05, seed = 0}) {
      this.noise = new Engine.Rng(seed, 2);
      this.x = Array.from({length: n}, () => Float64Array.from(problem.start));
      this.outer = this.x.map(x => x.slice());
      this.velocity = this.x.map(x => new Float64Array(x.length));
      Object.assign(this, {method, period, problem, learningRate, steps: 0, round: 0, sent: 0});
    }
    step() {
      const g = this.x.map((x, i) => this.problem.gradient(i, x, this.noise));
      this.x.forEach((x, i) => x.forEach((_, k) => { x[k] -= this.learningRate * g[i][k]; }));
      if (++this.steps % this.period) return;
      const n = this.x.length;
      if (this.method === "noloco") {
        const old = this.x, partner = Engine.matchings["one-peer-exp"];
        this.x = old.map((x, i) => {
          const j = partner(n, this.round, i);
          return j < 0 ? x : x.map((v, k) => .5 * v + .5 * old[j][k]);
        });
        ++this.round;
        this.sent += 1;
      } else {
        const mean = this.mean();
        this.x = this.x.map(() => mean.slice());
        this.sent += 2 * (n - 1) / n;
      }
      if (this.method === "local-sgd") return;
      const mu = this.method === "diloco" ? .9 : .5, nesterov = this.method === "diloco";
      this.x.forEach((x, i) => x.forEach((v, k) => {
        const way = this.outer[i][k] - v, u = this.velocity[i][k] = mu * this.velocity[i][k] + way;
        x[k] = this.outer[i][k] -= .7 * (nesterov ? way + mu * u : u);
      }));
    }
    mean() {
      const mean = new Float64Array(this.x[0].length);
      for (const x of this.x) x.forEach((v, k) => { mean[k] += v / this.x.length; });
      return mean;
    }
    distance() { return Engine.spread(this.x); }
  }

  // --- steps, then an average with all neighbours of what is heard of them (dist/methods: choco
  // without overlap, dpsgd-atc, clipped-gossip). kind: whole | kept | dropped | mean | clipped.
  // Worker `bad` sends a model whose values are all `sends`; loss and distance leave it out.

  class Watched {
    constructor({graph, problem, kind, learningRate = .05, seed = 0, share = 1, kappa = 1,
                 radius = Infinity, bad = -1, sends = 0}) {
      this.rows = metropolis(graph);
      this.noise = new Engine.Rng(seed, 2);
      this.x = this.rows.map(() => Float64Array.from(problem.start));
      this.replica = this.x.map(x => x.slice());
      Object.assign(this, {problem, kind, learningRate, kappa, radius, bad, sends,
                           most: Math.max(1, Math.floor(share * problem.dims + 1e-9))});
    }
    step() {
      const g = this.x.map((x, i) => this.problem.gradient(i, x, this.noise));
      this.x.forEach((x, i) => x.forEach((_, k) => { x[k] -= this.learningRate * g[i][k]; }));
      if (this.bad >= 0 && this.sends !== "mirror") this.x[this.bad].fill(this.sends);
      if (this.kind === "kept") {
        this.replica = this.replica.map((known, i) => {
          const news = this.largest(this.x[i].map((v, k) => v - known[k]));
          return known.map((v, k) => v + news[k]);
        });
      } else {
        this.replica = this.x.map(x => this.kind === "dropped" ? this.largest(x) : x.slice());
      }
      const from = this.replica;
      const sent = j => j === this.bad && this.sends === "mirror" ? from[j].map(v => -v) : from[j];
      this.x = this.x.map((x, i) => {
        const y = x.slice();
        for (const [j, weight] of this.rows[i].from) {
          const way = sent(j).map((v, k) => v - from[i][k]), far = Math.hypot(...way);
          const part = this.kind === "clipped" && far > this.radius ? this.radius / far : 1;
          way.forEach((v, k) => { y[k] += this.kappa * weight * part * v; });
        }
        return y;
      });
    }
    largest(v) {  // the others are 0
      const order = [...v.keys()].sort((a, b) => Math.abs(v[b]) - Math.abs(v[a]) || a - b);
      const out = new Float64Array(v.length);
      for (const k of order.slice(0, this.most)) out[k] = v[k];
      return out;
    }
    trained() { return this.x.filter((_, i) => i !== this.bad || this.sends === "mirror"); }
    distance() { return Engine.spread(this.trained()); }
    loss() {
      const all = this.trained();
      const mean = all[0].map((_, k) => all.reduce((sum, x) => sum + x[k] / all.length, 0));
      return this.problem.loss(mean);
    }
  }

  // --- exchanges until |x - mean| is a millionth, from the start that is slowest: an eigenvector,
  // so one number follows the rounds

  function exchangesUntilAgreed(graph, n, accelerated) {
    const second = {ring: (1 + 2 * Math.cos(2 * Math.PI / n)) / 3, star: 1 - 1 / n, complete: 0};
    const edges = {ring: n, star: n - 1, complete: n * (n - 1) / 2}[graph], l = second[graph];
    let x = 1, before = 0, omega = 1, rounds = 0;
    for (; Math.abs(x) > 1e-6; ++rounds) {
      let y = l * x;
      if (accelerated && rounds > 0) {
        omega = rounds === 1 ? 1 / (1 - l * l / 2) : 1 / (1 - l * l * omega / 4);
        y = omega * (y - before) + before;
      }
      [before, x] = [x, y];
    }
    return rounds * edges;
  }

  return {metropolis, timeline, Controlled, LocalSteps, Watched, exchangesUntilAgreed};
})();

// Sections of the lesson: what distance does to learning, unlike data at unlike speeds, own steps.
"use strict";

sections.learning = root => {
  guess(root, "Twice as many workers train for the same time. What happens to the loss at which " +
        "their mean model settles?", ["it stays", "it halves", "it falls to a quarter"], 1,
        "The noise of n gradients averages out: the mean model settles at γd/4n, a linear " +
        "speedup. The model of a single worker also has its distance to the mean, which falls " +
        "less or grows: a larger graph agrees more slowly.");
  const dims = 8, points = 25, lowest = .003, highest = .8;
  let n = 16, name = "ring", method = "a2cid2", length = 100, rate = .1, momentum = 0;
  let curve = [], run = null;
  // Runs until `length`: at 200 times the loss of the mean model, and of a worker's, on average.
  const follow = gamma => {
    const graph = Engine.makeGraph(name, n);
    const problem = Engine.quadratic(n, {dims, heterogeneity: 0});
    const s = new Engine.Simulation({graph, method, problem, learningRate: gamma, momentum});
    const time = Array.from({length: 201}, (_, k) => length * k / 200);
    const ofMean = [], ofWorker = [];
    for (const t of time) {
      s.runUntil(t);
      ofMean.push(problem.loss(s.mean()));
      ofWorker.push(ofMean.at(-1) + .5 * dims * s.distance());
    }
    const late = list => list.slice(100).reduce((a, b) => a + b, 0) / 101;
    return {gamma, time, ofMean, ofWorker, mean: late(ofMean), worker: late(ofWorker)};
  };
  const floor = gamma => gamma * dims / (4 * n) / (1 - momentum);
  const stage = new Stage(root, 300, (svg, width, height) => {
    const of = axes(svg, width, height, {x: [lowest, highest], y: [1e-3, 10], logX: true,
      logY: true, xName: "learning rate γ", yName: "loss, mean over the second half of the time"});
    const gammas = curve.map(r => r.gamma);
    of.line(gammas, gammas.map(floor), {stroke: "var(--text)", "stroke-dasharray": "6 5",
                                        "stroke-width": 1.5});
    of.line(gammas, curve.map(r => r.mean), {stroke: colour(0)});
    of.line(gammas, curve.map(r => r.worker), {stroke: colour(1)});
    disc(svg, of.px(rate), of.bottom, 8, colour(2));
    stage.handles.push({key: "rate", x: of.px(rate), y: of.bottom, radius: 10,
                        label: "the learning rate", value: rate,
                        range: [lowest, highest], unit: "is γ", move: p => put(of.back.x(p)),
                        step: d => put(rate * 1.1 ** d)});
  }, "loss by learning rate");
  const second = new Stage(root, 220, (svg, width, height) => {
    const of = axes(svg, width, height, {x: [0, length], y: [1e-3, 10], logY: true, xName: "time",
                                         yName: "loss at this γ"});
    of.line(run.time, run.ofMean, {stroke: colour(0)});
    of.line(run.time, run.ofWorker, {stroke: colour(1)});
  }, "loss over time at the chosen learning rate");
  key(root, [["mean model", colour(0)], ["a worker's own model", colour(1)],
             ["theory: γd/4n", "var(--text)"]]);
  const table = numbers(root), c = controls(root);
  const put = gamma => {
    rate = Math.min(highest, Math.max(lowest, gamma));
    run = follow(rate);
    show();
  };
  const show = () => {
    const best = of => curve.reduce((a, b) => of(a) <= of(b) ? a : b).gamma;
    table.set({"mean model: loss": shown(run.mean), "a worker's model: loss": shown(run.worker),
               "theory: γd/4n": shown(floor(rate)),
               "best γ for the mean model": shown(best(r => r.mean), 2),
               "best γ for a worker's": shown(best(r => r.worker), 2)});
    stage.redraw();
    second.redraw();
  };
  const all = () => {
    curve = Array.from({length: points}, (_, k) =>
        follow(lowest * (highest / lowest) ** (k / (points - 1))));
    put(rate);
  };
  c.choice("graph", ["ring", "exponential", "complete", "star"].map(s => [s, s]), name,
           v => { name = v; all(); });
  c.choice("method", [["a2cid2", "A2CiD2"], ["adpsgd", "AD-PSGD"]], method,
           v => { method = v; all(); });
  c.slider("workers", {min: 4, max: 64, step: 4, value: n}, v => { n = v; all(); });
  c.slider("time", {min: 20, max: 300, step: 20, value: length}, v => { length = v; all(); });
  c.slider("momentum", {min: 0, max: .9, step: .1, value: momentum, show: v => v.toFixed(1)},
           v => { momentum = v; all(); });
  root.append(make("p", {class: "check"}, "Drag the green dot. Short of time the best γ is large, ",
                   "for there is a way to go; with much time it is small. Check: ",
                   make("code", {}, "gossamer simulate quadratic --workers 16 --heterogeneity 0 " +
                        "--dims 8 --learning-rate 0.1 --time 100 --from 50 --seeds 1"),
                   " prints the loss of the mean model, and (x − x̄)², of which 4 times is what a ",
                   "worker's own model has more. Here all workers have the same curvature, so ",
                   "their distance does the mean model no harm; with real nets gradients at ",
                   "distant points disagree, and it does (Kong et al., Consensus Control, ICML ",
                   "2021)."));
  all();
};

sections.unlike = root => {
  guess(root, "Eight workers see different data, and one is ten times slower. They train by " +
        "A2CiD2 until nothing changes. Where is their model?",
        ["at the minimum of the mean loss", "away from it, nearer to the data of the fast ones",
        "nearer to the data of the slow one"], 1,
        "Nobody waits, so the fast ones take more steps: they minimise the losses weighted by " +
        "speed. The marked point is Σ rᵢbᵢ / Σ rᵢ.");
  const n = 8, length = 400, slowest = 3;
  let slow = 10, equal = false, weight = .05, run = null, seed = 8;
  let targets = Engine.quadratic(n, {dims: 2, noise: 0, seed}).target.map(b => b.slice());
  const speeds = () => Array.from({length: n}, (_, i) => i === slowest ? 1 / slow : 1);
  const pointOf = rates => {
    const total = rates.reduce((a, b) => a + b, 0);
    return [0, 1].map(k => targets.reduce((sum, b, i) => sum + rates[i] * b[k] / total, 0));
  };
  const follow = () => {
    const graph = Engine.makeGraph("ring", n), r = speeds(), least = Math.min(...r);
    const problem = {dims: 2, start: [1, 1], gradient: (i, x) => Float64Array.from(x, (v, k) =>
        (v - targets[i][k]) * (equal ? least / r[i] : 1))};
    const s = new Engine.Simulation({graph, problem, speeds: r, learningRate: weight, seed});
    const path = [];
    const to = equal ? length * slow : length;
    for (let k = 0; k <= 400; ++k) {
      s.runUntil(to * k / 400);
      path.push(s.mean());
    }
    return {path, end: [0, 1].map(k => path.slice(200).reduce((sum, x) => sum + x[k] / 201, 0))};
  };
  const lossAt = x => {
    const best = pointOf(new Array(n).fill(1));
    return .5 * ((x[0] - best[0]) ** 2 + (x[1] - best[1]) ** 2);
  };
  const stage = new Stage(root, width => Math.min(420, width), (svg, width, height) => {
    const of = axes(svg, width, height, {x: [-2.5, 2.5], y: [-2.5, 2.5]});
    of.line(run.path.map(x => x[0]), run.path.map(x => x[1]), {stroke: colour(0)});
    const cross = (x, shade, text, below) => {
      const [px, py] = [of.px(x[0]), of.py(x[1])];
      for (const s of [-1, 1])
        svg.append(make("line", {x1: px - 8, y1: py - 8 * s, x2: px + 8, y2: py + 8 * s,
                                 stroke: shade, "stroke-width": 3}));
      svg.append(make("text", {x: px + 11, y: py + (below ? 22 : -6), class: "strong"}, text));
    };
    targets.forEach((b, i) => {
      disc(svg, of.px(b[0]), of.py(b[1]), 10, i === slowest ? colour(1) : colour(5), i);
      stage.handles.push({key: `b${i}`, x: of.px(b[0]), y: of.py(b[1]), radius: 11,
        label: `the data of worker ${i}`, value: b,
        move: (x, y) => put(i, [of.back.x(x), of.back.y(y)]),
        step: (dx, dy) => put(i, [b[0] + dx / 10, b[1] + dy / 10])});
    });
    cross(pointOf(new Array(n).fill(1)), colour(2), "minimum", false);
    cross(pointOf(speeds()), colour(3), "Σ rᵢbᵢ / Σ rᵢ", true);
  }, "the mean model's way, and where each worker's data pull");
  key(root, [["mean model", colour(0)], ["data of the slow worker", colour(1)],
             ["data of the others", colour(5)]]);
  const table = numbers(root), c = controls(root);
  const put = (i, b) => {
    targets[i] = b.map(v => Math.min(2.4, Math.max(-2.4, v)));
    show();
  };
  const show = () => {
    run = follow();
    table.set({"loss above the minimum": shown(lossAt(run.end), 3),
               "at Σ rᵢbᵢ / Σ rᵢ it is": shown(lossAt(pointOf(speeds())), 3),
               "gradients of a fast worker for each of the slow one": shown(slow, 2)});
    stage.redraw();
  };
  c.slider("worker 3 is slower by", {min: 1, max: 20, step: 1, value: slow, show: v => `× ${v}`},
           v => { slow = v; show(); });
  c.slider("learning rate γ", {min: .01, max: .2, step: .01, value: weight,
           show: v => v.toFixed(2)}, v => { weight = v; show(); });
  c.choice("steps", [["plain", "all alike"], ["equal", "weighted by least r / rᵢ"]], "plain",
           v => { equal = v === "equal"; show(); });
  c.slider("seed", {min: 0, max: 30, value: seed}, v => {
    seed = v;
    targets = Engine.quadratic(n, {dims: 2, noise: 0, seed}).target.map(b => b.slice());
    show();
  });
  root.append(make("p", {class: "check"}, "Drag the data. Steps that are smaller the faster a ",
                   "worker is bring the minimum back, and take as long as the slowest needs. ",
                   "Check, with the program's protocol of pairs: ",
                   make("code", {}, "gossamer simulate quadratic --workers 8 --dims 2 --seed 8 " +
                        "--noise 0 --pairing handshake --slow 3:x10"), " ends as far above the ",
                   "minimum. Methods with rounds have no such bias: there ",
                   "all make as many steps, and all wait."));
  show();
};

sections.local = root => {
  guess(root, "Local SGD averages all models after every tenth step, not after every one. " +
        "It sends a tenth. What does the mean model lose?", ["nine tenths of its progress",
        "nothing, if all have the same curvature", "half of its progress"], 1,
        "The mean of the models moves by the mean of the gradients, averaged or not. What grows " +
        "is the distance between workers, and with it what a real net loses.");
  const methods = [["local-sgd", "local SGD", colour(0)], ["diloco", "DiLoCo", colour(1)],
                   ["noloco", "NoLoCo, by pairs", colour(4)]];
  const dims = 8, steps = 300;
  let n = 16, period = 10, rate = .02, heterogeneity = 1, budget = 12, runs = [];
  const stage = new Stage(root, 320, (svg, width, height) => {
    const most = Math.max(...runs.map(r => r.sent.at(-1)));
    const of = axes(svg, width, height, {x: [0, most], y: [1e-3, 10], logY: true,
      xName: "models that a worker has sent", yName: "loss of the mean model"});
    runs.forEach((r, m) => of.line(r.sent, r.loss, {stroke: methods[m][2]}));
    const x = of.px(Math.min(most, budget));
    svg.append(make("line", {x1: x, x2: x, y1: of.top, y2: of.bottom, stroke: "var(--soft)",
                             "stroke-dasharray": "3 4"}));
    disc(svg, x, of.bottom, 8, colour(2));
    stage.handles.push({key: "budget", x, y: of.bottom, radius: 10, label: "what may be sent",
                        value: budget, range: [0, most], unit: "models",
                        move: p => put(of.back.x(p)), step: d => put(budget + d)});
  }, "loss by what was sent");
  key(root, methods.map(m => [m[1], m[2]]));
  const table = numbers(root), c = controls(root);
  const put = models => {
    budget = Math.min(Math.max(...runs.map(r => r.sent.at(-1))), Math.max(0, models));
    show();
  };
  const show = () => {
    const values = {};
    runs.forEach((r, m) => {
      const until = r.sent.filter(v => v <= budget + 1e-9).length - 1;
      values[`${methods[m][1]}: loss for ${shown(budget, 3)} models`] = shown(r.loss[until], 3);
    });
    runs.forEach((r, m) => { values[`${methods[m][1]}: (x − x̄)²`] = shown(r.distance); });
    table.set(values);
    stage.redraw();
  };
  const all = () => {
    runs = methods.map(([method]) => {
      const problem = Engine.quadratic(n, {dims, heterogeneity});
      const s = new Rounds.LocalSteps({method, n, period, problem, learningRate: rate});
      const sent = [0], loss = [problem.loss(s.mean())];
      let late = 0;
      for (let t = 1; t <= steps; ++t) {
        s.step();
        sent.push(s.sent), loss.push(problem.loss(s.mean()));
        if (t >= steps / 3) late += s.distance() / (steps - steps / 3 + 1);
      }
      return {sent, loss, distance: late};
    });
    put(budget);
  };
  c.slider("own steps H", {min: 1, max: 50, value: period}, v => { period = v; all(); });
  c.slider("workers", {min: 2, max: 32, step: 2, value: n}, v => { n = v; all(); });
  c.slider("learning rate γ", {min: .005, max: .1, step: .005, value: rate,
           show: v => v.toFixed(3)}, v => { rate = v; all(); });
  c.slider("how unlike the data are", {min: 0, max: 2, step: .25, value: heterogeneity,
           show: v => v.toFixed(2)}, v => { heterogeneity = v; all(); });
  root.append(make("p", {class: "check"}, "Drag the green dot: for the same bytes an outer ",
                   "momentum goes further; near the end it swings. Check: ",
                   make("code", {}, "gossamer simulate quadratic --workers 16 --method diloco " +
                        "--period 10 --learning-rate 0.02 --dims 8 --time 300 --seeds 1"),
                   " prints DiLoCo's (x − x̄)². With a real net: ",
                   make("code", {}, "gossamer train apps/configs/gpt2-shakespeare-char.toml " +
                        "--workers 4 train.method=diloco"), " says what it sends; compare with ",
                   make("code", {}, "train.method=allreduce"), ". Stich 2019; Douillard et al. ",
                   "2023; Kolehmainen et al. 2025."));
  all();
};

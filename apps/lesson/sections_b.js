// Sections of the lesson: the heavy ball, decay, late answers.
"use strict";

sections.ball = root => {
  const say = words.sections.ball;
  guess(root, say.guess, 1);
  const graph = Engine.makeGraph("ring", 16), k = Engine.constants(graph);
  let scale = 0, tilde = k.alphaTilde, start = [1, 1];
  // On average an exchange moves the mode of eigenvalue l by -alpha l x and -alpha~ l x.
  const flow = () => {
    const eta = k.eta * 2 ** scale, l = k.lambda2;
    return {eta, a: -eta - .5 * l, b: eta, c: eta - tilde * l, d: -eta};
  };
  const roots = ({a, b, c, d}) => {
    const half = (a + d) / 2, square = half * half - (a * d - b * c);
    return {half, square, slowest: square >= 0 ? half + Math.sqrt(square) : half};
  };
  const path = (length, steps) => {  // Runge-Kutta
    const {a, b, c, d} = flow(), h = length / steps;
    const f = ([x, y]) => [a * x + b * y, c * x + d * y];
    const add = (p, q, s) => [p[0] + s * q[0], p[1] + s * q[1]];
    const all = [start];
    for (let i = 0; i < steps; ++i) {
      const p = all[i], k1 = f(p), k2 = f(add(p, k1, h / 2)), k3 = f(add(p, k2, h / 2));
      const k4 = f(add(p, k3, h));
      all.push([0, 1].map(m => p[m] + h / 6 * (k1[m] + 2 * k2[m] + 2 * k3[m] + k4[m])));
    }
    return all;
  };
  const length = 120, steps = 600;
  const stage = new Stage(root, width => Math.min(400, width), (svg, width, height) => {
    const of = axes(svg, width, height, {x: [-1.6, 1.6], y: [-2.4, 2.4],
                                         xName: say.x, yName: say.twin});
    svg.append(make("line", {x1: of.px(0), x2: of.px(0), y1: of.top, y2: of.bottom,
                             stroke: "var(--soft)"}),
               make("line", {x1: of.left, x2: of.right, y1: of.py(0), y2: of.py(0),
                             stroke: "var(--soft)"}),
               make("line", {x1: of.px(-1.6), x2: of.px(1.6), y1: of.py(-1.6), y2: of.py(1.6),
                             stroke: "var(--soft)", "stroke-dasharray": "3 4"}),
               make("text", {x: of.px(1.5), y: of.py(1.65), "text-anchor": "end"}, say.twinX));
    const all = path(length, steps);
    of.line(all.map(p => p[0]), all.map(p => p[1]), {stroke: colour(0)});
    const each = steps * 5 / length;  // a dot every 5 units of time
    for (let i = each; i < all.length; i += each)
      svg.append(make("circle", {cx: of.px(all[i][0]), cy: of.py(all[i][1]), r: 3,
                                 fill: colour(0)}));
    disc(svg, of.px(start[0]), of.py(start[1]), 9, colour(1));
    stage.handles.push({key: "start", x: of.px(start[0]), y: of.py(start[1]), radius: 10,
                        label: say.theStart, value: start,
                        move: (x, y) => put(of.back.x(x), of.back.y(y)),
                        step: (dx, dy) => put(start[0] + dx / 10, start[1] + dy / 10)});
  }, say.picture);
  const curve = new Stage(root, 200, (svg, width, height) => {
    const of = axes(svg, width, height, {x: [0, length], y: [-1.2, 1.6], xName: say.time,
                                         yName: say.xAndTwin});
    const all = path(length, steps), time = all.map((_, i) => i * length / steps);
    of.line(time, all.map(p => p[1]), {stroke: colour(1)});
    of.line(time, all.map(p => p[0]), {stroke: colour(0)});
    const plain = time.map(t => start[0] * Math.exp(-.5 * k.lambda2 * t));
    of.line(time, plain, {stroke: "var(--soft)", "stroke-dasharray": "4 4"});
  }, say.picture2);
  key(root, [[say.x, colour(0)], [say.twinTwin, colour(1)],
             [say.xWithoutTwinAD, "var(--soft)", "4 4"]]);
  const table = numbers(root), c = controls(root);
  const put = (x, y) => {
    start = [Math.min(1.5, Math.max(-1.5, x)), Math.min(2.2, Math.max(-2.2, y))];
    show();
  };
  const show = () => {
    stage.redraw();
    curve.redraw();
    const m = flow(), r = roots(m);
    const critical = Math.abs(r.square) < .003 * m.eta;
    table.set({[say.eta]: shown(m.eta), [say.alphaTilde]: shown(tilde),
               [say.theBallIs]: critical ? say.criticallyDamped : r.square < 0 ? say.underdamped :
                                                                          say.overdamped,
               [say.xFallsLikeE]: shown(-r.slowest, 3),
               [say.withoutTheTwinS]: shown(.5 * k.lambda2, 3)});
  };
  const eta = c.slider(say.etaTimesThatOf, {min: -5, max: 5, step: .25, value: 0,
                       show: v => `× ${shown(2 ** v, 3)}`}, v => { scale = v; show(); });
  const step = c.slider(say.alphaTilde, {min: tilde - 1.35, max: 6, step: .05, value: tilde,
                        show: v => shown(v, 3)},
                        v => { tilde = v; show(); });
  c.button(say.asTheorySays, () => {
    scale = 0;
    tilde = k.alphaTilde;
    eta.put(0);
    step.put(tilde);
    show();
  });
  check(root, say.check);
  put(1, 1);
};

sections.decay = root => {
  const say = words.sections.decay;
  guess(root, say.guess, 2);
  let name = "ring", n = 16, seeds = 12, first = 0, seen = {a2cid2: true, adpsgd: true};
  const methods = [["a2cid2", shared.methods.a2cid2, colour(0)],
                   ["adpsgd", shared.methods.adpsgd, colour(1)]];
  let runs = {}, length = 0, limits = [1e-6, 2];
  const exactly = new Map();
  const stage = new Stage(root, 340, (svg, width, height) => {
    const of = axes(svg, width, height, {x: [0, length], y: limits, logY: true, xName: say.time,
                                         yName: say.meanXMeanSquared});
    for (const [method, , shade] of methods) {
      const r = runs[method];
      if (!r || !seen[method]) continue;
      for (const one of r.all) of.line(r.time, one, {stroke: shade, "stroke-width": .6});
      of.line(r.time, r.mean, {stroke: shade, "stroke-width": 3});
      if (r.exact) {
        const middle = Math.floor(r.time.length / 3), at = r.mean[middle], t0 = r.time[middle];
        of.line(r.time, r.time.map(t => at * Math.exp(-r.exact * (t - t0))),
                {stroke: "var(--text)", "stroke-dasharray": "6 5", "stroke-width": 1.5});
      }
    }
    stage.handles.push({key: "end", x: of.right, y: of.bottom, radius: 9, label: say.lengthOfTime,
                        value: length, range: [10, 1000], unit: say.ofTime,
                        move: p => stretch(length * (p - of.left) / (of.right - of.left)),
                        step: d => stretch(length * (1 + d / 10))});
    disc(svg, of.right, of.bottom, 7, colour(2));
  }, say.picture);
  key(root, [...methods.map(m => [m[1], m[2]]), [say.exactSlope, "var(--text)", "6 5"]]);
  const table = numbers(root), c = controls(root);
  const stretch = to => { length = Math.min(1000, Math.max(10, to)); run(); };
  // So long that plain averaging, at a rate of about 1 / χ1, shows what it does in the long run.
  const suit = () => stretch(4 * Engine.constants(Engine.makeGraph(name, n)).chi1);
  const slope = r => {  // least squares over the last two thirds of what is above rounding errors
    const small = r.mean.findIndex(v => v <= 1e-20), end = small < 0 ? r.mean.length : small;
    const t = [], v = [];
    for (let i = Math.floor(end / 3); i < end; ++i)
      t.push(r.time[i]), v.push(Math.log(r.mean[i]));
    const m = t.length, average = list => list.reduce((a, b) => a + b, 0) / m;
    const st = average(t), sv = average(v);
    let up = 0, down = 0;
    t.forEach((x, i) => { up += (x - st) * (v[i] - sv); down += (x - st) ** 2; });
    return m > 2 ? -up / down : null;
  };
  const run = () => {
    const graph = Engine.makeGraph(name, n), k = Engine.constants(graph);
    const values = {};
    for (const [method, title] of methods) {
      const id = `${name} ${n} ${method}`;
      if (!exactly.has(id))
        exactly.set(id, Engine.decayExponent(graph, method === "a2cid2" ? k.eta : 0,
                                             method === "a2cid2" ? k.alphaTilde : .5));
      const time = Array.from({length: 61}, (_, i) => length * i / 60), all = [];
      for (let s = 0; s < seeds; ++s) {
        const one = new Engine.Simulation({graph, constants: k, method, seed: first + s, dims: 8});
        all.push(time.map(t => { one.runUntil(t); return one.distance(); }));
      }
      const mean = time.map((_, i) => all.reduce((sum, one) => sum + one[i] / seeds, 0));
      runs[method] = {time, all, mean, exact: exactly.get(id)};
      values[fill(say.slopeHere, {method: title})] = shown(slope(runs[method]), 3);
      values[fill(say.exact, {method: title})] = shown(exactly.get(id), 3);
    }
    const least = Math.min(...methods.flatMap(m => runs[m[0]].mean).filter(v => v > 0));
    limits = [10 ** Math.max(-16, Math.floor(Math.log10(least))), 3];
    table.set(values);
    stage.redraw();
  };
  c.choice(say.graph, graphsOf(["ring", "complete", "exponential", "star", "torus", "chain"]), name,
           v => { name = v; suit(); });
  c.slider(say.workers, {min: 4, max: 64, step: 4, value: n}, v => { n = v; suit(); });
  c.slider(say.runs, {min: 1, max: 40, value: seeds}, v => { seeds = v; run(); });
  c.slider(say.firstSeed, {min: 0, max: 200, value: 0}, v => { first = v; run(); });
  for (const [method, title] of methods) {
    const b = c.button(title, () => {
      seen[method] = !seen[method];
      b.setAttribute("aria-pressed", String(seen[method]));
      stage.redraw();
    });
    b.setAttribute("aria-pressed", "true");
  }
  check(root, say.check);
  suit();
};

sections.late = root => {
  const say = words.sections.late;
  guess(root, say.guess, 1);
  let delay = 3, gradientAt = 2.5, u = 1, other = -1, eta = .15;
  const begin = 1, length = 10, numbersOf = () => ({eta, alphaTilde: 1.87});
  // x and x~ of worker 1 over time: at once, late and corrected, as published.
  const orders = [[say.atOnce, colour(2)], [say.lateCorrected, colour(0)],
                  [say.lateAsPublished, colour(1)]];
  const follow = kind => {
    const w = new Engine.Worker([1], numbersOf()), to = begin + delay;
    w.twin[0] = 1.6;
    let sent = null;
    const events = [[begin, () => {
      sent = w.snapshot(begin);
      if (kind === 0) w.drift(begin), w.arrived(sent, [other]);
    }], [gradientAt, () => { w.drift(gradientAt); w.update([u]); }]];
    if (kind === 1) events.push([to, () => w.arrived(sent, [other])]);
    if (kind === 2) events.push([to, () => w.published(to, [other])]);
    events.sort((a, b) => a[0] - b[0]);
    const time = [], x = [], twin = [];
    const look = t => { time.push(t); x.push(w.look(t)[0]); twin.push(w.lookTwin(t)[0]); };
    let next = 0;
    for (let i = 0; i <= 200; ++i) {
      const t = length * i / 200;
      for (; next < events.length && events[next][0] <= t; ++next) {
        look(events[next][0]);
        events[next][1]();
        look(events[next][0]);
      }
      look(t);
    }
    return {time, x, twin};
  };
  let all = [];
  const stage = new Stage(root, 340, (svg, width, height) => {
    const of = axes(svg, width, height, {x: [0, length], y: [-2.2, 2.2], xName: say.time,
                                         yName: say.xOfWorker1});
    const mark = (t, text, y) => svg.append(
        make("line", {x1: of.px(t), x2: of.px(t), y1: of.top, y2: of.bottom,
                      stroke: "var(--soft)", "stroke-dasharray": "3 4"}),
        make("text", {x: of.px(t) + 4, y, class: "strong"}, text));
    mark(begin, say.snapshot, of.top + 12);
    mark(gradientAt, say.gradient, of.top + 28);
    mark(begin + delay, say.answer, of.top + 44);
    orders.forEach(([, shade], kind) => of.line(all[kind].time, all[kind].x,
        {stroke: shade, "stroke-width": kind === 1 ? 4 : 2.5}));
    const grip = (name, t, y, label, range, put) => {
      disc(svg, of.px(t), y, 9, name === "u" ? colour(3) : colour(1));
      stage.handles.push({key: name, x: of.px(t), y, radius: 10, label, value: t, range,
                          unit: say.ofTime,
                          move: p => put(of.back.x(p)), step: d => put(t + d / 10)});
    };
    grip("u", gradientAt, of.bottom - 34, say.timeOfTheGradient, [0, 9.5],
         t => { gradientAt = t; show(); });
    grip("answer", begin + delay, of.bottom - 12, say.timeOfTheAnswer,
         [begin, begin + 8], t => { delay = t - begin; show(); });
  }, say.picture);
  key(root, orders);
  const table = numbers(root), c = controls(root);
  const show = () => {
    delay = Math.min(8, Math.max(0, delay));
    gradientAt = Math.min(9.5, Math.max(0, gradientAt));
    all = orders.map((_, kind) => follow(kind));
    const end = all.map(a => [a.x.at(-1), a.twin.at(-1)]);
    const apart = kind => Math.max(...[0, 1].map(m => Math.abs(end[kind][m] - end[0][m])));
    const without = (end[2][0] + end[2][1] - end[0][0] - end[0][1]) / 2;
    const [cosh, sinh] = Engine.mixOver(eta * delay);
    table.set({[say.lateCorrectedErrorAt]: shown(apart(1), 2),
               [say.asPublishedErrorOf]: shown(Math.abs(end[2][0] - end[0][0]), 3),
               [say.asPublishedXTwin]: shown(without, 3),
               [say.xTakesOfThe]: shown(cosh * .5 + sinh * 1.87, 4),
               [say.twinTakes]: shown(sinh * .5 + cosh * 1.87, 4)});
    wait.put(delay);
    stage.redraw();
  };
  const wait = c.slider(say.delayOfTheAnswer, {min: 0, max: 8, step: .05, value: delay,
                        show: v => shown(v, 3)}, v => { delay = v; show(); });
  c.slider(say.gradientU, {min: 0, max: 2, step: .1, value: u}, v => { u = v; show(); });
  c.slider(say.eta, {min: 0, max: .5, step: .01, value: eta}, v => { eta = v; show(); });
  c.slider(say.snapshotOfWorker2, {min: -2, max: 2, step: .1, value: other},
           v => { other = v; show(); });
  check(root, say.check);
  show();
};

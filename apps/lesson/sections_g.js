// A section of the lesson: recorded runs of workers that train a net, or one's own.
"use strict";

sections.run = root => {
  const say = words.sections.run;
  const {yours, runs} = JSON.parse(document.getElementById("runs").textContent);
  root.append(make("p", {}, yours ?
      fill(say.yours, {names: runs.map(r => r.name).join(", ")}) : say.eightWorkersWereRecorded));
  if (!yours) guess(root, say.guess, 1);
  // The value of a curve at a moment: on the line between two points, at the ends as they are.
  const at = (epochs, values, moment) => {
    const after = epochs.findIndex(e => e >= moment);
    if (after <= 0) return after === 0 ? values[0] : values.at(-1);
    const part = (moment - epochs[after - 1]) / (epochs[after] - epochs[after - 1]);
    return values[after - 1] + part * (values[after] - values[after - 1]);
  };
  const scores = [["top1", say.top1OfThe],
                  ["loss", say.lossOfTheWorkers]].filter(
      ([of]) => runs.every(r => r.own[of].every(v => v !== null)));
  const last = Math.max(...runs.map(r => r.own.epoch.at(-1)));
  let now = last / 2, score = scores[0][0], kind = "exact";
  // A run that was not measured exactly has its estimate only.
  const distances = r => kind === "exact" && r.exact.epoch.length ? r.exact : r.estimate;
  const far = (r, epoch) => at(distances(r).epoch, distances(r).distance, epoch);
  const good = (r, epoch) => at(r.own.epoch, r.own[score], epoch);
  const most = list => 1.1 * Math.max(...list);
  const ranges = () => ({
    far: [0, most(runs.flatMap(r => [...r.exact.distance, ...r.estimate.distance])) || 1],
    score: [0, most(runs.flatMap(r => r.own[score]))]});
  const nameOfScore = () => scores.find(([of]) => of === score)[1];
  const first = new Stage(root, 320, (svg, width, height) => {
    const of = axes(svg, width, height, {x: ranges().far, y: ranges().score,
                                         xName: say.consensusDistanceXi, yName: nameOfScore()});
    runs.forEach((r, k) => {
      const epochs = r.own.epoch.filter(e => e <= now);
      of.line([...epochs, now].map(e => far(r, e)), [...epochs, now].map(e => good(r, e)),
              {stroke: colour(k)});
      for (const e of epochs)
        svg.append(make("circle", {cx: of.px(far(r, e)), cy: of.py(good(r, e)), r: 3.5,
                                   fill: colour(k)}));
      const [x, y] = [of.px(far(r, now)), of.py(good(r, now))];
      svg.append(make("circle", {cx: x, cy: y, r: 7, fill: colour(k)}),
                 make("text", {x: x > width / 2 ? x - 10 : x + 10, y: y - 8, class: "strong",
                               "text-anchor": x > width / 2 ? "end" : "start"}, r.name));
    });
  }, say.picture);
  const over = (label, name, range, curve) => {
    const stage = new Stage(root, 190, (svg, width, height) => {
      const of = axes(svg, width, height, {x: [0, last], y: range(), xName: say.epoch,
                                           yName: name()});
      runs.forEach((r, k) => of.line(...curve(r), {stroke: colour(k)}));
      const x = of.px(now);
      svg.append(make("line", {x1: x, x2: x, y1: of.top, y2: of.bottom, stroke: "var(--soft)",
                               "stroke-dasharray": "3 4"}));
      disc(svg, x, of.bottom, 8, colour(2));
      stage.handles.push({key: "now", x, y: of.bottom, radius: 10, label: say.momentOfTheTraining,
                          value: now, range: [0, last], unit: say.epochs,
                          move: p => put(of.back.x(p)), step: d => put(now + d * last / 40)});
    }, label);
    return stage;
  };
  const second = over(say.distanceOverTheTraining, () => say.consensusDistanceXi,
                      () => ranges().far, r => [distances(r).epoch, distances(r).distance]);
  const third = over(say.howGoodModelsAre, nameOfScore, () => ranges().score,
                     r => [r.own.epoch, r.own[score]]);
  key(root, runs.map((r, k) => [fill(say.runOf, {run: r.name, workers: r.workers}), colour(k)]));
  const table = numbers(root), c = controls(root);
  const show = () => {
    const values = {};
    for (const r of runs) {
      const name = fill(score === "top1" ? say.top1At : say.lossAt, {run: r.name});
      values[name] = shown(good(r, now), 3);
      values[fill(say.distanceAt, {run: r.name})] = shown(far(r, now), 3);
    }
    table.set(values);
    for (const s of [first, second, third]) s.redraw();
  };
  const slider = c.slider(say.epoch, {min: 0, max: last, step: last / 200, value: now,
                          show: v => shown(v, 3)}, v => { now = v; show(); });
  const put = epoch => {
    now = Math.min(last, Math.max(0, epoch));
    slider.put(now);
    show();
  };
  c.choice(say.distance, [["exact", say.measuredExactly], ["estimate", say.runningEstimate]],
           kind, v => { kind = v; show(); });
  if (scores.length > 1)
    c.choice(say.howGood, [["top1", say.top1], ["loss", say.loss]], score,
             v => { score = v; show(); });
  check(root, say.check);
  show();
};

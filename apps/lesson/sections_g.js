// A section of the lesson: recorded runs of workers that train a net, or one's own.
"use strict";

sections.run = root => {
  const {yours, runs} = JSON.parse(document.getElementById("runs").textContent);
  root.append(make("p", {}, yours ?
      `These are your runs: ${runs.map(r => r.name).join(", ")}.` :
      "Eight workers were recorded twice. In the run alike all draw from the same pictures of " +
      "ten shapes; in the run unlike each has other shares of the shapes, some hardly any of " +
      "one."));
  guess(root, "Both recorded runs make as many exchanges, with the same learning rates. Where " +
        "are the workers further apart?",
        ["where their data are alike", "where their data are unlike", "the same in both"], 1,
        "Gradients on other shapes pull elsewhere. On average over the run the distance is 2.4 " +
        "times as large, and at the end the workers' own models have 36 % and not 50 %. In both " +
        "it falls in the end because the learning rate does.");
  // The value of a curve at a moment: on the line between two points, at the ends as they are.
  const at = (epochs, values, moment) => {
    const after = epochs.findIndex(e => e >= moment);
    if (after <= 0) return after === 0 ? values[0] : values.at(-1);
    const part = (moment - epochs[after - 1]) / (epochs[after] - epochs[after - 1]);
    return values[after - 1] + part * (values[after] - values[after - 1]);
  };
  const scores = [["top1", "top-1 of the workers' own models, %"],
                  ["loss", "loss of the workers' own models"]].filter(
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
                                         xName: "consensus distance Ξ", yName: nameOfScore()});
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
  }, "how good models are by how far apart they are");
  const over = (label, name, range, curve) => {
    const stage = new Stage(root, 190, (svg, width, height) => {
      const of = axes(svg, width, height, {x: [0, last], y: range(), xName: "epoch",
                                           yName: name()});
      runs.forEach((r, k) => of.line(...curve(r), {stroke: colour(k)}));
      const x = of.px(now);
      svg.append(make("line", {x1: x, x2: x, y1: of.top, y2: of.bottom, stroke: "var(--soft)",
                               "stroke-dasharray": "3 4"}));
      disc(svg, x, of.bottom, 8, colour(2));
      stage.handles.push({key: "now", x, y: of.bottom, radius: 10, label: "moment of the training",
                          value: now, range: [0, last], unit: "epochs",
                          move: p => put(of.back.x(p)), step: d => put(now + d * last / 40)});
    }, label);
    return stage;
  };
  const second = over("distance over the training", () => "consensus distance Ξ",
                      () => ranges().far, r => [distances(r).epoch, distances(r).distance]);
  const third = over("how good models are over the training", nameOfScore, () => ranges().score,
                     r => [r.own.epoch, r.own[score]]);
  key(root, runs.map((r, k) => [`${r.name}, ${r.workers} workers`, colour(k)]));
  const table = numbers(root), c = controls(root);
  const show = () => {
    const values = {};
    for (const r of runs) {
      values[`${r.name}: ${score === "top1" ? "top-1, %" : "loss"}`] = shown(good(r, now), 3);
      values[`${r.name}: distance Ξ`] = shown(far(r, now), 3);
    }
    table.set(values);
    for (const s of [first, second, third]) s.redraw();
  };
  const slider = c.slider("epoch", {min: 0, max: last, step: last / 200, value: now,
                          show: v => shown(v, 3)}, v => { now = v; show(); });
  const put = epoch => {
    now = Math.min(last, Math.max(0, epoch));
    slider.put(now);
    show();
  };
  c.choice("distance", [["exact", "measured exactly"], ["estimate", "running estimate"]],
           kind, v => { kind = v; show(); });
  if (scores.length > 1)
    c.choice("how good", [["top1", "top-1"], ["loss", "loss"]], score,
             v => { score = v; show(); });
  root.append(make("p", {class: "check"}, "Drag a green dot. While the learning rate is large the ",
                   "workers drift apart and learn little; as it falls they come together and ",
                   "learn. The running estimate, which costs no messages, has a long memory: at ",
                   "the end it is behind. Measured and evaluated twice an epoch; between two ",
                   "points the line is straight. Make the two runs, 2 minutes each on 2 cores: ",
                   make("code", {}, "gossamer data make-shapes shapes10"), ", then ",
                   make("code", {}, "gossamer train data.train=shapes10/train " +
                        "data.val=shapes10/val train.batch=32 train.epochs=8 eval.every=0.5 " +
                        "eval.consensus_every=0.5 --workers 8 run.name=alike"),
                   ", and the same with ",
                   make("code", {}, "data.shard=dirichlet:.3 run.name=unlike"), ". Check: ",
                   make("code", {}, "gossamer lesson --section run --run runs/alike " +
                        "--run runs/unlike"),
                   " shows yours here. No two runs are the same, for who meets whom depends on ",
                   "the time that each step takes."));
  show();
};

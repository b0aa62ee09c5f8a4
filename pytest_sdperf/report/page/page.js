"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  // Okabe and Ito's colours, which colour-blind readers can tell apart; then Tol's, for what has more kinds.
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#c9b400"];
  const KINDS = [...COLOURS, "#332288", "#88ccee", "#44aa99", "#999933", "#aa4499", "#882255"];
  const unique = (items) => [...new Set(items)];
  const scaled = (largest) => (largest >= 1 ? [1, "s"] : largest >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"]);
  // One engine has one colour on the whole page, unless two of a chart would have the same.
  const engines = unique(data.figures.flatMap((figure) => (figure.bars || []).map((bar) => bar.s)));
  function coloursOf(series) {
    const found = series.map((name) => COLOURS[engines.indexOf(name) % COLOURS.length]);
    return unique(found).length === series.length ? found : series.map((_, i) => COLOURS[i % COLOURS.length]);
  }
  const longest = (texts) => d3.max(texts, (text) => text.length) || 0;

  function keys(element, names, colours) {
    if (names.length < 2) return;
    const list = element.appendChild(document.createElement("div"));
    list.className = "keys";
    names.forEach((name, i) => {
      const key = list.appendChild(document.createElement("span"));
      key.textContent = name;
      key.style.setProperty("--key", colours[i % colours.length]);
    });
  }

  // Rows of bars, one line each: the name of a row stands left of its first bar where there is room, else above it.
  function bars(width, figure, element) {
    const all = figure.bars;
    const rows = unique(all.map((bar) => bar.y)), series = unique(all.map((bar) => bar.s));
    const [unit, name] = figure.unit === "s" ? scaled(d3.max(all, (bar) => bar.v) || 1) : [0.01, "%"];
    const colours = coloursOf(series);
    keys(element, series, colours);
    const beside = longest(rows) * 7 < width / 4;
    const used = [], names = [], lines = [];
    for (const row of rows) {
      names.push({ row, at: lines.length });
      if (!beside) lines.push(lines.length);
      for (const bar of all.filter((one) => one.y === row)) {
        used.push({ ...bar, at: lines.length, x: (bar.v || 0) / unit, end: Math.max(bar.v || 0, bar.hi || 0) / unit });
        lines.push(lines.length);
      }
      if (series.length > 1) lines.push(lines.length);
    }
    const ends = used.filter((bar) => bar.lo && bar.hi > bar.lo);
    return Plot.plot({
      width, marginLeft: beside ? longest(rows) * 7 + 12 : 2, marginRight: longest(all.map((bar) => bar.t)) * 7 + 12,
      marginTop: 2, marginBottom: 34, height: 36 + lines.length * (series.length > 1 ? 17 : 21),
      x: { label: name, grid: true, domain: [0, d3.max(used, (bar) => bar.end) || 1], ticks: Math.max(2, width / 120) },
      y: { domain: lines, axis: null, padding: 0.14 },
      color: { domain: series, range: colours },
      marks: [
        Plot.barX(used, { y: "at", x: "x", fill: "s", title: (bar) => `${bar.y}, ${bar.s}: ${bar.t}` }),
        Plot.ruleY(ends, { y: "at", x1: (bar) => bar.lo / unit, x2: (bar) => bar.hi / unit, stroke: "currentColor", strokeWidth: 2 }),
        Plot.text(used, { y: "at", x: "end", text: "t", textAnchor: "start", dx: 5, fill: "currentColor" }),
        Plot.text(names, { y: "at", frameAnchor: "left", text: "row", textAnchor: beside ? "end" : "start", dx: beside ? -8 : 0,
          fill: "currentColor", fontWeight: beside ? 400 : 600 }),
        Plot.ruleX([0]),
      ],
    });
  }

  // Dots with ranges: a row per engine and batch, a colour per optimization.
  function dots(width, figure, element) {
    const all = figure.dots, memory = figure.kind === "memory";
    const rows = unique(all.map((dot) => dot.y)), kinds = unique(all.map((dot) => dot.o));
    const [unit, name] = memory ? [2 ** 20, "MB of 2^20 bytes"] : scaled(d3.max(all, (dot) => dot.hi));
    keys(element, kinds, COLOURS);
    const colour = (dot) => COLOURS[kinds.indexOf(dot.o) % COLOURS.length];
    const lane = (dot) => kinds.indexOf(dot.o);
    return Plot.plot({
      width, marginLeft: 8, marginRight: 16, marginTop: 4, marginBottom: 34,
      height: 38 + rows.length * (26 + kinds.length * 9),
      x: { label: name, grid: true, zero: true, nice: true, ticks: Math.max(2, width / 120) },
      fy: { domain: rows, axis: null, padding: 0.06 },
      y: { domain: d3.range(kinds.length), axis: null, type: "point", padding: 1, insetTop: 18 },
      marks: [
        Plot.text(rows, { fy: (row) => row, frameAnchor: "top-left", text: (row) => row, dy: 4, fill: "currentColor", fontWeight: 600 }),
        Plot.ruleY(all, { fy: "y", y: lane, x1: (dot) => dot.lo / unit, x2: (dot) => dot.hi / unit, stroke: colour, strokeWidth: 3 }),
        Plot.dot(all, { fy: "y", y: lane, x: (dot) => dot.v / unit, fill: colour, r: 4, title: (dot) => `${dot.y}, ${dot.o}` }),
      ],
    });
  }

  // Its data are those of its table.
  function stack(width, figure, element) {
    const table = element.parentElement.querySelector("table");
    const kindsOf = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const all = [...table.tBodies[0].rows].flatMap((row) => [...row.cells].flatMap((cell, i) =>
      cell.dataset.v ? [{ y: row.cells[0].textContent, k: kindsOf[i], v: +cell.dataset.v, t: cell.textContent }] : []));
    const rows = unique(all.map((bar) => bar.y)), kinds = unique(all.map((bar) => bar.k));
    const [unit, name] = scaled(d3.max(d3.rollup(all, (v) => d3.sum(v, (bar) => bar.v), (bar) => bar.y).values()) || 1);
    const colours = kinds.map((_, i) => KINDS[i % KINDS.length]);
    keys(element, kinds, colours);
    const beside = longest(rows) * 7 < width / 3;
    return Plot.plot({
      width, marginLeft: beside ? longest(rows) * 7 + 12 : 2, marginRight: 16, marginTop: 4, marginBottom: 34,
      height: 38 + rows.length * (beside ? 26 : 42),
      x: { label: name, grid: true, ticks: Math.max(2, width / 120) },
      fy: { domain: rows, axis: beside ? "left" : null, label: null, padding: 0.1 },
      color: { domain: kinds, range: colours },
      marks: [
        Plot.barX(all, { fy: "y", x: (bar) => bar.v / unit, fill: "k", order: kinds, insetTop: beside ? 0 : 18, stroke: "var(--paper)", strokeWidth: 0.5, title: (bar) => `${bar.y}, ${bar.k}: ${bar.t}` }),
        beside ? null : Plot.text(rows, { fy: (row) => row, frameAnchor: "top-left", text: (row) => row, dy: 4, fill: "currentColor", fontWeight: 600 }),
        Plot.ruleX([0]),
      ],
    });
  }

  function steps(width, figure, element) {
    const colours = ["#0072b2", "#009e73", "#d55e00"];
    const dashes = ["", "2,3", "7,4"];
    keys(element, figure.names, colours);
    const positive = figure.curves.filter((one) => one.v > 0);
    const curves = figure.names.map((name) => positive.filter((one) => one.s === name));
    return Plot.plot({
      width, height: 260, marginLeft: 52, marginBottom: 34, marginRight: 16,
      x: { label: "step", ticks: Math.max(2, width / 80), tickFormat: (x) => (Number.isInteger(x) ? String(x) : "") },
      y: { type: "log", label: "relative error", grid: true, tickFormat: "~e", ticks: 4 },
      marks: curves.flatMap((curve, i) => [
        Plot.line(curve, { x: "x", y: "v", stroke: colours[i], strokeWidth: 2, strokeDasharray: dashes[i] }),
        curve.length < 12 ? Plot.dot(curve, { x: "x", y: "v", fill: colours[i], r: 3 }) : null,
      ]),
    });
  }

  // How each case changed: a dot each, whose colour and shape are its verdict.
  const VERDICTS = { HELD: ["#56b4e9", "circle"], IMPROVED: ["#009e73", "triangle"], INCONCLUSIVE: ["#e69f00", "diamond"],
    REGRESSED: ["#d55e00", "square"] };
  function changes(width, figure, element) {
    const all = figure.dots, rows = unique(all.map((dot) => dot.y)), verdicts = unique(all.map((dot) => dot.o));
    const look = verdicts.map((name) => VERDICTS[name] || ["#999999", "cross"]);
    keys(element, verdicts, look.map((one) => one[0]));
    const most = Math.max(5, d3.max(all, (dot) => Math.abs(dot.v)) * 100 * 1.1);
    return Plot.plot({
      width, marginLeft: 8, marginRight: 16, marginTop: 12, marginBottom: 34, height: 56 + rows.length * 40,
      x: { label: "change of latency, %", grid: true, domain: [-most, most], ticks: Math.max(2, width / 120) },
      y: { domain: rows, axis: null, padding: 0.1, insetBottom: 10 },
      color: { domain: verdicts, range: look.map((one) => one[0]) }, symbol: { domain: verdicts, range: look.map((one) => one[1]) },
      marks: [
        Plot.ruleX([0]),
        Plot.text(rows, { y: (row) => row, frameAnchor: "left", text: (row) => row, dy: -10, fill: "currentColor", fontWeight: 600 }),
        Plot.dot(all, { y: "y", x: (dot) => dot.v * 100, dy: 8, fill: "o", symbol: "o", stroke: "currentColor", strokeWidth: 0.5, r: 5,
          title: (dot) => `${dot.n}: ${dot.t}` }),
      ],
    });
  }

  function line(element, points) {
    const width = 120, height = 24, x = d3.scalePoint(d3.range(points.length), [4, width - 4]);
    const y = d3.scaleLinear([0, d3.max(points, (one) => one[1])], [height - 3, 3]);
    const svg = d3.select(element).append("svg").attr("width", width).attr("height", height).attr("aria-hidden", "true");
    svg.append("path").attr("fill", "none").attr("stroke", "currentColor").attr("stroke-width", 1.5)
      .attr("d", d3.line((one, i) => x(i), (one) => y(one[1]))(points));
    svg.selectAll("circle").data(points).join("circle").attr("cx", (one, i) => x(i)).attr("cy", (one) => y(one[1]))
      .attr("r", 2).attr("fill", "currentColor").append("title").text((one) => one[0]);
  }

  const KIND = { bars, changes, dots, memory: dots, stack, steps };
  const charts = [...document.querySelectorAll(".chart")], lines = [...document.querySelectorAll(".line")];
  const drawn = new Map();

  // Widths are asked for before anything is drawn: each question after a change lays the whole page out anew.
  function draw(elements) {
    elements.map((element) => [element, Math.max(240, Math.floor(element.clientWidth || 720))]).forEach(drawOne);
  }

  function drawOne([element, width]) {
    if (drawn.get(element) === width) return;
    drawn.set(element, width);
    element.replaceChildren();
    const place = charts.indexOf(element);
    if (place < 0) return line(element, data.lines[lines.indexOf(element)]);
    const figure = data.figures[place];
    element.append(KIND[figure.kind](width, figure, element));
  }

  const seen = new IntersectionObserver((entries) => {
    draw(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target));
  }, { rootMargin: "400px" });
  for (const element of [...charts, ...lines]) seen.observe(element);
  let later;
  window.addEventListener("resize", () => {
    clearTimeout(later);
    later = setTimeout(() => draw([...drawn.keys()].filter((element) => element.clientWidth)), 150);
  });
  window.addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("main details")) folded.open = true;
    draw([...charts, ...lines]);
  });

  const input = document.querySelector(".filter input");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.querySelectorAll("section:not(#environment) tbody tr")) {
      const text = `${row.closest(".scroll").ariaLabel} ${row.textContent}`.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
})();

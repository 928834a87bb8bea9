// Maps of a world on a canvas: the cost of each place, paths, marks and candidates.
// A plane is {low: [x, y], high: [x, y]}, y downwards; a field is rows of numbers, null where nothing can be.
"use strict";

const draw = (() => {
  const CIVIDIS = ["#00224e", "#003170", "#2a3f6d", "#434e6c", "#575d6d", "#6a6c71", "#7d7c78", "#918b78", "#a59c74",
    "#bcae6c", "#d2c060", "#e9d34e", "#fee838"].map(hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)));
  // Shapes of marks, in a box from -10 to 10.
  const SHAPES = {
    start: "M 7 0 A 7 7 0 1 0 -7 0 A 7 7 0 1 0 7 0 Z",
    goal: "M 0 -10 L 2.6 -3.4 L 9.6 -3 L 4.2 1.4 L 6 8.2 L 0 4.4 L -6 8.2 L -4.2 1.4 L -9.6 -3 L -2.6 -3.4 Z",
    agent: "M 0 -8 L 8 0 L 0 8 L -8 0 Z",
    end: "M -8 -5 L -5 -8 L 0 -3 L 5 -8 L 8 -5 L 3 0 L 8 5 L 5 8 L 0 3 L -5 8 L -8 5 L -3 0 Z",
    handle: "M -8 -5 A 3 3 0 0 1 -5 -8 L 5 -8 A 3 3 0 0 1 8 -5 L 8 5 A 3 3 0 0 1 5 8 L -5 8 A 3 3 0 0 1 -8 5 Z",
  };
  const FILL = { start: "#ffffff", goal: "#ffd000", agent: "#ff7ab8", end: "#ff5a36", handle: "#8fd3ff" };
  const PATH = "#ffffff", PLAN = "#ff7ab8";

  // Objects without a prototype: a cost may be called "constructor".
  const bare = (_, value) => value && typeof value === "object" && !Array.isArray(value) ? Object.setPrototypeOf(value, null) : value;
  const data = () => JSON.parse(document.getElementById("data").textContent, bare);
  const token = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = value => Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 }).replace("-", "−");

  function colour(share) {
    const at = Math.min(1, Math.max(0, share)) * (CIVIDIS.length - 1), below = Math.min(CIVIDIS.length - 2, Math.floor(at));
    return CIVIDIS[below].map((part, channel) => Math.round(part + (at - below) * (CIVIDIS[below + 1][channel] - part)));
  }

  // The least and largest of some numbers; null is ignored.
  function range(values) {
    let low = Infinity, high = -Infinity;
    for (const value of values.flat()) if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
    return low < high ? [low, high] : [low, low + Math.max(1, 1e-6 * Math.abs(low))]; // low + 1 may round to low
  }

  // A canvas with the resolution of the screen and the proportions of the plane. `at` maps places to pixels, `place` maps back.
  function view(canvas, plane) {
    const [x, y] = plane.low, width = canvas.clientWidth, scale = width / (plane.high[0] - x);
    const height = scale * (plane.high[1] - y), ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    return { context, plane, width, height, at: p => [scale * (p[0] - x), scale * (p[1] - y)], place: p => [x + p[0] / scale, y + p[1] / scale] };
  }

  // Colours blend between cells, walls are sharp: below a wall is the mean colour of its neighbours.
  function field(view, values, [low, high] = range(values), contours = 12) {
    const { context, width, height } = view, rows = values.length, columns = values[0].length;
    const small = document.createElement("canvas");
    small.width = columns;
    small.height = rows;
    const pixels = new ImageData(columns, rows);
    values.forEach((line, row) => line.forEach((value, column) => {
      const shown = value ?? neighbourMean(values, row, column) ?? high;
      pixels.data.set([...colour((shown - low) / (high - low)), 255], 4 * (row * columns + column));
    }));
    small.getContext("2d").putImageData(pixels, 0, 0);
    context.imageSmoothingEnabled = true;
    context.drawImage(small, 0, 0, width, height);
    lines(view, values, low, high, contours);
    context.fillStyle = token("--wall");
    const [w, h] = [width / columns, height / rows];
    values.forEach((line, row) => line.forEach((value, column) => {
      const [x, y] = [Math.floor(column * w), Math.floor(row * h)];
      if (value === null) context.fillRect(x, y, Math.ceil((column + 1) * w) - x, Math.ceil((row + 1) * h) - y);
    }));
  }

  // An empty map, for worlds without maps of costs.
  function blank({ context, width, height }) {
    context.fillStyle = token("--sunk");
    context.fillRect(0, 0, width, height);
  }

  function neighbourMean(values, row, column) {
    const near = [-1, 0, 1].flatMap(down => [-1, 0, 1].map(right => values[row + down]?.[column + right] ?? null)).filter(value => value !== null);
    return near.length ? near.reduce((sum, value) => sum + value) / near.length : null;
  }

  // Lines of equal cost, by marching over squares of four neighbouring cells.
  function lines({ context, width, height }, values, low, high, count) {
    const [w, h] = [width / values[0].length, height / values.length];
    context.beginPath();
    for (let row = 0; row + 1 < values.length; row++) for (let column = 0; column + 1 < values[0].length; column++) {
      const corners = [[row, column], [row, column + 1], [row + 1, column + 1], [row + 1, column]];
      const costs = corners.map(([r, c]) => values[r][c]);
      if (costs.includes(null)) continue;
      const step = (high - low) / count, last = Math.min(count - 1, Math.floor((Math.max(...costs) - low) / step));
      for (let k = Math.max(1, Math.ceil((Math.min(...costs) - low) / step)); k <= last; k++) {
        const level = low + k * step, crossed = [];
        costs.forEach((cost, k) => {
          const next = costs[(k + 1) % 4], [r, c] = corners[k], [s, d] = corners[(k + 1) % 4], part = (level - cost) / (next - cost);
          if ((cost < level) !== (next < level)) crossed.push([(c + part * (d - c) + 0.5) * w, (r + part * (s - r) + 0.5) * h]);
        });
        for (let k = 0; k + 1 < crossed.length; k += 2) { context.moveTo(...crossed[k]); context.lineTo(...crossed[k + 1]); }
      }
    }
    context.strokeStyle = "rgba(255, 255, 255, 0.45)";
    context.lineWidth = 0.8;
    context.stroke();
  }

  // A path through places. Its dark edge shows on every colour.
  function path({ context, at }, places, stroke = PATH, width = 2.5) {
    if (places.length < 2) return;
    context.beginPath();
    places.forEach((place, k) => context[k ? "lineTo" : "moveTo"](...at(place)));
    context.lineJoin = context.lineCap = "round";
    for (const [style, wide] of [["rgba(0, 0, 0, 0.75)", width + 2.5], [stroke, width]]) {
      context.strokeStyle = style;
      context.lineWidth = wide;
      context.stroke();
    }
  }

  function mark({ context, at, width }, kind, place, size = Math.min(1, Math.max(0.6, width / 320))) {
    context.save();
    context.translate(...at(place));
    context.scale(size, size);
    const shape = new Path2D(SHAPES[kind]);
    context.lineJoin = "round";
    context.lineWidth = 3.2;
    context.strokeStyle = "#111111";
    context.stroke(shape);
    context.fillStyle = FILL[kind];
    context.fill(shape);
    context.restore();
  }

  // Places as dots in the colour of their cost; the cheapest are on top.
  function pool({ context, at }, places, costs, [low, high] = range(costs), radius = 2.6, tint = colour) {
    const order = [...costs.keys()].sort((a, b) => costs[b] - costs[a]);
    for (const k of order) {
      context.beginPath();
      context.arc(...at(places[k]), radius, 0, 2 * Math.PI);
      context.fillStyle = `rgb(${tint((costs[k] - low) / (high - low))})`;
      context.fill();
      context.strokeStyle = "rgba(0, 0, 0, 0.55)";
      context.lineWidth = 0.6;
      context.stroke();
    }
  }

  // The colour scale of a map, with the unit of the cost.
  function scale(element, [low, high], unit) {
    const label = document.createElement("span");
    label.textContent = unit;
    element.className = "scale";
    element.replaceChildren(number(low), bar(), number(high), label);
  }

  // All colours from the lowest to the highest cost.
  function bar(tint = colour) {
    const shown = document.createElement("i");
    shown.style.background = `linear-gradient(90deg, ${CIVIDIS.map((_, k) => `rgb(${tint(k / (CIVIDIS.length - 1))})`)})`;
    return shown;
  }

  // The legend of marks: {start: "start", goal: "goal", ...}; `path` was executed, `plan` was not.
  function key(list, words) {
    list.className = "key";
    list.replaceChildren(...Object.entries(words).map(([kind, word]) => {
      const item = document.createElement("li"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
      const drawn = { d: SHAPES[kind] ?? "M -9 5 L -2 -4 L 9 2", fill: FILL[kind] ?? "none", stroke: "#111111", "stroke-width": 1.6 };
      for (const [name, value] of Object.entries(kind in SHAPES ? drawn : { ...drawn, stroke: kind === "plan" ? PLAN : "currentColor", "stroke-width": 3 })) shape.setAttribute(name, value);
      svg.setAttribute("viewBox", "-12 -12 24 24");
      svg.setAttribute("aria-hidden", "true");
      svg.append(shape);
      item.append(svg, word);
      return item;
    }));
  }

  // Draw now, and whenever the size of the window or its colour scheme changes.
  function always(paint) {
    let waiting = 0;
    const again = () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(paint); };
    new ResizeObserver(again).observe(document.body);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    paint();
  }

  return { PLAN, data, token, number, colour, range, view, field, blank, path, mark, pool, scale, bar, key, always };
})();

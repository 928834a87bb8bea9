// The page of `reachcost explore`. The state lives here, and every request carries all of it.
"use strict";

(() => {
  const scene = draw.data(), plane = scene.plane, find = name => document.getElementById(name);
  const request = { start: scene.start, goal: scene.goal, layout: Object.fromEntries(scene.handles.map(h => [h.name, h.value])) };
  const panels = [...document.querySelectorAll("#maps article")].map(article => ({
    canvas: article.querySelector("canvas"), cost: article.querySelector(".cost"), scale: article.querySelector(".scale"),
    here: article.querySelector(".here"), outcome: article.querySelector(".outcome"), field: null, known: "", answer: null,
  }));
  const sliders = [...document.querySelectorAll("[data-handle]")], still = matchMedia("(prefers-reduced-motion: reduce)");
  let handles = scene.handles, cursor = [...scene.goal], looked = null, held = null, planning = null, playing = 0;

  // --- responses of the server

  function unpacked({ kind, shape, data }) {
    const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
    return { shape, values: new { float32: Float32Array, uint16: Uint16Array }[kind](bytes.buffer) };
  }

  // Places [..., 2] as shares of the plane; `places(from, count)` returns some of them as [x, y].
  function unpackedPlaces(packed) {
    const { values, shape } = unpacked(packed), [x, y] = plane.low, [w, h] = [plane.high[0] - x, plane.high[1] - y];
    const place = k => [x + w * values[2 * k] / 65535, y + h * values[2 * k + 1] / 65535];
    return { shape, places: (from, count) => Array.from({ length: count }, (_, k) => place(from + k)) };
  }

  function rows({ shape: [count, columns], values }) {
    return Array.from({ length: count }, (_, row) => Array.from(values.subarray(row * columns, (row + 1) * columns), cost => Number.isNaN(cost) ? null : cost));
  }

  async function ask(what, panel, signal) {
    const numbers = Object.fromEntries(["candidates", "iterations", "seed"].map(name => [name, find(name).valueAsNumber]));
    const body = JSON.stringify({ ...request, ...numbers, model: find("model").value, cost: panel.cost.value });
    let response;
    try {
      response = await fetch(what, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
    } catch (error) {
      throw error.name === "AbortError" ? error : new Error("no answer: is reachcost explore still running?");
    }
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    return answer;
  }

  // --- maps: only the newest request is answered

  let asking = null, again = false;
  function showFields() {
    again = true;
    asking ??= (async () => {
      try {
        while (again) {
          again = false;
          await Promise.all(panels.map(showField)).catch(error => { if (!again) throw error; });
        }
      } finally {
        asking = null;
      }
    })();
    return asking;
  }

  async function showField(panel) {
    const known = JSON.stringify([find("model").value, panel.cost.value, request.goal, request.layout]);
    if (panel.known === known) return;
    const answer = await ask("field", panel);
    panel.field = rows(unpacked(answer.field));
    panel.range = draw.range(panel.field);
    panel.known = known;
    handles = answer.handles;
    showNote(answer.note);
    draw.scale(panel.scale, panel.range, scene.units[panel.cost.value] ?? "");
    if (looked) look(looked);
    paint();
  }

  function showNote({ text, instead }) {
    const switched = document.createElement("button");
    switched.textContent = `Use ${instead} instead`;
    switched.addEventListener("click", () => { find("model").value = instead; plan(); });
    find("note").hidden = !text;
    find("note").replaceChildren(text ?? "", ...(instead ? [switched] : []));
  }

  // --- plans: a newer one replaces an older one

  async function plan() {
    const wrong = ["candidates", "iterations", "seed"].map(find).find(each => !each.value || !each.checkValidity());
    if (wrong) return complain(`${wrong.id}: ${wrong.validationMessage || "give a number."}`);
    planning?.abort();
    const mine = planning = new AbortController();
    stop();
    for (const panel of panels) forget(panel);
    say("Planning …");
    try {
      await showFields();
      await Promise.all(panels.map(panel => showPlan(panel, mine.signal)));
      say(`Planned in ${panels.map(panel => panel.answer.seconds.toFixed(2)).join(" and ")} s.`);
      if (!still.matches) play();
    } catch (error) {
      if (error.name !== "AbortError") complain(error.message);
    }
  }

  async function showPlan(panel, signal) {
    const answer = await ask("plan", panel, signal);
    const path = unpackedPlaces(answer.path);
    answer.path = path.places(0, path.shape[0]);
    if (answer.plans) {
      for (const name of ["ends", "routes", "chosen"]) answer[name] = unpackedPlaces(answer[name]);
      for (const name of ["costs", "elites"]) answer[name] = unpacked(answer[name]);
      answer.iterations = answer.costs.shape[1];
    }
    panel.answer = answer;
    showOutcome(panel);
    const last = Math.max(...panels.map(each => each.answer ? each.answer.plans * (each.answer.iterations ?? 0) : 0));
    find("round").max = last;
    find("round").value = last;
    paint();
  }

  function showOutcome({ answer, cost, outcome }) {
    const badge = document.createElement("span"), whose = document.createElement("span");
    whose.className = "sr-only";
    whose.textContent = `${cost.value}: `;
    badge.className = `badge ${answer.reached ? "good" : "bad"}`;
    badge.textContent = answer.reached ? "reached" : "not reached";
    const away = answer.distance === null ? "" : `, true distance left ${`${draw.number(answer.distance)} ${scene.distance_unit}`.trimEnd()},`;
    outcome.replaceChildren(whose, badge, answer.reached ? ` in ${answer.steps} steps` : ` ${answer.category}${away} after ${answer.steps} steps`);
  }

  function forget(panel) {
    panel.answer = null;
    panel.outcome.replaceChildren();
  }

  // The request has changed: forget plans for the old one.
  function outdated() {
    planning?.abort();
    for (const panel of panels) forget(panel);
    paint();
  }

  function say(text) {
    find("status").classList.remove("bad");
    find("status").textContent = text;
  }

  function complain(text) {
    find("status").classList.add("bad");
    find("status").textContent = text;
    paint();
    return false;
  }

  // --- drawing

  function paint() {
    const at = find("round").valueAsNumber, last = Number(find("round").max);
    for (const panel of panels) paintPanel(panel, at);
    const { answer } = panels.find(each => each.answer?.plans) ?? {};
    const [plans, number] = answer ? [Math.floor(at / answer.iterations) + 1, at % answer.iterations + 1] : [0, 0];
    find("when").textContent = !answer ? "" : at === last ? "full path" : `plan ${plans}, iteration ${number} of ${answer.iterations}`;
  }

  function paintPanel(panel, at) {
    const { canvas, field, range, answer } = panel;
    if (!field) return;
    const view = panel.view = draw.view(canvas, plane);
    draw.field(view, field, range);
    for (const handle of handles) draw.mark(view, "handle", between(handle.start, handle.end, request.layout[handle.name]), 0.8);
    const rounds = answer ? answer.plans * (answer.iterations ?? 0) : 0, going = at < rounds;
    if (going) paintRound(view, panel, at);
    if (answer) draw.path(view, going ? answer.path.slice(0, Math.floor(at / answer.iterations) * answer.executed + 1) : answer.path);
    draw.mark(view, "goal", request.goal, 1.1);
    draw.mark(view, "start", request.start);
    if (answer && !going && !answer.reached) draw.mark(view, "end", answer.path.at(-1));
    if (document.activeElement === canvas) cross(view, cursor);
    canvas.setAttribute("aria-label", `Map under the cost ${panel.cost.value}. ${panel.outcome.textContent || "No plan yet."} Arrow keys move a cursor, Enter sets the ${sets()}, S the start, G the goal.`);
  }

  function paintRound(view, { answer }, at) {
    const [, , candidates] = answer.costs.shape, [, , kept, steps] = answer.routes.shape;
    const ends = answer.ends.places(at * candidates, candidates), costs = [...answer.costs.values.subarray(at * candidates, (at + 1) * candidates)];
    const elites = [...answer.elites.values.subarray(at * kept, (at + 1) * kept)];
    if (find("routes").checked) for (let k = 0; k < kept; k++) thread(view, answer.routes.places((at * kept + k) * steps, steps));
    if (find("pool").checked) {
      draw.pool(view, ends, costs, draw.range(costs), 2.8, heat);
      rings(view, elites.map(k => ends[k]));
    }
    draw.path(view, answer.chosen.places(at * steps, steps), draw.PLAN, 2);
  }

  // Colours of candidates, from the cheapest, white, to the most expensive. They differ from the colours of the map.
  const HEAT = [[255, 246, 250], [255, 122, 184], [140, 20, 90], [40, 0, 30]];
  function heat(share) {
    const at = Math.min(1, Math.max(0, share)) * (HEAT.length - 1), below = Math.min(HEAT.length - 2, Math.floor(at));
    return HEAT[below].map((part, channel) => Math.round(part + (at - below) * (HEAT[below + 1][channel] - part)));
  }

  // A faint path: many of them show where most lead.
  function thread({ context, at }, places) {
    context.beginPath();
    places.forEach((place, k) => context[k ? "lineTo" : "moveTo"](...at(place)));
    context.strokeStyle = "rgba(255, 255, 255, 0.35)";
    context.lineWidth = 1;
    context.stroke();
  }

  function rings({ context, at }, places) {
    context.strokeStyle = "#ffffff";
    context.lineWidth = 1.2;
    for (const place of places) { context.beginPath(); context.arc(...at(place), 3.6, 0, 2 * Math.PI); context.stroke(); }
  }

  function cross({ context, at }, place) {
    const [x, y] = at(place);
    for (const [stroke, width] of [["#000000", 4], ["#ffffff", 1.5]]) {
      context.beginPath();
      for (const [from, to] of [[-12, -4], [4, 12]]) { context.moveTo(x + from, y); context.lineTo(x + to, y); context.moveTo(x, y + from); context.lineTo(x, y + to); }
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.stroke();
    }
  }

  const between = (start, end, share) => start.map((part, axis) => part + share * (end[axis] - part));

  // --- iterations

  function play() {
    stop();
    const last = Number(find("round").max);
    if (!last) return;
    if (find("round").valueAsNumber === last) find("round").value = 0;
    find("play").textContent = "Pause";
    const step = Math.max(1, Math.round(last / 40));
    playing = setInterval(() => {
      find("round").value = Math.min(last, find("round").valueAsNumber + step);
      paint();
      if (find("round").valueAsNumber === last) stop();
    }, 160);
  }

  function stop() {
    clearInterval(playing);
    playing = 0;
    find("play").textContent = "Play";
  }

  // --- places

  const sets = () => document.querySelector("[name=sets]:checked").value;
  const costAt = (panel, [x, y]) => panel.field?.[Math.floor((y - plane.low[1]) / plane.cell)]?.[Math.floor((x - plane.low[0]) / plane.cell)];

  // Move the start or the goal. The map knows most walls, the server all of them.
  function put(name, place) {
    const inside = place.map((part, axis) => Math.min(plane.high[axis], Math.max(plane.low[axis], part)));
    if (costAt(panels[0], inside) === null) return complain("That is in a wall: choose a free place.");
    request[name] = inside;
    outdated();
    return true;
  }

  function look(place) {
    looked = place;
    const text = panel => { const cost = costAt(panel, place); return cost == null ? "wall" : `cost ${draw.number(cost)}`; };
    for (const panel of panels) if (panel.field) panel.here.textContent = `at (${place.map(draw.number).join(", ")}): ${text(panel)}`;
  }

  function randomPlaces() {
    const free = (panels[0].field ?? []).flatMap((row, y) => row.flatMap((cost, x) => cost === null ? [] : [[x, y]]));
    const any = () => free[Math.floor(Math.random() * free.length)].map((cell, axis) => plane.low[axis] + (cell + 0.5) * plane.cell);
    if (free.length && put("start", any()) && put("goal", any())) plan();
  }

  function move(name, share) {
    const handle = handles.find(each => each.name === name), steps = handle.positions && handle.positions - 1;
    request.layout[name] = Math.min(1, Math.max(0, steps ? Math.round(share * steps) / steps : share));
    sliders.find(each => each.dataset.handle === name).value = request.layout[name];
    outdated();
    showFields().catch(error => complain(error.message));
  }

  // What a pointer can drag here: the start, the goal or a handle.
  function grip(view, [x, y]) {
    const things = [["start", request.start], ["goal", request.goal], ...handles.map(h => [h, between(h.start, h.end, request.layout[h.name])])];
    const [nearest] = things.map(([thing, place]) => [thing, Math.hypot(...view.at(place).map((part, axis) => part - [x, y][axis]))]).sort((a, b) => a[1] - b[1]);
    return nearest[1] < 16 ? nearest[0] : null;
  }

  function drag(thing, place) {
    if (typeof thing === "string") { put(thing, place); if (thing === "goal") showFields().catch(() => {}); return; }
    const along = thing.end.map((part, axis) => part - thing.start[axis]), from = place.map((part, axis) => part - thing.start[axis]);
    move(thing.name, (along[0] * from[0] + along[1] * from[1]) / (along[0] ** 2 + along[1] ** 2));
  }

  function listen(panel) {
    const { canvas } = panel, place = event => panel.view.place([event.offsetX, event.offsetY]);
    canvas.addEventListener("pointerdown", event => {
      if (event.button || !panel.view) return;
      held = grip(panel.view, [event.offsetX, event.offsetY]) ?? { click: true };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      if (!panel.view) return;
      look(place(event));
      canvas.style.cursor = held || grip(panel.view, [event.offsetX, event.offsetY]) ? "grab" : "crosshair";
      if (held && !held.click) drag(held, place(event));
    });
    canvas.addEventListener("pointerup", event => {
      if (!held) return;
      const moved = held.click ? put(sets(), place(event)) : true;
      held = null;
      cursor = place(event);
      if (moved) plan();
    });
    canvas.addEventListener("pointercancel", () => { if (held && !held.click) plan(); held = null; });
    canvas.addEventListener("touchstart", event => {  // a finger on a grip drags it, any other scrolls the page
      const box = canvas.getBoundingClientRect(), touch = event.touches[0];
      if (panel.view && grip(panel.view, [touch.clientX - box.x, touch.clientY - box.y])) event.preventDefault();
    }, { passive: false });
    canvas.addEventListener("keydown", event => {
      const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      const name = { Enter: sets(), " ": sets(), s: "start", g: "goal" }[event.key.length > 1 ? event.key : event.key.toLowerCase()];
      if (!direction && !name || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      if (direction) {
        const stride = plane.cell * (event.shiftKey ? 5 : 1);
        cursor = cursor.map((part, axis) => Math.min(plane.high[axis], Math.max(plane.low[axis], part + stride * direction[axis])));
        look(cursor);
        say(panel.here.textContent);
        paint();
      } else {
        if (put(name, cursor)) plan();
      }
    });
    for (const name of ["focus", "blur"]) canvas.addEventListener(name, paint);
    panel.cost.addEventListener("change", plan);
  }

  // --- and go

  find("settings").open = window.innerWidth >= 600;  // on a phone the maps come first
  panels.forEach(listen);
  for (const slider of sliders) {
    slider.addEventListener("input", () => move(slider.dataset.handle, slider.valueAsNumber));
    slider.addEventListener("change", plan);
  }
  for (const name of ["model", "candidates", "iterations", "seed"]) find(name).addEventListener("change", plan);
  for (const name of ["pool", "routes"]) find(name).addEventListener("change", paint);
  find("request").addEventListener("submit", event => { event.preventDefault(); plan(); });
  find("random").addEventListener("click", randomPlaces);
  find("reset")?.addEventListener("click", () => { for (const handle of scene.handles) move(handle.name, handle.value); plan(); });
  find("round").addEventListener("input", () => { stop(); paint(); });
  find("play").addEventListener("click", () => playing ? stop() : play());
  draw.key(find("key"), { start: "start", goal: "goal", path: "executed path", plan: "plan of the iteration", end: "end of a failed episode", ...(handles.length ? { handle: `drag: ${handles.map(h => h.name).join(", ")}` } : {}) });
  const dots = document.createElement("li");
  dots.className = "scale";
  dots.replaceChildren("candidates: cheapest", draw.bar(heat), "most expensive");
  find("key").append(dots);
  draw.always(paint);
  plan();
})();

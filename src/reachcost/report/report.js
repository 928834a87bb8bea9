// The interactive parts of a report: maps of costs for a goal, and episodes step by step.
(() => {
  const scene = draw.data()?.scene, byId = name => document.getElementById(name);
  if (!scene) return;

  const PAUSE = 110; // milliseconds of a step
  const pictures = new Map(), maps = new Map();

  function badge(element, reached, words) {
    element.className = `badge ended ${reached ? "good" : "bad"}`;
    element.textContent = words;
  }

  const plain = name => name.replaceAll("_", " ");

  // A map as rows of costs, null where nothing can be: see Field in scene.py.
  function field(kept) {
    if (!maps.has(kept)) {
      const cells = new Uint16Array(Uint8Array.from(atob(kept.data), letter => letter.charCodeAt(0)).buffer);
      const cost = cell => cell === 65535 ? null : kept.low + cell / 65534 * (kept.high - kept.low);
      maps.set(kept, Array.from({ length: kept.rows }, (_, row) => Array.from(cells.subarray(row * kept.columns, (row + 1) * kept.columns), cost)));
    }
    return maps.get(kept);
  }

  // One frame of a strip, once its picture is there.
  function frame(canvas, strip, at, again) {
    if (!pictures.has(strip.image)) {
      const image = new Image();
      image.onload = again;
      image.src = strip.image;
      pictures.set(strip.image, image);
    }
    const image = pictures.get(strip.image);
    if (!image.complete || !image.naturalWidth) return;
    const width = image.naturalWidth / strip.columns, height = image.naturalHeight / Math.ceil(strip.count / strip.columns);
    canvas.width = width;
    canvas.height = height;
    canvas.getContext("2d").drawImage(image, at % strip.columns * width, Math.floor(at / strip.columns) * height, width, height, 0, 0, width, height);
  }

  function fields() {
    const choice = byId("field-goal");
    const paint = () => {
      const episode = scene.episodes.find(one => String(one.number) === choice.value);
      for (const canvas of document.querySelectorAll("canvas.field")) {
        const values = field(episode.fields[canvas.dataset.cost]), view = draw.view(canvas, scene.plane);
        draw.field(view, values);
        draw.mark(view, "goal", episode.goal);
        canvas.setAttribute("aria-label", `map of ${canvas.dataset.cost} for the goal of episode ${episode.number}`);
        draw.scale(canvas.nextElementSibling, draw.range(values), scene.units[canvas.dataset.cost] ?? "");
      }
    };
    draw.key(byId("field-key"), { goal: "goal" });
    choice.addEventListener("change", paint);
    draw.always(paint);
  }

  function replay() {
    const player = byId("player"), choice = byId("replay-episode"), slider = byId("replay-step"), play = byId("replay-play");
    const filters = { outcome: byId("replay-outcome"), group: byId("replay-group") };
    const stages = [...player.querySelectorAll(".replay")];
    let episode, step = 0, timer = 0;

    const last = () => Math.max(...episode.replays.map(replay => replay.steps));

    // The path after this number of steps; a shorter path waits at its end.
    function paintReplay(stage, replay) {
      const now = Math.min(step, replay.steps), over = now === replay.steps, map = stage.querySelector(".map"), seen = stage.querySelector(".seen");
      if (map && scene.plane) {
        const view = draw.view(map, scene.plane), kept = episode.fields[replay.cost];
        if (kept) {
          draw.field(view, field(kept));
          draw.scale(stage.querySelector(".scale"), draw.range(field(kept)), scene.units[replay.cost] ?? "");
        } else draw.blank(view);
        draw.path(view, replay.places.slice(0, now + 1));
        draw.mark(view, "start", replay.places[0]);
        draw.mark(view, "goal", episode.goal);
        draw.mark(view, over && !replay.reached ? "end" : "agent", replay.places[now]);
        map.setAttribute("aria-label", `path under ${replay.cost} after ${now} of ${replay.steps} steps`);
      }
      if (seen && replay.frames) {
        frame(seen, replay.frames, replay.steps ? Math.round(now / replay.steps * (replay.frames.count - 1)) : 0, paint);
        seen.setAttribute("aria-label", `frame under ${replay.cost} after ${now} of ${replay.steps} steps`);
      }
      badge(stage.querySelector(".ended"), replay.reached, replay.reached ? "reached" : plain(replay.outcome));
      stage.querySelector(".progress").textContent = progress(replay, now, over);
    }

    function progress(replay, now, over) {
      if (!over) return `step ${now} of ${replay.steps}`;
      if (replay.reached) return `reached after ${replay.steps} steps`;
      const left = replay.distance === null ? "" : `, true distance left ${draw.number(replay.distance)} ${scene.distance_unit}`.trimEnd();
      return `not reached after ${replay.steps} steps${left}`;
    }

    function paint() {
      if (slider.disabled) return; // no episode is chosen
      for (const stage of stages) paintReplay(stage, episode.replays.find(replay => replay.cost === stage.dataset.cost));
      for (const canvas of player.querySelectorAll(".goal-frame .seen")) if (episode.goal_frame) frame(canvas, episode.goal_frame, 0, paint);
      slider.max = last();
      slider.value = step;
      slider.setAttribute("aria-valuetext", `step ${step} of ${last()}`);
      if (!timer) byId("replay-status").textContent = `Step ${step} of ${last()} in episode ${episode.number}${episode.group ? `, ${episode.group}` : ""}.`;
    }

    function go(to) {
      step = Math.min(last(), Math.max(0, to));
      if (step === last()) stop();
      paint();
    }

    function stop() {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
    }

    function toggle() {
      if (timer) { stop(); paint(); return; }
      if (step === last()) step = 0;
      timer = setInterval(() => go(step + 1), PAUSE);
      play.textContent = "Pause";
      paint();
    }

    function open(number) {
      stop();
      episode = scene.episodes.find(one => one.number === number);
      step = last();
      paint();
    }

    function fill() {
      const first = one => one.replays[0].outcome;
      const fits = one => one.replays.length && (!filters.outcome?.value || first(one) === filters.outcome.value) && (!filters.group?.value || one.group === filters.group.value);
      const found = scene.episodes.filter(fits);
      const words = one => `${one.number}: ${one.replays.map(replay => `${replay.cost} ${replay.reached ? "✓" : "✗"}`).join(", ")}`;
      choice.replaceChildren(...found.map(one => new Option(words(one), one.number)));
      stop();
      for (const control of [choice, slider, play, byId("replay-back"), byId("replay-on")]) control.disabled = !found.length;
      for (const shown of player.querySelectorAll(".side-by-side, #replay-key")) shown.hidden = !found.length;
      if (found.length) open(found[0].number);
      else byId("replay-status").textContent = "No episode matches: choose another filter.";
    }

    choice.addEventListener("change", () => open(Number(choice.value)));
    for (const filter of Object.values(filters)) filter?.addEventListener("change", fill);
    slider.addEventListener("input", () => { stop(); go(Number(slider.value)); });
    play.addEventListener("click", toggle);
    byId("replay-back").addEventListener("click", () => { stop(); go(step - 1); });
    byId("replay-on").addEventListener("click", () => { stop(); go(step + 1); });
    player.addEventListener("keydown", event => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move || slider.disabled || event.target.matches("select, input")) return;
      event.preventDefault();
      stop();
      go(step + move);
    });
    const marks = { start: "start", goal: "goal", agent: "agent", end: "end of a failed episode", path: "executed path" };
    if (scene.plane) draw.key(byId("replay-key"), marks);
    fill();
    draw.always(paint);
  }

  if (byId("field-goal")) fields();
  if (byId("player")) replay();
})();

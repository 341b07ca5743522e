"use strict";
// Shows one operator's neurons as a list, and one of them with its heat maps. The address fragment is the state.

const DATA = JSON.parse(document.getElementById("data").textContent);
const AGREEMENTS = {
  same: "same families in all formats",
  common: "a family in common",
  different: "labelled in all, none in common",
  some: "labelled in some formats",
  none: "not labelled",
};
const COLUMNS = [
  { key: "neuron", name: "Neuron", of: (n) => n.layer * 1e6 + n.neuron, show: (n) => `${n.layer}.${n.neuron}` },
  { key: "rank", name: "Rank", of: (n) => mean(n.rank), show: (n) => mean(n.rank).toFixed(1), title: "mean rank in its layer" },
  { key: "ie", name: "IE", of: (n) => mean(n.ie), show: (n) => short(mean(n.ie)), title: "mean indirect effect", down: true },
  { key: "knockout", name: "Knock", of: (n) => mean(n.knockout_probability), show: (n) => short(mean(n.knockout_probability)), title: "change of the answer's probability when it alone is at its mean" },
  { key: "keep", name: "Keep", of: (n) => mean(n.keep_probability), show: (n) => short(mean(n.keep_probability)), title: "what it adds to the answer's probability in the circuit", down: true },
  { key: "families", name: "Families", of: (n) => familiesOf(n).size, show: (n) => [...familiesOf(n)].join(", "), title: "labelled in every format", down: true },
];
const DEFAULTS = {
  operator: Object.keys(DATA.operators)[0], layer: "", mode: "strict", family: "", agreement: "", query: "",
  sort: "rank", order: "up", neuron: "",
};
const state = { ...DEFAULTS };
const cross = { a: null, b: null };
const unpacked = new Map();
let listed = [];

const byId = (id) => document.getElementById(id);
const here = () => DATA.operators[state.operator];
const hasMaps = () => "size" in here();
const idOf = (neuron) => `${neuron.layer}.${neuron.neuron}`;

function mean(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : NaN;
}

function short(value) {
  if (value === null || Number.isNaN(value)) return "–";
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(1) : Number(value.toPrecision(3)).toString();
}

function labels(neuron, format) {
  const families = neuron[state.mode][format];
  return new Set(Object.keys(families).filter((family) => families[family][3]));
}

function familiesOf(neuron) {
  const sets = DATA.formats.map((_, format) => labels(neuron, format));
  return new Set([...sets[0]].filter((family) => sets.every((set) => set.has(family))));
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// ---- state and address

function readAddress() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  Object.assign(state, DEFAULTS, Object.fromEntries(Object.entries(given).filter(([key]) => key in DEFAULTS)));
  if (!(state.operator in DATA.operators)) state.operator = DEFAULTS.operator;
  if (!["strict", "reference"].includes(state.mode)) state.mode = DEFAULTS.mode;
  if (!(state.agreement in AGREEMENTS)) state.agreement = "";
  if (!COLUMNS.some((column) => column.key === state.sort)) state.sort = DEFAULTS.sort;
}

function writeAddress() {
  const changed = Object.entries(state).filter(([key, value]) => value !== DEFAULTS[key] || key === "operator");
  history.replaceState(null, "", `#${new URLSearchParams(changed)}`);
  for (const link of document.querySelectorAll("a.other-model")) link.hash = location.hash;
}

function change(update) {
  Object.assign(state, update);
  show();
}

// ---- the list

function passes(neuron) {
  if (state.layer !== "" && neuron.layer !== Number(state.layer)) return false;
  if (hasMaps() && state.agreement && neuron[`agreement_${state.mode}`] !== state.agreement) return false;
  if (hasMaps() && state.family && !DATA.formats.some((_, format) => labels(neuron, format).has(state.family))) return false;
  const [layer, number] = state.query.trim().split(".");
  if (number === undefined) return !layer || String(neuron.neuron).startsWith(layer);
  return String(neuron.layer) === layer && String(neuron.neuron).startsWith(number);
}

function sorted(neurons) {
  const column = COLUMNS.find((one) => one.key === state.sort);
  const sign = state.order === "down" ? -1 : 1;
  const value = new Map(neurons.map((neuron) => [neuron, column.of(neuron)]));
  return neurons.sort((one, other) => {
    const [x, y] = [value.get(one), value.get(other)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return sign * (x - y) || one.layer - other.layer || one.neuron - other.neuron;
  });
}

function fill(select, values, chosen) {
  select.replaceChildren(...values.map(([value, text]) => element("option", { value, textContent: text })));
  select.value = chosen;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
  return select.value;
}

function showFilters() {
  const { neurons } = here();
  const layers = [...new Set(neurons.map((neuron) => neuron.layer))].sort((x, y) => x - y);
  const families = new Set(neurons.flatMap((neuron) => DATA.formats.flatMap((_, format) => [...labels(neuron, format)])));
  fill(byId("operator"), Object.keys(DATA.operators).map((name) => [name, name]), state.operator);
  state.layer = fill(byId("layer"), [["", "all"], ...layers.map((layer) => [String(layer), String(layer)])], state.layer);
  byId("mode").value = state.mode;
  for (const id of ["mode", "family", "agreement"]) byId(id).disabled = !hasMaps();
  state.family = fill(byId("family"), [["", "any or none"], ...[...families].sort().map((name) => [name, name])], state.family);
  state.agreement = fill(byId("agreement"), [["", "any"], ...Object.entries(AGREEMENTS)], state.agreement);
  if (byId("query").value !== state.query) byId("query").value = state.query;
}

function showList() {
  byId("columns").replaceChildren(...COLUMNS.map((column) => {
    const current = state.sort === column.key;
    const arrow = current ? (state.order === "up" ? " ▲" : " ▼") : "";
    const button = element("button", { type: "button", textContent: column.name + arrow, title: column.title || "" });
    button.addEventListener("click", () => {
      const first = column.down ? "down" : "up";
      change({ sort: column.key, order: current ? (state.order === "up" ? "down" : "up") : first });
    });
    const head = element("th", { scope: "col" }, button);
    head.setAttribute("aria-sort", current ? (state.order === "up" ? "ascending" : "descending") : "none");
    return head;
  }));
  listed = sorted(here().neurons.filter(passes));
  byId("count").textContent = `${listed.length} of ${here().neurons.length} neurons`;
  byId("rows").replaceChildren(...listed.map((neuron) => {
    const row = element("tr", { tabIndex: -1 }, ...COLUMNS.map((column) => element("td", { textContent: column.show(neuron) })));
    row.dataset.neuron = idOf(neuron);
    return row;
  }));
}

function select(id, focus = false) {
  state.neuron = id;
  for (const row of byId("rows").children) {
    const chosen = row.dataset.neuron === id;
    row.setAttribute("aria-selected", String(chosen));
    row.tabIndex = chosen ? 0 : -1;
    if (chosen) {
      row.scrollIntoView({ block: "nearest" });
      if (focus) row.focus({ preventScroll: true });
    }
  }
  writeAddress();
  showDetail();
}

function step(by) {
  if (!listed.length) return;
  const place = listed.findIndex((neuron) => idOf(neuron) === state.neuron);
  const next = Math.min(listed.length - 1, Math.max(0, place < 0 ? 0 : place + by));
  select(idOf(listed[next]), true);
}

// ---- one neuron

async function unpack(text, Type) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Type(await new Response(stream).arrayBuffer());
}

async function gridOf(operator) {
  if (!unpacked.has(operator)) {
    const { a, b, place } = DATA.operators[operator];
    const parts = await Promise.all([a, b, place].map((text) => unpack(text, Uint16Array)));
    unpacked.set(operator, { a: parts[0], b: parts[1], place: parts[2] });
  }
  return unpacked.get(operator);
}

// K maps and KV maps, a Float32Array for each format.
async function mapsOf(neuron, grid) {
  const [differences, logits] = await Promise.all([unpack(neuron.maps.maps, Uint8Array), unpack(neuron.logits, Float32Array)]);
  const pairs = grid.a.length;
  const size = (neuron.maps.high - neuron.maps.low) / (DATA.levels - 1);
  const k = DATA.formats.map((_, format) => {
    const values = new Float32Array(pairs);
    let code = 0;
    for (let pair = 0; pair < pairs; pair++) {
      code = (code + differences[format * pairs + pair]) % DATA.levels;
      values[pair] = neuron.maps.low + size * code;
    }
    return values;
  });
  return { k, kv: k.map((values) => values.map((value, pair) => value * logits[grid.place[pair]])) };
}

function ends(maps) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of maps) {
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return { low, high };
}

const COLOURS = DATA.colours.map((colour) => [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16)));

function draw(canvas, values, grid, scale) {
  const size = here().size;
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  const span = scale.high - scale.low || 1;
  for (let pair = 0; pair < values.length; pair++) {
    const colour = COLOURS[Math.round(((values[pair] - scale.low) / span) * (COLOURS.length - 1))];
    const place = 4 * ((size - 1 - grid.b[pair]) * size + grid.a[pair]);
    for (let channel = 0; channel < 3; channel++) image.data[place + channel] = colour[channel];
    image.data[place + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function drawCross(figure) {
  const size = here().size;
  const context = figure.cross.getContext("2d");
  figure.cross.width = figure.cross.height = 4 * size;
  if (cross.a === null) return;
  context.strokeStyle = "#d00000";
  context.lineWidth = 2;
  context.strokeRect(4 * cross.a - 3, 4 * (size - 1 - cross.b) - 3, 10, 10);
}

function mapFigure(format, kind, values, grid, scale, moved) {
  const canvas = element("canvas", { className: "map", tabIndex: 0 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${kind} map, ${format}: ${short(scale.low)} to ${short(scale.high)}`);
  draw(canvas, values, grid, scale);
  const overlay = element("canvas");
  overlay.style.cssText = "position:absolute;inset:0;width:100%;height:100%;pointer-events:none";
  const frame = element("div", {}, canvas, overlay);
  frame.style.position = "relative";
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const of = (share) => Math.min(here().size - 1, Math.max(0, Math.floor(share * here().size)));
    moved(of((event.clientX - box.left) / box.width), of(1 - (event.clientY - box.top) / box.height));
  };
  canvas.addEventListener("pointermove", at);
  canvas.addEventListener("pointerdown", at);
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const within = (value) => Math.min(here().size - 1, Math.max(0, value));
    moved(within((cross.a ?? 0) + by[0]), within((cross.b ?? 0) + by[1]));
  });
  const made = element("figure", {}, element("figcaption", { textContent: format }), frame,
    element("small", { textContent: "→ first operand, ↑ second operand" }));
  made.cross = overlay;
  return made;
}

function scaleBar(scale) {
  const canvas = element("canvas", { width: COLOURS.length, height: 1 });
  const context = canvas.getContext("2d");
  DATA.colours.forEach((colour, level) => {
    context.fillStyle = colour;
    context.fillRect(level, 0, 1, 1);
  });
  return element("div", { className: "scale" }, short(scale.low), canvas, short(scale.high));
}

function mapSection(title, kind, maps, grid, moved) {
  const scale = ends(maps);
  const figures = maps.map((values, format) => mapFigure(DATA.formats[format], kind, values, grid, scale, moved));
  const readout = element("p", { className: "readout" });
  return {
    figures, readout, maps,
    made: [element("h3", { textContent: title }), element("div", { className: "maps" }, ...figures), scaleBar(scale), readout],
  };
}

function showMaps(place, maps, grid) {
  const index = new Map();
  for (let pair = 0; pair < grid.a.length; pair++) index.set(grid.a[pair] * here().size + grid.b[pair], pair);
  const sections = [];
  const moved = (a, b) => {
    Object.assign(cross, { a, b });
    const pair = index.get(a * here().size + b);
    const answer = pair === undefined ? "no answer in range" : `answer ${here().answers[grid.place[pair]]}`;
    for (const section of sections) {
      const values = pair === undefined ? [] : section.maps.map((map, format) => `${DATA.formats[format]} ${short(map[pair])}`);
      section.readout.textContent = [`a = ${a}, b = ${b}, ${answer}`, ...values].join("; ");
      section.figures.forEach(drawCross);
    }
  };
  sections.push(mapSection("Activation (K)", "K", maps.k, grid, moved));
  sections.push(mapSection("Activation × logit of the answer (KV)", "KV", maps.kv, grid, moved));
  place.replaceChildren(...sections.flatMap((section) => section.made));
  if (cross.a !== null) moved(Math.min(cross.a, here().size - 1), Math.min(cross.b, here().size - 1));
}

function table(head, rows) {
  const cell = (name) => (content) => (content instanceof Node ? content : element(name, { textContent: content }));
  return element("div", { className: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ...head.map(cell("th")))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td")))))));
}

function effectTable(neuron) {
  return table(
    ["", "Rank", "Indirect effect", "Knockout, norm. logit", "probability", "Keep, norm. logit", "probability"],
    DATA.formats.map((format, i) => [
      format, neuron.rank[i], `${short(neuron.ie[i])} ± ${short(neuron.ie_std[i])}`,
      short(neuron.knockout_normalized_logit[i]), short(neuron.knockout_probability[i]),
      short(neuron.keep_normalized_logit[i]), short(neuron.keep_probability[i]),
    ]));
}

function familyTable(neuron) {
  const names = [...new Set(neuron[state.mode].flatMap((families) => Object.keys(families)))].sort();
  if (!names.length) return element("p", { textContent: "No heuristic comes near the threshold in any format." });
  const cellOf = (families, name) => {
    if (!(name in families)) return element("td", { textContent: "–" });
    const [heuristic, score, base, label, shuffled] = families[name];
    const chance = `chance ${short(base)}${shuffled === null ? "" : `, shuffled ${short(shuffled)}`}`;
    return element("td", { className: label ? "labelled" : "", title: heuristic, textContent: `${label ? "● " : ""}${short(score)} (${chance})` });
  };
  const best = (name) => [...new Set(neuron[state.mode].flatMap((families) => (name in families ? [families[name][0]] : [])))];
  return table(["Family", ...DATA.formats, "Heuristic"], names.map((name) => [
    name, ...neuron[state.mode].map((families) => cellOf(families, name)),
    element("td", { className: "text", textContent: best(name).join(", ") }),
  ]));
}

function answersList(neuron) {
  const listing = (pairs) => pairs.map(([answer, logit]) => `${answer} (${logit > 0 ? "+" : ""}${short(logit)})`).join(", ");
  return element("div", {},
    element("p", { textContent: `Promotes: ${listing(neuron.promotes)}` }),
    element("p", { textContent: `Suppresses: ${listing(neuron.suppresses)}` }));
}

async function showDetail() {
  const neuron = listed.find((one) => idOf(one) === state.neuron);
  const detail = byId("detail");
  if (!neuron) {
    detail.replaceChildren(element("p", { textContent: listed.length ? "Choose a neuron." : "No neuron passes the filters." }));
    return;
  }
  const operator = state.operator;
  const button = (text, run) => {
    const made = element("button", { type: "button", textContent: text });
    made.addEventListener("click", run);
    return made;
  };
  const maps = element("div", { id: "maps" });
  const families = hasMaps() ? ` Families: ${AGREEMENTS[neuron[`agreement_${state.mode}`]]}.` : "";
  detail.replaceChildren(
    element("h2", { textContent: `Layer ${neuron.layer}, neuron ${neuron.neuron}` }),
    element("p", { textContent: `${state.operator}: ${here().asked}.${families}` }),
    element("p", { className: "actions" }, button("Previous", () => step(-1)), button("Next", () => step(1)), button("Download CSV", downloadNeuron)),
    maps,
    element("h3", { textContent: "Ranks and effects" }), effectTable(neuron));
  if (!hasMaps()) {
    detail.append(element("p", { textContent: "Heat maps and heuristics are about the numbers of a problem. This operator is a table of problems without numbers, so it has none." }));
    return;
  }
  detail.append(
    element("h3", { textContent: `Heuristic families (${state.mode === "strict" ? "strict" : "published"} scores)` }), familyTable(neuron),
    element("h3", { textContent: "Answers by the logit that one unit of it adds" }), answersList(neuron));
  if (!neuron.maps) {
    maps.replaceChildren(element("p", { textContent: "The heat maps of this neuron are not in this file, which stays under 25 MB; activation_maps.safetensors has them." }));
    return;
  }
  const grid = await gridOf(operator);
  const found = await mapsOf(neuron, grid);
  if (idOf(neuron) === state.neuron && operator === state.operator && maps.isConnected) showMaps(maps, found, grid);
}

// ---- download

function csvLines(neurons) {
  const perFormat = ["rank", "ie", "ie_std", "knockout_normalized_logit", "knockout_probability", "keep_normalized_logit", "keep_probability"];
  const labelled = (neuron, mode, format) => Object.keys(neuron[mode][format]).filter((family) => neuron[mode][format][family][3]).join("|");
  const head = ["model", "operator", "layer", "neuron", "format", ...perFormat, "strict_families", "reference_families"];
  const rows = neurons.flatMap((neuron) => DATA.formats.map((format, i) => [
    DATA.model, state.operator, neuron.layer, neuron.neuron, format, ...perFormat.map((key) => neuron[key][i] ?? ""),
    labelled(neuron, "strict", i), labelled(neuron, "reference", i),
  ]));
  const quoted = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  return [head, ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

function download(name, neurons) {
  const address = URL.createObjectURL(new Blob([csvLines(neurons)], { type: "text/csv" }));
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function downloadNeuron() {
  const neuron = listed.find((one) => idOf(one) === state.neuron);
  if (neuron) download(`${DATA.model}_${state.operator}_${idOf(neuron)}.csv`, [neuron]);
}

// ---- events

function show() {
  showFilters();
  showList();
  if (!listed.some((neuron) => idOf(neuron) === state.neuron)) state.neuron = listed.length ? idOf(listed[0]) : "";
  select(state.neuron);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing) return;
  const inList = event.target.closest("#list") !== null;
  const operators = Object.keys(DATA.operators);
  const actions = {
    j: () => step(1), k: () => step(-1), d: downloadNeuron, "/": () => byId("query").focus(),
    o: () => change({ operator: operators[(operators.indexOf(state.operator) + 1) % operators.length] }),
    ...(inList ? { ArrowDown: () => step(1), ArrowUp: () => step(-1), Home: () => step(-listed.length), End: () => step(listed.length) } : {}),
  };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

for (const id of ["operator", "layer", "mode", "family", "agreement"]) {
  byId(id).addEventListener("change", () => change({ [id]: byId(id).value }));
}
byId("query").addEventListener("input", () => change({ query: byId("query").value }));
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("download-list").addEventListener("click", () => download(`${DATA.model}_${state.operator}.csv`, listed));
byId("rows").addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row) select(row.dataset.neuron, true);
});
document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", () => {
  readAddress();
  show();
});
readAddress();
show();

"use strict";
// The data, the state (which the address fragment keeps) and what all parts of the page use.

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
  { key: "ie", name: "Effect", of: (n) => mean(n.ie), show: (n) => short(mean(n.ie)), title: "mean effect, which ranks the neurons", down: true },
  { key: "knockout", name: "Knock", of: (n) => mean(n.knockout_probability), show: (n) => short(mean(n.knockout_probability)), title: "change of the answer's probability when it alone is at its mean" },
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

async function unpack(text, Type) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Type(await new Response(stream).arrayBuffer());
}

function fill(select, values, chosen) {
  select.replaceChildren(...values.map(([value, text]) => element("option", { value, textContent: text })));
  select.value = chosen;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
  return select.value;
}

function ends(rows) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of rows) {
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return { low, high };
}

function table(head, rows) {
  const cell = (name) => (content) => (content instanceof HTMLTableCellElement ? content : element(name, {}, content));
  return element("div", { className: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ...head.map(cell("th")))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td")))))));
}

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

// All families that label a neuron of the operator in some format, by alphabet.
function familiesHere() {
  const sets = here().neurons.flatMap((neuron) => DATA.formats.flatMap((_, format) => [...labels(neuron, format)]));
  return [...new Set(sets)].sort();
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

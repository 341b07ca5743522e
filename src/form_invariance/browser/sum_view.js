// The live sum: one problem, its neurons' switches, and for each format the curve, the answers and the graph.

const SVG = "http://www.w3.org/2000/svg";
const UNLABELLED = "no label";
const switchedOff = {};
const off = () => (switchedOff[state.operator] ??= new Set());
let counting = 0;

function drawn(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function lettering(content, x, y, anchor) {
  const made = drawn("text", { x, y, "text-anchor": anchor });
  made.textContent = content;
  return made;
}

const isNumeric = (answers) => answers.every((text) => /^-?\d+$/.test(text));
const signed = (value) => (value > 0 ? "+" : "") + short(value);

function shownFormats() {
  const first = Math.max(0, DATA.formats.indexOf(state.format));
  const second = DATA.formats.indexOf(state.against);
  return second >= 0 && second !== first ? [first, second] : [first];
}

// A neuron's group is the first family that labels it in a format.
function groupOf(id, format) {
  const neuron = here().neurons.find((one) => idOf(one) === id);
  return (neuron && hasMaps() && [...labels(neuron, format)].sort()[0]) || UNLABELLED;
}

// The same family has the same colour in all panels of an operator.
function colourOf(group) {
  return group === UNLABELLED ? "plain" : `group${familiesHere().indexOf(group) % 6}`;
}

function problemOf(sums) {
  if (sums.rows) return Math.max(0, sums.rows.indexOf(state.row));
  if (state.a === "" || state.b === "") return 0;
  const distance = sums.a.map((a, place) => Math.abs(a - state.a) + Math.abs(sums.b[place] - state.b));
  return highest(distance.map((value) => -value));
}

function choose(sums, problem) {
  const chosen = sums.rows ? { row: sums.rows[problem] } : { a: String(sums.a[problem]), b: String(sums.b[problem]) };
  change(chosen);
}

function showProblem(sums, problem) {
  const names = DATA.formats.map((name) => [name, name]);
  state.format = fill(byId("format"), names, state.format);
  const others = names.filter(([name]) => name !== state.format);
  state.against = fill(byId("against"), [["", "nothing"], ...others], state.against);
  for (const id of ["a", "b"]) byId(id).parentElement.hidden = Boolean(sums.rows);
  byId("row").parentElement.hidden = !sums.rows;
  if (sums.rows) {
    fill(byId("row"), sums.rows.map((row) => [row, row]), sums.rows[problem]);
    return;
  }
  const numbers = (values) => [...new Set(values)].sort((x, y) => x - y).map((value) => [String(value), String(value)]);
  fill(byId("a"), numbers(sums.a), String(sums.a[problem]));
  fill(byId("b"), numbers(sums.b.filter((_, place) => sums.a[place] === sums.a[problem])), String(sums.b[problem]));
}

function switchAll(ids, turnOn) {
  for (const id of ids) {
    if (turnOn) off().delete(id);
    else off().add(id);
  }
  showSum();
}

// A box for each layer and each family: on, off, or between.
function showSwitches(sums) {
  const boxes = (title, groups) => element("fieldset", {}, element("legend", { textContent: title }),
    ...[...groups].map(([name, ids]) => {
      const box = element("input", { type: "checkbox", checked: ids.some((id) => !off().has(id)) });
      box.indeterminate = box.checked && ids.some((id) => off().has(id));
      box.addEventListener("change", () => switchAll(ids, box.checked));
      return element("label", {}, box, ` ${name} (${ids.length})`);
    }));
  const by = (keyOf) => {
    const groups = new Map();
    for (const id of sums.neurons) groups.set(keyOf(id), [...(groups.get(keyOf(id)) ?? []), id]);
    return [...groups].sort(([one], [other]) => one.localeCompare(other, undefined, { numeric: true }));
  };
  const [format] = shownFormats();
  byId("switches").replaceChildren(boxes("All", [["neurons", sums.neurons]]), boxes("Layers", by((id) => id.split(".")[0])),
    ...(hasMaps() ? [boxes(`Families in ${DATA.formats[format]}`, by((id) => groupOf(id, format)))] : []));
}

// ---- the curve over the answers, or bars where the answers are no numbers

function curveFigure(answers, whole, curve, marks) {
  const [width, height, edge] = [640, 220, 52];
  const { low, high } = ends([whole, curve]);
  const span = high - low || 1;
  const x = (place) => edge + (place / Math.max(1, answers.length - 1)) * (width - edge - 8);
  const y = (value) => 10 + ((high - value) / span) * (height - 40);
  const line = (values, name) => drawn("polyline", {
    class: name, points: Array.from(values, (value, place) => `${x(place).toFixed(2)},${y(value).toFixed(2)}`).join(" ") });
  const best = highest(curve);
  const figure = drawn("svg", { class: "curve", viewBox: `0 0 ${width} ${height}`, role: "img", "data-low": low, "data-high": high });
  figure.setAttribute("aria-label", `Summed direct effect over ${answers.length} answers; highest at ${answers[best]}`);
  figure.append(
    drawn("line", { class: "axis", x1: edge, x2: width - 8, y1: y(Math.max(low, Math.min(high, 0))), y2: y(Math.max(low, Math.min(high, 0))) }),
    drawn("line", { class: "right", x1: x(marks.target), x2: x(marks.target), y1: 10, y2: height - 30 }),
    line(whole, "whole"), line(curve, "now"),
    ...marks.top.map((place) => drawn("circle", { class: "top", cx: x(place), cy: y(curve[place]), r: 4 })),
    lettering(short(high), edge - 4, 16, "end"), lettering(short(low), edge - 4, height - 30, "end"),
    lettering(answers[0], edge, height - 14, "start"), lettering(answers.at(-1), width - 8, height - 14, "end"),
    lettering(`right: ${answers[marks.target]}`, x(marks.target), height - 2, x(marks.target) > width / 2 ? "end" : "start"));
  return figure;
}

function barFigure(answers, curve, marks) {
  const shown = [...new Set([...marks.top, marks.target, ...downwards(curve).slice(0, 8)])];
  shown.sort((one, other) => curve[other] - curve[one]);
  const largest = Math.max(...shown.map((place) => Math.abs(curve[place]))) || 1;
  return element("div", { className: "bars" }, ...shown.map((place) => {
    const bar = element("span", { className: curve[place] < 0 ? "bar down" : "bar" });
    bar.style.width = `${(60 * Math.abs(curve[place])) / largest}%`;
    const name = element("span", { className: "name", textContent: answers[place] + (place === marks.target ? " (right)" : "") });
    return element("div", {}, name, bar, ` ${signed(curve[place])}`);
  }));
}

function answerTable(format, problem, curve, sums) {
  const { answers, top, tops, topLogits } = sums.formats[format];
  const order = downwards(curve);
  const rows = Array.from({ length: tops }, (_, place) => {
    const theirs = top[problem * tops + place];
    return [place + 1, answers[theirs], short(topLogits[problem * tops + place]), answers[order[place]], signed(curve[order[place]])];
  });
  return table(["", "Model's answer", "its logit", "Live sum", "direct effect"], rows);
}

// ---- panels and the table of neurons

function towards(sums, format, problem) {
  const { target, top, tops } = sums.formats[format];
  return state.toward === "right" ? target[problem] : top[problem * tops];
}

function panel(sums, format, problem, on) {
  const { answers, target, top, tops, predicted } = sums.formats[format];
  const curve = curveOf(sums, format, problem, on);
  const whole = curveOf(sums, format, problem, on.map(() => true));
  const marks = { target: target[problem], top: Array.from(top.slice(problem * tops, (problem + 1) * tops)) };
  const best = highest(curve);
  const model = answers[marks.top[0]];
  const other = predicted[problem] === undefined ? "" : ` (its first token of all is ${JSON.stringify(predicted[problem])})`;
  const told = `The model answers ${model}${other}; right is ${answers[marks.target]}. The neurons that are on put ${on.some(Boolean) ? answers[best] : "nothing"} first.`;
  const made = element("section", { className: "panel" }, element("h3", { textContent: DATA.formats[format] }),
    element("p", { className: "told", textContent: told }),
    isNumeric(answers) ? curveFigure(answers, whole, curve, marks) : barFigure(answers, curve, marks),
    element("p", { className: "share", textContent: "…" }),
    answerTable(format, problem, curve, sums),
    ...graphFigure(sums, format, problem, towards(sums, format, problem), on));
  made.dataset.first = on.some(Boolean) ? answers[best] : "";
  return made;
}

function neuronTable(sums, formats, problem) {
  const number = (value) => element("td", { textContent: signed(value) });
  const rows = sums.neurons.map((id, neuron) => {
    const box = element("input", { type: "checkbox", checked: !off().has(id) });
    box.setAttribute("aria-label", `Neuron ${id}`);
    box.addEventListener("change", () => switchAll([id], box.checked));
    const pushes = formats.map((format) => pushOf(sums, format, neuron, problem, towards(sums, format, problem)));
    const written = formats.map((format) => sums.formats[format].written[neuron * sums.answer.length + problem]);
    const link = element("a", { textContent: id, href: `#operator=${encodeURIComponent(state.operator)}&neuron=${id}` });
    return { size: Math.max(...pushes.map(Math.abs)), cells: [box, link, groupOf(id, formats[0]), ...formats.flatMap((_, place) => [number(written[place]), number(pushes[place])])] };
  });
  rows.sort((one, other) => other.size - one.size);
  const heads = formats.flatMap((format) => [`${DATA.formats[format]}: activation`, "push on the answer"]);
  return table(["On", "Neuron", "Family", ...heads], rows.map((row) => row.cells));
}

// The counts over all problems take longer than one sum, so that they follow when the page is drawn.
function countLater(sums, formats, on) {
  const own = ++counting;
  const lines = [...document.querySelectorAll("#panels .share")];
  setTimeout(() => {
    formats.forEach((format, place) => {
      if (own !== counting) return;
      const count = sums.answer.length;
      const { model, right } = countFirst(sums, format, on);
      const part = count < sums.stored ? ` (of ${sums.stored} in the table)` : "";
      lines[place].textContent = on.some(Boolean)
        ? `Over ${count} problems${part}, the neurons that are on put the model's answer first in ${model}, the right answer in ${right}.`
        : "No neuron is on.";
      lines[place].dataset.model = model;
    });
  });
}

async function showSum() {
  const operator = state.operator;
  const sums = await sumsOf(operator);
  if (operator !== state.operator || state.view !== "sum") return;
  byId("sum-controls").hidden = !sums.answer.length;
  if (!sums.answer.length) {
    byId("switches").replaceChildren();
    byId("sum-neurons").replaceChildren();
    byId("panels").replaceChildren(element("p", { textContent: "No neuron is shared in this operator, so there is nothing to add up." }));
    return;
  }
  const problem = problemOf(sums);
  const formats = shownFormats();
  const on = sums.neurons.map((id) => !off().has(id));
  showProblem(sums, problem);
  byId("toward").value = state.toward;
  showSwitches(sums);
  byId("panels").replaceChildren(...formats.map((format) => panel(sums, format, problem, on)));
  byId("sum-neurons").replaceChildren(element("h3", { textContent: "Neurons" }), neuronTable(sums, formats, problem));
  countLater(sums, formats, on);
}

// The list of neurons, its filters and its order.

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

function showFilters() {
  const { neurons } = here();
  const layers = [...new Set(neurons.map((neuron) => neuron.layer))].sort((x, y) => x - y);
  fill(byId("operator"), Object.keys(DATA.operators).map((name) => [name, name]), state.operator);
  state.layer = fill(byId("layer"), [["", "all"], ...layers.map((layer) => [String(layer), String(layer)])], state.layer);
  byId("mode").value = state.mode;
  for (const id of ["mode", "family", "agreement"]) byId(id).parentElement.hidden = !hasMaps();
  state.family = fill(byId("family"), [["", "any or none"], ...familiesHere().map((name) => [name, name])], state.family);
  state.agreement = fill(byId("agreement"), [["", "any"], ...Object.entries(AGREEMENTS)], state.agreement);
  if (byId("query").value !== state.query) byId("query").value = state.query;
}

function showList() {
  const columns = COLUMNS.filter(({ key }) => key !== "families" || hasMaps());
  byId("columns").replaceChildren(...columns.map((column) => {
    const current = state.sort === column.key;
    const arrow = current ? (state.order === "up" ? " ▲" : " ▼") : "";
    const button = element("button", { type: "button", textContent: column.name + arrow, title: column.title || "" });
    button.addEventListener("click", () => {
      const first = column.down ? "down" : "up";
      change({ sort: column.key, order: current ? (state.order === "up" ? "down" : "up") : first });
    });
    const head = element("th", { scope: "col", className: column.key }, button);
    head.setAttribute("aria-sort", current ? (state.order === "up" ? "ascending" : "descending") : "none");
    return head;
  }));
  listed = sorted(here().neurons.filter(passes));
  byId("count").textContent = `${listed.length} of ${here().neurons.length} neurons`;
  byId("rows").replaceChildren(...listed.map((neuron) => {
    const row = element("tr", { tabIndex: -1 }, ...columns.map((column) => element("td", { className: column.key, textContent: column.show(neuron) })));
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

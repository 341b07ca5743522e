// Keys and other events; the page starts here.

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

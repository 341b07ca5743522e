// One neuron: its effects, promoted tokens, maps or rows, and families; and what can be downloaded.

function effectTable(neuron) {
  return table(
    ["", "Rank", "Effect, mean ± SD over prompts", "Knockout, probability"],
    DATA.formats.map((format, i) => [
      format, neuron.rank[i], `${short(neuron.ie[i])} ± ${short(neuron.ie_std[i])}`,
      short(neuron.knockout_probability[i]),
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

// Tokens as their text, in which spaces and line ends are visible, with the logit that one unit of the neuron adds.
function tokenLists(neuron) {
  const listing = (name, tokens) => element("p", { className: "tokens" }, `${name}: `,
    ...tokens.flatMap(([text, logit]) => [element("code", { textContent: JSON.stringify(text).slice(1, -1).replaceAll(" ", "␣") }), ` ${logit > 0 ? "+" : ""}${short(logit)}  `]));
  const { promotes, suppresses } = DATA.tokens[idOf(neuron)];
  return element("div", {}, listing("Promotes", promotes), listing("Suppresses", suppresses));
}

function rowTable(neuron) {
  return table(["Row", "Answer", ...DATA.formats], neuron.rows.map(([fields, target, ...activations]) => [
    element("td", { className: "text", textContent: fields }), element("td", { className: "text", textContent: target }),
    ...activations.map(short),
  ]));
}

async function showDetail() {
  const neuron = listed.find((one) => idOf(one) === state.neuron);
  const detail = byId("detail");
  if (!neuron) {
    const none = here().neurons.length ? "No neuron passes the filters." : `No neuron is among the ${DATA.k} best of its layer in every format.`;
    detail.replaceChildren(element("p", { textContent: listed.length ? "Choose a neuron." : none }));
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
    element("p", { className: "actions" }, button("Previous", () => step(-1)), button("Next", () => step(1)), button("Download CSV", downloadNeuron)));
  const effects = effectTable(neuron);
  const tokens = [element("h3", { textContent: "Tokens, by the logit that an activation of +1 adds directly" }), tokenLists(neuron)];
  if (!hasMaps()) {
    const rows = element("h3", { textContent: "Activation by row: the rows where it is farthest from 0" });
    detail.append(...tokens, rows, rowTable(neuron), element("h3", { textContent: "Effects" }), effects);
    return;
  }
  detail.append(effects, ...tokens, maps,
    element("h3", { textContent: `Heuristic families (${state.mode} scores)` }), familyTable(neuron));
  if (!neuron.maps) {
    maps.replaceChildren(element("p", { textContent: "The heat maps of this neuron are not in this file, which stays under 8 MB; activation_maps.safetensors has them." }));
    return;
  }
  const grid = await gridOf(operator);
  const found = await mapsOf(neuron, grid);
  if (idOf(neuron) === state.neuron && operator === state.operator && maps.isConnected) showMaps(maps, found, grid);
}

function csvLines(neurons) {
  const perFormat = ["rank", "ie", "ie_std", "knockout_probability"];
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

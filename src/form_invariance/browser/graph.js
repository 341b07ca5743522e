// The graph of one problem: neurons by layer, families below each other, the answer at the right.

const GRAPH = { neurons: 16, edges: 24, width: 640, row: 30 };

// The neurons that are on and push the answer most, with their pushes.
function strongest(sums, format, problem, answer, on) {
  const pushes = sums.neurons.map((id, neuron) => ({
    id, neuron, layer: sums.layers[neuron], group: groupOf(id, format), push: pushOf(sums, format, neuron, problem, answer) }));
  return pushes.filter(({ neuron }) => on[neuron])
    .sort((one, other) => Math.abs(other.push) - Math.abs(one.push)).slice(0, GRAPH.neurons);
}

function groupsOf(nodes) {
  const names = [...new Set(nodes.map(({ group }) => group))].sort();
  return [...names.filter((name) => name !== UNLABELLED), ...names.filter((name) => name === UNLABELLED)];
}

// Gives each node its place, a column for each layer; returns the layers' names with their places, and the height.
function place(nodes) {
  const groups = groupsOf(nodes);
  const layers = [...new Set(nodes.map(({ layer }) => layer))].sort((one, other) => one - other);
  const columns = layers.map((layer) => nodes.filter((node) => node.layer === layer)
    .sort((one, other) => groups.indexOf(one.group) - groups.indexOf(other.group) || one.neuron - other.neuron));
  const step = (GRAPH.width - 150) / Math.max(1, layers.length - 1);
  columns.forEach((column, across) => column.forEach((node, down) => {
    Object.assign(node, { x: 40 + across * step, y: 40 + down * GRAPH.row });
  }));
  const heads = layers.map((layer, across) => ({ text: `layer ${layer}`, x: 40 + across * step }));
  return { heads, height: 40 + GRAPH.row * Math.max(1, ...columns.map((column) => column.length)) };
}

// What the nodes write for each other's gates, the strongest first.
function written(sums, format, problem, nodes) {
  const edges = nodes.flatMap((one) => nodes.filter((other) => other.layer > one.layer)
    .map((other) => ({ one, other, value: inputOf(sums, format, one.neuron, other.neuron, problem) })));
  return edges.sort((one, other) => Math.abs(other.value) - Math.abs(one.value)).slice(0, GRAPH.edges);
}

function edgeLine(from, to, value, largest, title) {
  const line = drawn("line", {
    class: value < 0 ? "edge down" : "edge", x1: from.x, y1: from.y, x2: to.x, y2: to.y,
    "stroke-width": (0.4 + (4 * Math.abs(value)) / (Math.abs(largest) || 1)).toFixed(2) });
  const note = drawn("title", {});
  note.textContent = title;
  line.append(note);
  return line;
}

function nodeMark({ id, x, y, group }) {
  const node = drawn("g", { class: "node", tabindex: 0, role: "button", "data-neuron": id });
  node.setAttribute("aria-label", `Switch ${id} off (${group})`);
  node.append(drawn("circle", { cx: x, cy: y, r: 8, class: colourOf(group) }), lettering(id, x, y + 20, "middle"));
  const turn = () => switchAll([id], false);
  node.addEventListener("click", turn);
  node.addEventListener("keydown", (event) => event.key === "Enter" && turn());
  return node;
}

function graphFigure(sums, format, problem, answer, on) {
  const name = sums.formats[format].answers[answer];
  const nodes = strongest(sums, format, problem, answer, on);
  const { heads, height } = place(nodes);
  const edges = written(sums, format, problem, nodes);
  const goal = { x: GRAPH.width - 50, y: height / 2 };
  const figure = drawn("svg", { class: "graph", viewBox: `0 0 ${GRAPH.width} ${height}`, role: "group" });
  figure.setAttribute("aria-label", `The ${nodes.length} neurons that push ${name} most, and what they write for each other`);
  const end = lettering(name, goal.x + 6, goal.y + 5, "start");
  end.classList.add("goal");
  figure.append(
    ...edges.map(({ one, other, value }) => edgeLine(one, other, value, edges[0].value, `${one.id} adds ${signed(value)} to the gate of ${other.id}`)),
    ...nodes.map((node) => edgeLine(node, goal, node.push, nodes[0].push, `${node.id} adds ${signed(node.push)} to the logit of ${name}`)),
    ...heads.map(({ text, x }) => lettering(text, x, 14, "middle")),
    ...nodes.map(nodeMark), end);
  const legend = element("p", { className: "legend" }, ...groupsOf(nodes).map((group) => element("span", {},
    element("i", { className: colourOf(group) }), ` ${group} `)));
  return [figure, legend];
}

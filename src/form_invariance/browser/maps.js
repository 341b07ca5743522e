// Heat maps of one neuron's activations.

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

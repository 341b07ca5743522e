// Direct effects as arithmetic: what each neuron that is on adds to every answer's logit, in any problem.

const summable = new Map();

async function unpackRows({ low, step, codes }) {
  const [lows, steps, values] = await Promise.all([
    unpack(low, Float32Array), unpack(step, Float32Array), unpack(codes, Uint16Array)]);
  const width = lows.length ? values.length / lows.length : 0;
  return Float64Array.from(values, (code, place) => {
    const row = Math.floor(place / width);
    return lows[row] + steps[row] * code;
  });
}

async function unpackFormat(packed) {
  const [unit, written, inputScale, finalScale, target, top, topLogits] = await Promise.all([
    unpackRows(packed.unit), unpackRows(packed.written), unpackRows(packed.inputScale),
    unpack(packed.finalScale, Float32Array), unpack(packed.target, Uint16Array),
    unpack(packed.top, Uint16Array), unpack(packed.topLogits, Float32Array)]);
  const { answers, tops, predicted } = packed;
  return { unit, written, inputScale, finalScale, target, top, topLogits, answers, tops, predicted };
}

// The factors of an operator: arrays with one row a neuron. Each operator is unpacked once.
async function sumsOf(operator) {
  if (!summable.has(operator)) {
    const packed = DATA.operators[operator].sums;
    const formats = packed.answer.length ? await Promise.all(packed.formats.map(unpackFormat)) : [];
    const layers = packed.neurons.map((id) => Number(id.split(".")[0]));
    const distinct = [...new Set(layers)];
    const inputs = await unpackRows(packed.inputs);
    const layerRow = layers.map((layer) => distinct.indexOf(layer));
    summable.set(operator, { ...packed, formats, layers, layerRow, inputs });
  }
  return summable.get(operator);
}

// What a neuron adds to an answer's logit in a problem.
function pushOf(sums, format, neuron, problem, answer) {
  const { written, unit, finalScale, answers } = sums.formats[format];
  const units = written[neuron * sums.answer.length + problem];
  return units * finalScale[problem] * unit[neuron * answers.length + answer];
}

// What a neuron adds to the input of another one's gate in a problem; 0 unless its layer is later.
function inputOf(sums, format, neuron, other, problem) {
  const { written, inputScale } = sums.formats[format];
  const count = sums.answer.length;
  const scale = inputScale[sums.layerRow[other] * count + problem];
  return written[neuron * count + problem] * sums.inputs[neuron * sums.neurons.length + other] * scale;
}

// The summed direct effect of the neurons that are on, on every answer's logit.
function curveOf(sums, format, problem, on) {
  const { written, unit, finalScale, answers } = sums.formats[format];
  const curve = new Float64Array(answers.length);
  on.forEach((isOn, neuron) => {
    if (!isOn) return;
    const units = written[neuron * sums.answer.length + problem] * finalScale[problem];
    const row = neuron * answers.length;
    for (let answer = 0; answer < curve.length; answer++) curve[answer] += units * unit[row + answer];
  });
  return curve;
}

function highest(values) {
  let best = 0;
  for (let place = 1; place < values.length; place++) if (values[place] > values[best]) best = place;
  return best;
}

// The places of all values, the highest first.
const downwards = (values) => Array.from(values.keys()).sort((one, other) => values[other] - values[one]);

// In how many of all problems the sum puts the model's own answer first, and in how many the right one.
function countFirst(sums, format, on) {
  const { top, tops, target } = sums.formats[format];
  const counts = { model: 0, right: 0 };
  for (let problem = 0; problem < sums.answer.length; problem++) {
    const best = highest(curveOf(sums, format, problem, on));
    counts.model += best === top[problem * tops];
    counts.right += best === target[problem];
  }
  return counts;
}

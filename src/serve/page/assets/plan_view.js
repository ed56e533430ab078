// The calculator's form and what follows from it: the page's tab, and the page of docs/calculator.
import {h} from './dom.js';
import {bytes, count, duration, significant} from './format.js';
import {plan} from './plan.js';
import {sharesBar} from './shares.js';

const KV_BYTES = {'16 bits': 2, '8 bits': 1, '32 bits': 4};
const USD = new Intl.NumberFormat('en', {minimumFractionDigits: 2, maximumFractionDigits: 2});

// `numbers`: what `quire plan --calculator` prints, and where they are known {first: {field: value}}, what the form begins
// with. `inAddress`: what is chosen is in the address, so that a link shows the same.
export function show(root, numbers, {inAddress}) {
  const fields = fieldsOf(numbers);
  const results = h('div', {class: 'results', 'aria-live': 'polite'});
  const update = () => {
    const values = Object.fromEntries(Object.entries(fields).map(([name, {input}]) => [name, input.value]));
    limitSplits(fields, numbers);
    values.tp = fields.tp.input.value;
    values.pp = fields.pp.input.value;
    if (inAddress) history.replaceState(null, '', `#${new URLSearchParams(values)}`);
    results.replaceChildren(...resultsOf(values, numbers));
  };
  const form = h('form', {class: 'sheet form', oninput: update, onsubmit: (event) => event.preventDefault()},
    Object.values(fields).map(({label, input}) => h('label', {}, h('span', {}, label), input)));
  for (const [name, value] of inAddress ? new URLSearchParams(location.hash.slice(1)) : []) {
    if (name in fields) fields[name].input.value = value;
    if (name in fields && fields[name].input.value === '') fields[name].input.value = fields[name].first;
  }
  root.append(form, results);
  update();
}

function fieldsOf({models, dtypes, devices, first: begin = {}}) {
  const choice = (label, options, usual) => {
    const input = h('select', {}, options.map(([value, text]) => h('option', {value}, text)));
    input.value = usual;
    const first = input.value === usual ? usual : options[0][0];
    input.value = first;
    return {label, input, first};
  };
  const amount = (label, first, {min = 1, max = 1 << 30, step = 1} = {}) =>
    ({label, first, input: h('input', {type: 'number', min, max, step, value: first, inputMode: 'decimal', required: true})});
  return {
    model: choice('Model', Object.keys(models).map((name) => [name, name]), 'llama-3.1-8b'),
    dtype: choice('Weights', Object.entries(dtypes).map(([name, bits]) =>
      [name, `${name === 'auto' ? 'as in the files' : name}, ${significant(bits)} bits`]), begin.dtype ?? 'bf16'),
    device: choice('Device', devices.map((each) => [each.name, each.title]), 'h100'),
    tp: choice('Devices for each layer', ['1', '2', '4', '8'].map((each) => [each, each]), '1'),
    pp: choice('Stages of layers', ['1', '2', '4', '8'].map((each) => [each, each]), '1'),
    kv: choice('Keys and values', Object.keys(KV_BYTES).map((each) => [each, each]), '16 bits'),
    maxLen: amount('Longest sequence, tokens', begin.maxLen ?? 8192, {max: 1 << 24}),
    input: amount('Prompt, tokens', begin.input ?? 1024, {max: 1 << 24}),
    output: amount('Output, tokens', begin.output ?? 256, {max: 1 << 24}),
    seqs: amount('Sequences at once, at most', 256, {max: 1 << 20}),
    batched: amount('Tokens of a step, at most', 2048, {max: 1 << 24}),
    utilization: amount('Share of memory to use, %', 90, {max: 100}),
    price: {label: 'USD an hour for a device', first: '',
      input: h('input', {type: 'number', min: 0, step: 'any', placeholder: 'the catalogue’s', inputMode: 'decimal'})},
  };
}

// Layouts that divide the model, and that the device has links for.
function limitSplits(fields, {models, devices}) {
  const splits = models[fields.model.input.value].footprints[fields.dtype.input.value];
  const device = devices.find((each) => each.name === fields.device.input.value);
  const limit = (field, can) => {
    for (const option of field.input.options) option.disabled = !can(option.value);
    if (field.input.selectedOptions[0].disabled) field.input.value = '1';
  };
  limit(fields.tp, (tp) => tp in splits && Number(tp) <= device.max_tp);
  limit(fields.pp, (pp) => pp in splits[fields.tp.input.value]);
}

function complaint(values, model) {
  const whole = {maxLen: 'the longest sequence', input: 'the prompt', output: 'the output', seqs: 'the sequences at once',
    batched: 'the tokens of a step'};
  for (const [name, what] of Object.entries(whole)) {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < 1 || value > 1 << 30) return `Of ${what}, a whole number above 0 is needed.`;
  }
  if (!(Number(values.utilization) > 0 && Number(values.utilization) <= 100)) return 'The share of memory is above 0 and at most 100%.';
  if (!(Number(values.price) >= 0)) return 'A price is not below 0.';
  if (Number(values.maxLen) > model.maxLen) return `The model takes sequences of at most ${count(model.maxLen)} tokens.`;
  if (Number(values.input) + Number(values.output) > Number(values.maxLen)) {
    return 'Prompt and output together are longer than the longest sequence.';
  }
  return null;
}

function resultsOf(values, numbers) {
  const model = numbers.models[values.model];
  const device = numbers.devices.find((each) => each.name === values.device);
  const wrong = complaint(values, model);
  if (wrong !== null) return [h('p', {class: 'error', role: 'alert'}, wrong)];
  const price = values.price !== '' ? Number(values.price) : device.usd_per_hour ?? null;
  const result = plan({
    stages: model.footprints[values.dtype][values.tp][values.pp], multipliedIn: numbers.multipliedIn[values.dtype], device,
    networkGbs: numbers.networkGbs,
    tp: Number(values.tp), kvBytes: KV_BYTES[values.kv], maxLen: Number(values.maxLen), inputLen: Number(values.input),
    outputLen: Number(values.output), maxNumSeqs: Number(values.seqs), maxBatchedTokens: Number(values.batched),
    blockSize: numbers.blockSize, utilization: Number(values.utilization) / 100, usdPerHour: price,
  });
  return [
    memorySheet(result, values, device),
    ...(result.decode.length > 0 ? [speedSheet(result, values, device)] : []),
    h('section', {class: 'sheet'}, h('h2', {}, 'The same by the command'), h('pre', {class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Command'}, commandOf(model.command, values, price)
      .map((part, i) => [i === 0 ? '' : ' ', h('span', {}, part)])),
      h('p', {class: 'muted small'}, `${device.title}: ${device.source}, ${device.date}.`,
        device.usd_per_hour === undefined ? '' : ` ${USD.format(device.usd_per_hour)} USD an hour: ${device.price_source}, ${device.price_date}.`)),
  ];
}

function facts(list) {
  return h('dl', {class: 'facts'}, list.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

function memorySheet({memory, sequences, devices, kvBytesPerToken}, values, device) {
  const taken = memory.weights + memory.activations;
  const total = Math.max(memory.budget, taken);
  const where = devices === 1 ? device.title : `${values.pp === '1' ? 'each' : 'the fullest'} of ${devices} ${device.title}`;
  const verdict = sequences > 0
    ? `${count(sequences)} ${sequences === 1 ? 'sequence' : 'sequences'} of ${count(Number(values.maxLen))} tokens fit at once.`
    : taken >= memory.budget ? 'The weights do not fit: more devices, or smaller weights.'
      : 'Not one sequence of that length fits: a shorter one, more devices, or smaller weights.';
  return h('section', {class: 'sheet'},
    h('h2', {}, `Memory of ${where}`),
    h('p', {class: sequences > 0 ? 'verdict' : 'verdict wrong'}, verdict),
    sharesBar({label: 'Memory', write: bytes, total, parts: [
      {label: 'Weights', value: memory.weights, kind: 'data-1'},
      {label: 'Activations, an estimate', value: memory.activations, kind: 'data-3'},
      {label: 'KV cache', value: memory.kvCache, kind: 'data-2'},
    ]}),
    facts([['May be used', bytes(memory.budget)], ['KV cache, a token', bytes(kvBytesPerToken)],
      ['KV cache, a sequence', bytes(memory.kvPerSequence)]]));
}

function speedSheet({prefill, decode, usdPerHour, computedIn}, values) {
  const cell = (text) => h('td', {class: 'number'}, text);
  const head = ['Sequences', 'A token, ideal', 'expected', 'Tokens/s', 'USD a million tokens', 'Bound by'];
  return h('section', {class: 'sheet'},
    h('h2', {}, 'Time and cost'),
    facts([['First token, ideal', duration(prefill.ideal)], ['First token, expected', duration(prefill.expected)],
      ['Prompts are bound by', prefill.bound], ['Computed in', computedIn],
      ['Price', usdPerHour === null ? 'not known' : `${USD.format(usdPerHour)} USD an hour`]]),
    h('div', {class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Batches'}, h('table', {},
      h('thead', {}, h('tr', {}, head.map((name, i) => h('th', {class: i < 5 ? 'number' : ''}, name)))),
      h('tbody', {}, decode.map((each) => h('tr', {}, cell(count(each.batch)), cell(duration(each.ideal)),
        cell(duration(each.expected)), cell(each.tokensPerSecond >= 1000 ? count(each.tokensPerSecond) : significant(each.tokensPerSecond)),
        cell(each.usdPerMillion === null ? '-' : USD.format(each.usdPerMillion)), h('td', {}, each.bound)))))));
}

// As a POSIX shell reads it.
const quoted = (word) => (/^[\w@%+=:,.\/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// In parts, between which a line may end.
function commandOf(model, values, price) {
  const kv = {'16 bits': 'bf16', '8 bits': 'fp8', '32 bits': 'fp32'}[values.kv];
  return [
    'quire plan', ...(model === '' ? [] : [quoted(model)]), `--dtype ${values.dtype}`, `--device ${values.device}`, `--tp ${values.tp}`, `--pp ${values.pp}`,
    `--kv-cache-dtype ${kv}`, `--max-model-len ${values.maxLen}`, `--input-len ${values.input}`, `--output-len ${values.output}`,
    `--max-num-seqs ${values.seqs}`, `--max-num-batched-tokens ${values.batched}`,
    `--gpu-memory-utilization ${Number(values.utilization) / 100}`,
    ...(values.price === '' || price === 0 ? [] : [`--price-per-hour ${price}`]),
  ];
}

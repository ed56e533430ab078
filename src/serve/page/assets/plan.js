// The arithmetic of `quire plan` over the numbers that it prints: what fits on a device, and the roofline of its
// steps. tests/calculator_test.py holds every result to the program's own.

// `wanted`: {stages, multipliedIn, device, tp, networkGbs, kvBytes, maxLen, inputLen, outputLen, maxNumSeqs,
// maxBatchedTokens, blockSize, utilization, usdPerHour}; stages (a list of {count, footprint}), the type, the device and
// its figures as `quire plan --json` prints them for a KV cache of 16-bit numbers, usdPerHour of one device or null.
export function plan(wanted) {
  const stages = wanted.stages.map(({count, footprint}) => ({count, footprint: withKvBytes(footprint, wanted.kvBytes)}));
  const {device} = wanted;
  const length = Math.min(wanted.maxLen, wanted.inputLen + wanted.outputLen);
  const fits = stages.map(({footprint}) => memoryOf(footprint, wanted));
  const memory = fits.reduce((fullest, each) => (isFuller(each, fullest) ? each : fullest));
  const most = Math.min(wanted.maxNumSeqs, ...stages.map(({footprint}, i) =>
    Math.floor(fits[i].kvCache / kvBytesOf(footprint, length, wanted.blockSize))));
  const model = {stages, device, tp: wanted.tp, networkGbs: wanted.networkGbs, ...flopsOf(device, wanted.multipliedIn)};
  const prefill = pass(model, wanted.inputLen, (footprint) => workOf(footprint, 0, wanted.inputLen, 1));
  const context = wanted.inputLen + wanted.outputLen / 2;
  const devices = wanted.tp * sum(stages.map(({count}) => count));
  const usdPerHour = wanted.usdPerHour === null ? null : wanted.usdPerHour * devices;
  const decode = batches(most).map((batch) => {
    const step = decodeTime(model, batch, context);
    const requestSeconds = prefill.stage + wanted.outputLen * step.expected / batch;
    const tokensPerSecond = wanted.outputLen / requestSeconds;
    return {
      ...step, batch, tokensPerSecond,
      usdPerMillion: usdPerHour === null ? null : usdPerHour / 3600 / tokensPerSecond * 1e6,
    };
  });
  return {
    memory, sequences: memory.sequences, devices, usdPerHour, computedIn: model.computedIn, prefill, decode,
    kvBytesPerToken: sum(stages.map(({count, footprint}) => count * sum(footprint.kv_groups.map((each) => each.bytes_per_token)))),
  };
}

const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);

function withKvBytes(footprint, kvBytes) {
  return {
    ...footprint,
    kv_groups: footprint.kv_groups.map((each) => ({...each, bytes_per_token: each.bytes_per_token * kvBytes / 2})),
  };
}

// Of one device of a stage.
function memoryOf(footprint, {device, utilization, maxBatchedTokens, maxNumSeqs, maxLen, blockSize}) {
  const memory = {
    budget: device.memory_gb * 1e9 * utilization,
    weights: footprint.weight_bytes,
    activations: 2 * maxBatchedTokens * (2 * footprint.hidden_size + footprint.widest_row) + 4 * maxNumSeqs * footprint.vocab_size,
    kvPerSequence: kvBytesOf(footprint, maxLen, blockSize),
  };
  memory.kvCache = Math.max(0, memory.budget - memory.weights - memory.activations);
  memory.sequences = Math.floor(memory.kvCache / memory.kvPerSequence);
  return memory;
}

function isFuller(one, other) {
  return one.sequences < other.sequences || (one.sequences === other.sequences && one.weights > other.weights);
}

// In the type itself, or the next wider one that the device has.
function flopsOf(device, type) {
  const computedIn = [type, 'bf16', 'fp32'].find((each) => each in device.teraflops);
  return {computedIn, flops: device.teraflops[computedIn] * 1e12};
}

function kvBytesOf(footprint, tokens, blockSize) {
  return sum(footprint.kv_groups.map(({window, state_bytes: state, bytes_per_token: perToken}) => {
    const kept = window === 0 ? tokens : Math.min(tokens, window + blockSize);
    return 2 * state + perToken * Math.ceil(kept / blockSize) * blockSize;
  }));
}

// Keys that rows at positions [first, first + count) see; a row sees itself.
function keysSeen(first, count, window) {
  const triangle = (n) => n * (n + 1) / 2;
  if (window === 0) return triangle(first + count) - triangle(first);
  const full = Math.max(0, first + count - Math.max(first, window - 1));
  return triangle(first + count - full) - triangle(first) + full * window;
}

// Of `count` rows of a sequence of which `computed` tokens are computed, `logits` of them with logits.
function workOf(footprint, computed, count, logits) {
  return {
    rows: count,
    logits,
    attentionFlops: sum(footprint.attention.map((each) => each.flops_per_key * keysSeen(computed, count, each.window))),
    kvBytes: sum(footprint.kv_groups.map((each) => {
      const earlier = each.window === 0 ? computed : Math.min(computed, each.window - 1);
      return each.bytes_per_token * (earlier + count) + 2 * each.state_bytes;
    })),
  };
}

// Seconds of one stage, as the peaks allow and as is expected.
function stepTime({device, tp, flops}, footprint, work) {
  const computed = footprint.flops_per_row * work.rows + footprint.flops_per_logits * work.logits + work.attentionFlops;
  const expertsRead = 1 - (1 - footprint.expert_share) ** work.rows;
  const read = footprint.dense_bytes - (work.logits > 0 ? 0 : footprint.output_bytes) +
    footprint.expert_bytes * expertsRead + work.kvBytes;
  const compute = computed / flops;
  const memory = read / (device.bandwidth_gbs * 1e9);
  const sums = tp > 1 ? 2 * footprint.num_layers : 0;
  const link = tp > 1 ? sums * work.rows * footprint.hidden_size * 2 * 2 * (tp - 1) / tp / (device.link_gbs * 1e9 / 2) : 0;
  return {
    flops: computed, bytes: read, compute, memory, link,
    ideal: Math.max(compute, memory) + link,
    expected: Math.max(compute / device.compute_efficiency, memory / device.memory_efficiency) +
      link / device.link_efficiency + sums * device.reduce_latency_us / 1e6 + device.step_overhead_ms / 1e3,
  };
}

// A step of `rows` through all stages: sums, and the time of the slowest stage.
function pass({stages, device, tp, networkGbs, flops}, rows, workOfStage) {
  const times = stages.map(({count, footprint}) => ({count, ...stepTime({device, tp, flops}, footprint, workOfStage(footprint))}));
  const hops = sum(times.map(({count}) => count)) - 1;
  const linked = tp * (hops + 1) <= device.max_tp;
  const hopBytes = 2 * stages[0].footprint.hidden_size / tp * rows;
  const transfers = hops * hopBytes / ((linked ? device.link_gbs / 2 : networkGbs) * 1e9);
  const all = (name) => sum(times.map((each) => each.count * each[name]));
  const slowest = (name) => Math.max(...times.map((each) => each[name]));
  const [compute, memory, link] = [all('compute'), all('memory'), all('link') + transfers];
  return {
    flops: all('flops'), bytes: all('bytes'), stage: slowest('expected'), idealStage: slowest('ideal'),
    ideal: all('ideal') + transfers,
    expected: all('expected') + transfers / device.link_efficiency + hops * device.reduce_latency_us / 1e6,
    bound: link > Math.max(compute, memory) ? 'link' : compute > memory ? 'compute' : 'memory',
  };
}

// A token for each sequence: as many steps as there are stages, one behind the other, with a part of the sequences each.
function decodeTime(model, batch, context) {
  const steps = Math.min(batch, sum(model.stages.map(({count}) => count)));
  const part = batch / steps;
  const step = pass(model, part, (footprint) => {
    const one = workOf(footprint, context, 1, 1);
    return {rows: part, logits: part, attentionFlops: part * one.attentionFlops, kvBytes: part * one.kvBytes};
  });
  return {
    ...step, flops: step.flops * steps, bytes: step.bytes * steps, ideal: Math.max(step.ideal, steps * step.idealStage),
    expected: Math.max(step.expected, steps * step.stage),
  };
}

function batches(most) {
  const list = [];
  for (let batch = 1; batch < most; batch *= 2) list.push(batch);
  if (most > 0) list.push(most);
  return list;
}

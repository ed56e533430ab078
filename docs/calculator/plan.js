// The arithmetic of `quire plan` over the numbers that it prints: what fits on a device, and the roofline of its
// steps. tests/calculator_test.py holds every result to the program's own.

// `wanted`: {footprint, multipliedIn, device, tp, kvBytes, maxLen, inputLen, outputLen, maxNumSeqs, maxBatchedTokens,
// blockSize, utilization, usdPerHour}; the first two, the device and its figures as `quire plan --json` prints them for a
// KV cache of 16-bit numbers, usdPerHour of one device or null.
export function plan(wanted) {
  const footprint = withKvBytes(wanted.footprint, wanted.kvBytes);
  const {device, blockSize} = wanted;
  const memory = {
    budget: device.memory_gb * 1e9 * wanted.utilization,
    weights: footprint.weight_bytes,
    activations: 2 * wanted.maxBatchedTokens * (2 * footprint.hidden_size + footprint.widest_row) +
      4 * wanted.maxNumSeqs * footprint.vocab_size,
    kvPerSequence: kvBytesOf(footprint, wanted.maxLen, blockSize),
  };
  memory.kvCache = Math.max(0, memory.budget - memory.weights - memory.activations);
  const length = Math.min(wanted.maxLen, wanted.inputLen + wanted.outputLen);
  const most = Math.min(wanted.maxNumSeqs, Math.floor(memory.kvCache / kvBytesOf(footprint, length, blockSize)));
  const model = {footprint, device, tp: wanted.tp, ...flopsOf(device, wanted.multipliedIn)};
  const prefill = stepTime(model, workOf(footprint, 0, wanted.inputLen, 1));
  const context = wanted.inputLen + wanted.outputLen / 2;
  const usdPerHour = wanted.usdPerHour === null ? null : wanted.usdPerHour * wanted.tp;
  const decode = batches(most).map((batch) => {
    const one = workOf(footprint, context, 1, 1);
    const step = stepTime(model, {
      rows: batch, logits: batch, attentionFlops: batch * one.attentionFlops, kvBytes: batch * one.kvBytes,
    });
    const requestSeconds = prefill.expected + wanted.outputLen * step.expected / batch;
    const tokensPerSecond = wanted.outputLen / requestSeconds;
    return {
      ...step, batch, tokensPerSecond,
      usdPerMillion: usdPerHour === null ? null : usdPerHour / 3600 / tokensPerSecond * 1e6,
    };
  });
  return {
    memory, sequences: Math.floor(memory.kvCache / memory.kvPerSequence), kvBytesPerToken: sum(footprint.kv_groups.map((each) =>
      each.bytes_per_token)), usdPerHour, computedIn: model.computedIn, prefill, decode,
  };
}

const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);

function withKvBytes(footprint, kvBytes) {
  return {
    ...footprint,
    kv_groups: footprint.kv_groups.map((each) => ({...each, bytes_per_token: each.bytes_per_token * kvBytes / 2})),
  };
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

// Seconds, as the peaks allow and as is expected.
function stepTime({footprint, device, tp, flops}, work) {
  const computed = footprint.flops_per_row * work.rows + footprint.flops_per_logits * work.logits + work.attentionFlops;
  const expertsRead = 1 - (1 - footprint.expert_share) ** work.rows;
  const read = footprint.dense_bytes - (work.logits > 0 ? 0 : footprint.output_bytes) +
    footprint.expert_bytes * expertsRead + work.kvBytes;
  const compute = computed / flops;
  const memory = read / (device.bandwidth_gbs * 1e9);
  const sums = tp > 1 ? 2 * footprint.num_layers : 0;
  const link = tp > 1 ? sums * work.rows * footprint.hidden_size * 2 * 2 * (tp - 1) / tp / (device.link_gbs * 1e9 / 2) : 0;
  return {
    flops: computed,
    bytes: read,
    ideal: Math.max(compute, memory) + link,
    expected: Math.max(compute / device.compute_efficiency, memory / device.memory_efficiency) +
      link / device.link_efficiency + sums * device.reduce_latency_us / 1e6 + device.step_overhead_ms / 1e3,
    bound: link > Math.max(compute, memory) ? 'link' : compute > memory ? 'compute' : 'memory',
  };
}

function batches(most) {
  const list = [];
  for (let batch = 1; batch < most; batch *= 2) list.push(batch);
  if (most > 0) list.push(most);
  return list;
}

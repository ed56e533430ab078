// One request to the server and what has come of it: plain data, which can be saved and shown again.
//
// An answer: {request: {path, body, code}, status, error, id, choices: [{text, tokens, finish}], shown,
// promptTokens, ttft, seconds, usage, goesOn, earlierTokens}. `status` is running, done, stopped (by the
// user), interrupted (the page went away) or failed. `request.code` is the body without what only this page
// needs; `request` is null where nobody knows it any more. Times are in seconds, as this browser saw them.
// Where the last request went on from output `goesOn` of earlier ones, ttft, seconds and usage are of the
// last one, and `earlierTokens` is how many those gave; else `goesOn` is null.
import {watchWaiting} from './waiting.js';
import {fromBytes} from './token_strip.js';

// `mode`: chat or completion. `input` says what to go on from: `messages`, with what belongs to them, or
// `prompt`. `values` are the sampling parameters; those whose names are in `own` the page has set by itself.
export function makeRequest(mode, model, input, values, own = []) {
  const {logprobs, ...others} = values;
  // The server gives a prompt's log probabilities only with the whole answer.
  const stream = others.prompt_logprobs === undefined;
  const streaming = {
    ...(stream ? {stream: true, stream_options: {include_usage: true, continuous_usage_stats: true}} : {return_token_ids: true}),
    ...(others.structured_outputs === undefined ? {} : {return_forced_tokens: true}),
  };
  if (mode === 'chat') {
    const asked = logprobs === undefined ? {} : {logprobs: true, top_logprobs: logprobs};
    return withCode('v1/chat/completions', {model, ...input, ...others}, asked, streaming, own);
  }
  const asked = logprobs === undefined ? {} : {logprobs};
  return withCode('v1/completions', {model, ...input, ...others}, asked, streaming, own);
}

function withCode(path, body, asked, streaming, own) {
  return {
    path, body: {...body, ...asked, ...streaming},
    code: {...body, ...(own.includes('logprobs') ? {} : asked), ...(streaming.stream ? {stream: true} : {})},
  };
}

// Letters that name a request among all others.
function newRequestId() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((each) => each.toString(16).padStart(2, '0')).join('');
}

const newChoice = () => ({text: '', tokens: [], finish: null});

export function newAnswer(request) {
  return {
    request, status: 'running', error: null, id: null, choices: [newChoice()], shown: 0,
    promptTokens: null, ttft: null, seconds: null, usage: null, waiting: null, goesOn: null, earlierTokens: 0,
  };
}

// An answer of which nothing is known but its text.
export function answerWith(text) {
  return {...newAnswer(null), status: 'done', choices: [{text, tokens: [], finish: null}]};
}

// Whether there is more to be had: the output that is shown did not end by itself.
export function isCut(answer) {
  const {text, finish} = answer.choices[answer.shown];
  return answer.status !== 'running' && text !== '' && finish !== 'stop' && answer.request !== null;
}

// Makes an answer ready to run() a request that goes on where the output that is shown ends.
export function goOn(answer, request) {
  const choice = answer.choices[answer.shown];
  const earlierTokens = answer.usage
    ? answer.earlierTokens + answer.usage.completion_tokens : Math.max(answer.earlierTokens, choice.tokens.length);
  choice.finish = null;
  Object.assign(answer, {
    request, status: 'running', error: null, id: null, ttft: null, seconds: null, usage: null, goesOn: answer.shown, earlierTokens,
  });
}

const asTop = ([text, logprob]) => ({text, logprob});

// Tokens with their log probabilities, of either protocol. `forced` says of each whether the constraint left no
// other; undefined where there is none.
function readTokens(logprobs, forced) {
  if (!logprobs) return [];
  const mark = (i) => forced?.[i] ? {forced: true} : {};
  if (logprobs.content) {
    return logprobs.content.map(({logprob, bytes, top_logprobs: top}, i) => ({
      ...fromBytes(bytes), logprob, ...mark(i),
      top: top.map((each) => ({...fromBytes(each.bytes), logprob: each.logprob})),
    }));
  }
  return logprobs.tokens.map((text, i) => ({
    text, logprob: logprobs.token_logprobs[i], ...mark(i),
    top: Object.entries(logprobs.top_logprobs[i] ?? {}).map(asTop).sort((a, b) => b.logprob - a.logprob),
  }));
}

// The tokens of a prompt but its first, from the report's {"ID": {logprob, decoded_token}} for each,
// the token itself among its alternatives.
function readPromptTokens(report, ids) {
  const read = ({logprob, decoded_token: text}) => ({text, logprob});
  return report.slice(1).map((entry, i) => ({
    ...read(entry[ids[i + 1]]),
    top: Object.values(entry).map(read).sort((a, b) => b.logprob - a.logprob),
  }));
}

function take(answer, event) {
  answer.id ??= event.id ?? null;
  if (event.usage) answer.usage = event.usage;
  for (const piece of event.choices ?? []) {
    const index = answer.goesOn ?? piece.index;
    while (answer.choices.length <= index) answer.choices.push(newChoice());  // they come in any order
    const choice = answer.choices[index];
    choice.text += piece.delta?.content ?? piece.message?.content ?? piece.text ?? '';
    choice.tokens.push(...readTokens(piece.logprobs, piece.forced_tokens));
    choice.finish = piece.finish_reason ?? choice.finish;
    const report = piece.prompt_logprobs ?? event.prompt_logprobs;
    if (report) answer.promptTokens = readPromptTokens(report, piece.prompt_token_ids ?? event.prompt_token_ids);
  }
}

// Sends the answer's request and fills the answer; `onChange` is called after every piece. Ends when
// the answer is complete, has failed or was stopped; throws nothing.
export async function run(api, answer, {signal, onChange}) {
  const start = performance.now();
  const now = () => (performance.now() - start) / 1000;
  const {path, body} = answer.request;
  const requestId = newRequestId();
  const arrived = watchWaiting(api, requestId, (text) => {
    answer.waiting = text;
    onChange();
  });
  let complete = false;
  try {
    if (body.stream) {
      for await (const event of api.events(path, {method: 'POST', body, signal, requestId})) {
        arrived();
        answer.waiting = null;
        complete = event.choices?.length === 0 && Boolean(event.usage);
        take(answer, event);
        if (event.choices?.length > 0) answer.ttft ??= now();
        answer.seconds = now();
        onChange();
      }
    } else {
      take(answer, await api.json(path, {method: 'POST', body, signal, requestId}));
      complete = true;
      answer.seconds = now();
    }
    // A stream that breaks off has no event with nothing but the usage at its end.
    answer.status = complete ? 'done' : 'failed';
    if (!complete) answer.error = {status: 0, message: 'The connection broke off in mid-answer.', param: null, code: null};
  } catch (error) {
    if (error.name === 'AbortError' || signal.aborted) {
      answer.status = 'stopped';
    } else {
      answer.status = 'failed';
      const {status = 0, message, param = null, code = null} = error;
      answer.error = {status, message, param, code};
    }
  } finally {
    arrived();
    answer.waiting = null;
  }
  onChange();
}

// A request of the page as a program of one's own: curl, or Python with the openai package.
import {copyText} from './clipboard.js';
import {h} from './dom.js';

// What the openai package knows by name; everything else goes into extra_body.
const OPENAI_FIELDS = new Set([
  'model', 'messages', 'prompt', 'stream', 'stream_options', 'temperature', 'top_p', 'n', 'seed', 'stop', 'max_tokens',
  'presence_penalty', 'frequency_penalty', 'logprobs', 'top_logprobs', 'logit_bias',
]);

function asCurl(api, {path, body}) {
  const quoted = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
  return [
    `curl${body.stream ? ' -N' : ''} '${api.url(path)}' \\`,
    `  -H 'Content-Type: application/json' \\`,
    ...(api.key === '' ? [] : ['  -H "Authorization: Bearer $QUIRE_API_KEY" \\']),
    `  -d '${quoted}'`,
  ].join('\n');
}

// A value as Python writes it, broken into lines where it is long.
function python(value, indent) {
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (typeof value !== 'object') return JSON.stringify(value);
  const [open, close, parts] = Array.isArray(value)
    ? ['[', ']', value.map((each) => python(each, indent + '    '))]
    : ['{', '}', Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${python(each, indent + '    ')}`)];
  const line = open + parts.join(', ') + close;
  if (line.length + indent.length <= 90 && !line.includes('\n')) return line;
  return `${open}\n${parts.map((part) => `${indent}    ${part},\n`).join('')}${indent}${close}`;
}

function asPython(api, {path, body}) {
  const chat = path.includes('chat');
  const entries = Object.entries(body);
  const named = entries.filter(([name]) => OPENAI_FIELDS.has(name));
  const extra = entries.filter(([name]) => !OPENAI_FIELDS.has(name));
  if (extra.length > 0) named.push(['extra_body', Object.fromEntries(extra)]);
  const base = String(api.url('v1'));
  const key = api.key === '' ? '"EMPTY"' : 'os.environ["QUIRE_API_KEY"]';
  const result = body.stream ? 'stream' : 'answer';
  const reading = body.stream
    ? ['for chunk in stream:', '    for choice in chunk.choices:',
       `        print(${chat ? 'choice.delta.content or ""' : 'choice.text'}, end="", flush=True)`, 'print()']
    : ['for choice in answer.choices:', `    print(${chat ? 'choice.message.content' : 'choice.text'})`];
  return [
    ...(api.key === '' ? [] : ['import os', '']),
    'from openai import OpenAI', '',
    `client = OpenAI(base_url=${JSON.stringify(base)}, api_key=${key})`,
    `${result} = client.${chat ? 'chat.completions' : 'completions'}.create(`,
    ...named.map(([name, value]) => `    ${name}=${python(value, '    ')},`),
    ')', ...reading, '',
  ].join('\n');
}

export function showCode(api, {path, body, code: shown = body}) {
  const request = {path, body: shown};
  const ways = [['curl', asCurl], ['Python', asPython]];
  const code = h('code');
  const block = h('pre', {class: 'fenced', tabIndex: 0, 'aria-label': 'Code'}, code);
  const buttons = ways.map(([name, write]) => h('button', {
    type: 'button', onclick: () => choose(name, write),
  }, name));
  function choose(name, write) {
    code.textContent = write(api, request);
    buttons.forEach((each) => each.setAttribute('aria-pressed', String(each.textContent === name)));
  }
  const copy = h('button', {
    type: 'button', class: 'primary', onclick: () => copyText(code.textContent, copy),
  }, 'Copy');
  const dialog = h('dialog', {class: 'dialog wide', 'aria-label': 'The request as a program', onclose: () => dialog.remove()},
    h('div', {class: 'stack'},
      h('div', {class: 'row spread'}, h('div', {class: 'segments'}, buttons),
        h('form', {method: 'dialog'}, h('button', {class: 'quiet'}, 'Close'))),
      block, h('div', {class: 'row end'}, copy)));
  choose(...ways[0]);
  document.body.append(dialog);
  dialog.showModal();
}

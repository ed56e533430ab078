// The sampling parameters: one field each, made from what the server says of them. An empty field
// means the server's default, which it shows; only what was changed goes into a request.
import {h, icon} from './dom.js';
import {ServerError} from './api.js';
import {words} from './error_view.js';

const GROUPS = [
  {title: 'Sampling', open: true, names: ['temperature', 'top_p', 'min_p', 'top_k', 'seed', 'max_tokens', 'n']},
  {title: 'Penalties', names: ['repetition_penalty', 'presence_penalty', 'frequency_penalty']},
  {title: 'Where it ends', names: ['stop', 'stop_token_ids', 'min_tokens', 'ignore_eos', 'include_stop_str_in_output', 'skip_special_tokens']},
  {title: 'What the text must be', names: ['structured_outputs', 'ensure_close']},
  {title: 'Beam search', names: ['beam_width', 'length_penalty', 'early_stopping']},
  {title: 'Tokens', names: ['logprobs', 'prompt_logprobs', 'logit_bias', 'allowed_token_ids', 'bad_words']},
];
// Where a slider helps, and what it reaches; the field beside it takes any value.
const SLIDERS = {temperature: {max: 2, step: 0.05}, top_p: {max: 1, step: 0.01}, min_p: {max: 1, step: 0.01}};
const HINTS = {
  strings: 'one a line; \\n is a line break', token_ids: '12, 34', biases: '12: -5, 34: 2.5',
  structured_outputs: '{JSON Schema}, /regex/ or a grammar', early_stopping: 'true, false or never',
};
const ASKED_BY_ITSELF = 'return_forced_tokens';  // generation.js asks for it where the text is constrained
const NO_JSON = 'this is no JSON';
// Of structured_outputs' object; no JSON Schema has one of these.
const CONSTRAINTS = ['json', 'regex', 'choice', 'grammar', 'json_object', 'structural_tag'];

function wrong(name, message) {
  return new ServerError(0, {message, param: name, code: 'not sent'});
}

const PARSERS = {
  integer: (text, name) => {
    if (!/^[+-]?\d+$/.test(text)) throw wrong(name, `"${text}" is no whole number`);
    if (!Number.isSafeInteger(Number(text))) throw wrong(name, `${text} is more than a browser can count to`);
    return Number(text);
  },
  number: (text, name) => {
    const value = Number(text);
    if (!Number.isFinite(value)) throw wrong(name, `"${text}" is no number`);
    return value;
  },
  strings: (text) => text.split('\n').filter((line) => line !== '')
    .map((line) => line.replace(/\\([nt\\])/g, (_, c) => ({n: '\n', t: '\t', '\\': '\\'})[c])),
  token_ids: (text, name) => text.split(/[\s,]+/).filter((each) => each !== '').map((each) => PARSERS.integer(each, name)),
  biases: (text, name) => Object.fromEntries(text.split(/[\n,]+/).filter((each) => each.trim() !== '').map((each) => {
    const match = /^\s*"?(\d+)"?\s*:\s*(\S+)\s*$/.exec(each);
    if (!match) throw wrong(name, `"${each.trim()}" is not of the form ID: BIAS`);
    return [match[1], PARSERS.number(match[2], name)];
  })),
  early_stopping: (text, name) => {
    const value = {true: true, false: false, never: 'never'}[text.trim().replaceAll('"', '')];
    if (value === undefined) throw wrong(name, `"${text}" is not true, false or never`);
    return value;
  },
  structured_outputs: (text, name) => {
    const written = text.trim();
    const regex = /^\/(.*)\/$/s.exec(written);
    if (regex) return {regex: regex[1]};
    if (!written.startsWith('{')) return {grammar: written};
    let object;
    try {
      object = JSON.parse(written);
    } catch (error) {
      throw wrong(name, `${NO_JSON}: ${error.message}`);
    }
    return CONSTRAINTS.some((each) => each in object) ? object : {json: object};
  },
};

// Where in the text of a field a message's line and column are, or null: those of a regex or a grammar, which is
// the text without its slashes and blanks, and of what is no JSON.
function placeOf(message, text) {
  const match = /line (\d+),? column (\d+)/.exec(message);
  const written = text.trimStart();
  if (match === null || (written.startsWith('{') && !message.startsWith(NO_JSON))) return null;
  const regex = written.startsWith('/');
  const lines = written.slice(regex ? 1 : 0).split('\n').slice(0, Number(match[1]));
  const last = [...lines.pop()].slice(0, Number(match[2]) - 1).join('');
  return text.length - written.length + (regex ? 1 : 0) + lines.join('\n').length + (lines.length > 0 ? 1 : 0) + last.length;
}

function defaultText({kind, default: value}) {
  if (value === null) return kind === 'integer' ? 'auto' : HINTS[kind];
  return String(value);
}

// Shows a field's help while it has the focus, and until the pointer's button is up: if what lies below
// moved between down and up, a click on it would miss.
function showHelp(row) {
  const hide = () => row.classList.toggle('helped', row.contains(document.activeElement));
  row.addEventListener('focusin', () => row.classList.add('helped'));
  row.addEventListener('focusout', () => {
    if (document.querySelector(':active')) addEventListener('pointerup', () => setTimeout(hide), {once: true});
    else setTimeout(hide);
  });
}

// Says at a field what is wrong with it, for on a phone the panel lies over the error itself; null: nothing any more.
function complain({parameter, input, row}, message) {
  if (message === null) input.removeAttribute('aria-invalid');
  else input.setAttribute('aria-invalid', 'true');
  const help = row.querySelector('.help');
  help.textContent = message ?? parameter.description;
  help.classList.toggle('wrong', message !== null);
}

export class Parameters {
  // `saved`: texts of the fields by name, as texts() gave them; `onChange` is called after each change; the
  // fields' ids begin with `prefix`.
  constructor(info, saved, onChange, prefix = 'parameter') {
    this.onChange = onChange;
    this.prefix = prefix;
    this.fields = new Map();
    const known = new Map(info.sampling.filter(({name}) => name !== ASKED_BY_ITSELF).map((each) => [each.name, each]));
    // What the page asks for without being told: what the server says that conversations start from, and
    // alternatives for the view of tokens.
    const starts = info.sampling.filter(({start, default: value}) => start !== null && String(start) !== String(value));
    this.preset = {...Object.fromEntries(starts.map(({name, start}) => [name, String(start)])), logprobs: String(Math.min(5, info.max_logprobs))};
    const named = new Set(GROUPS.flatMap(({names}) => names));
    const groups = [...GROUPS, {title: 'Further', names: [...known.keys()].filter((name) => !named.has(name))}];
    this.summary = h('span', {class: 'muted small'});
    this.clear = h('button', {type: 'button', class: 'quiet small', onclick: () => this.write(this.preset)}, 'Reset');
    this.element = h('div', {class: 'parameters'},
      h('div', {class: 'row spread'}, h('h2', {}, 'Parameters'), h('span', {class: 'row'}, this.summary, this.clear)),
      groups.filter(({names}) => names.some((name) => known.has(name))).map(({title, open, names}) =>
        h('details', {open: open ?? false},
          h('summary', {}, title),
          h('div', {class: 'fields'}, names.filter((name) => known.has(name)).map((name) => this.#field(known.get(name)))))));
    for (const [name, text] of Object.entries(saved ?? this.preset)) this.fields.get(name)?.write(text);
    this.#count();
  }

  // The texts of the fields that are not empty, to be saved.
  texts() {
    return Object.fromEntries([...this.fields].map(([name, {read}]) => [name, read()]).filter(([, text]) => text !== ''));
  }

  // The values of those fields, for a request. Throws ServerError for one that cannot be read.
  values() {
    const values = {};
    for (const [name, {parameter, read}] of this.fields) {
      const text = read().trim();
      if (text === '') continue;
      values[name] = parameter.kind === 'boolean' ? text === 'true' : PARSERS[parameter.kind](read(), name);
    }
    return values;
  }

  // The names of those that the page sets by itself and nobody changed.
  own() {
    return Object.keys(this.preset).filter((name) => this.texts()[name] === this.preset[name]);
  }

  // Where the kind of request decides: `usual` is what the server takes for an empty field, `asked` what the page
  // asks for, or ''. A field that the user changed stays.
  setDefault(name, usual, asked) {
    const {input, parameter, read, write} = this.fields.get(name);
    if (parameter.default !== null) return;
    input.placeholder = usual;
    const untouched = read() === (this.preset[name] ?? '');
    this.preset[name] = asked;
    if (untouched) write(asked);
    this.#changed();
  }

  has(name) {
    return this.fields.has(name);
  }

  // Shows the field that an error names, with what is at the place that its message tells selected.
  focus(name, message) {
    const field = this.fields.get(name);
    const {input, row, parameter} = field;
    row.closest('details').open = true;
    complain(field, words({message, param: name}));
    input.scrollIntoView({block: 'center'});
    input.focus();
    const place = parameter.kind === 'structured_outputs' ? placeOf(message, input.value) : null;
    if (place !== null) input.setSelectionRange(place, place + 1);
  }

  // Sets all fields, as texts() gave them; those that it does not name are empty.
  write(texts) {
    for (const [name, {write}] of this.fields) write(texts[name] ?? '');
    this.#changed();
  }

  #changed() {
    this.#count();
    this.onChange();
  }

  #count() {
    const texts = this.texts();
    const count = Object.keys({...this.preset, ...texts}).filter((name) => (texts[name] ?? '') !== (this.preset[name] ?? '')).length;
    this.summary.textContent = count > 0 ? `${count} changed` : '';
    this.clear.hidden = count === 0;
  }

  #field(parameter) {
    const {name, kind, description, source} = parameter;
    const id = `${this.prefix}-${name}`;
    // A narrow label breaks behind its underscores.
    const label = h('label', {for: id, class: 'name'}, name.split(/(?<=_)/).flatMap((part) => [h('wbr'), part]));
    const badge = source === 'generation_config'
      ? h('span', {class: 'badge', title: "The default is from the model's generation_config.json"}, 'model') : null;
    const help = h('p', {class: 'help', id: `${id}-help`}, description);
    const row = h('div', {class: 'field', title: description});
    const entry = kind === 'boolean' ? this.#checkbox(parameter, id, row) : this.#text(parameter, id, row);
    entry.input.setAttribute('aria-describedby', help.id);
    const undo = h('button', {
      type: 'button', class: 'quiet icon undo', title: `Back to the default`, 'aria-label': `${name}: back to the default`,
      onclick: () => {
        entry.write('');
        this.#changed();
        entry.input.focus();
      },
    }, icon('close'));
    if (kind === 'boolean') row.append(h('div', {class: 'top'}, entry.input, label, badge ?? '', undo), help);
    else if (entry.slider) row.append(h('div', {class: 'top'}, label, badge ?? '', undo, entry.input), entry.slider, help);
    else row.append(h('div', {class: 'top'}, label, badge ?? '', undo), entry.input, help);
    if (['strings', 'token_ids', 'biases', 'structured_outputs', 'boolean'].includes(kind) || entry.slider) row.classList.add('wide');
    showHelp(row);
    this.fields.set(name, {parameter, row, ...entry});
    return row;
  }

  #checkbox({default: value}, id, row) {
    const input = h('input', {type: 'checkbox', id, checked: value === true});
    const mark = () => row.classList.toggle('changed', input.checked !== (value === true));
    input.addEventListener('change', () => {
      mark();
      this.#changed();
    });
    return {
      input,
      read: () => input.checked === (value === true) ? '' : String(input.checked),
      write: (text) => {
        input.checked = text === '' ? value === true : text === 'true';
        mark();
      },
    };
  }

  #text(parameter, id, row) {
    const {name, kind, default: value} = parameter;
    const lines = ['strings', 'biases', 'structured_outputs'].includes(kind);
    const input = h(lines ? 'textarea' : 'input', {
      id, placeholder: defaultText(parameter), autocomplete: 'off', spellcheck: false,
      ...(lines ? {rows: kind === 'structured_outputs' ? 3 : 1} : {type: 'text', inputMode: kind === 'number' ? 'decimal' : 'text'}),
    });
    const range = SLIDERS[name];
    const slider = range && h('input', {
      type: 'range', min: 0, max: range.max, step: range.step, value: value ?? 0, 'aria-label': `${name}, slider`,
      oninput: () => {
        input.value = slider.value;
        mark();
        this.#changed();
      },
    });
    const mark = () => {
      row.classList.toggle('changed', input.value !== '');
      complain({parameter, input, row}, null);
      if (slider) slider.value = input.value === '' ? value ?? 0 : input.value;
    };
    input.addEventListener('input', () => {
      mark();
      this.#changed();
    });
    return {
      input, slider, read: () => input.value,
      write: (text) => {
        input.value = text;
        mark();
      },
    };
  }
}

// The tokenizer and the chat template to try out: what is typed is shown as the tokens that the model
// would be given.
import {h} from './dom.js';
import {errorView} from './error_view.js';
import {plural} from './format.js';
import {TokenStrip, shownText} from './token_strip.js';

const MOST_SHOWN = 5000;
const DELAY_MS = 150;

// A place that shows the tokens of the last request, or why there are none.
class Tokens {
  constructor(api, label) {
    this.api = api;
    this.label = label;
    this.summary = h('span', {class: 'muted small number'});
    this.detail = h('span', {class: 'small mono grow detail'});
    this.body = h('div', {class: 'tokens'});
    this.element = h('div', {}, this.body, h('div', {class: 'row spread'}, this.summary, this.detail));
    this.abort = null;
  }

  // Only the last call's answer is shown.
  async show(request) {
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    try {
      const answer = await this.api.json('page/tokens', {method: 'POST', body: request, signal: abort.signal});
      if (this.abort === abort) this.#fill(answer);
    } catch (error) {
      if (error.name === 'AbortError' || this.abort !== abort) return;
      this.#fail(error);
    }
  }

  fail(error) {
    this.abort?.abort();
    this.abort = null;
    this.#fail(error);
  }

  #fail(error) {
    this.summary.textContent = '';
    this.detail.textContent = '';
    this.body.replaceChildren(errorView(error));
  }

  #fill({count, tokens, max_model_len: most}) {
    const strip = new TokenStrip({
      label: this.label,
      classOf: (token, index) => token.special ? 'special' : `tint-${index % 6}`,
      onPick: (index) => { this.detail.textContent = describe(tokens[index], index); },
      onLeave: () => { this.detail.textContent = ''; },
    });
    strip.append(tokens.slice(0, MOST_SHOWN));
    const left = count - Math.min(count, MOST_SHOWN);
    this.body.replaceChildren(strip.element, ...(left > 0 ? [h('p', {class: 'muted small'}, `and ${plural(left, 'token')} more`)] : []));
    this.summary.textContent = plural(count, 'token') + (count > most ? `, more than the ${most} that a sequence may have` : '');
  }
}

function describe(token, index) {
  const kind = token.special ? ', control token' : '';
  return `token ${index}: ${JSON.stringify(shownText(token).replaceAll('↵\n', '\n'))} is id ${token.id}${kind}`;
}

// Calls `action` when nothing has been typed for a moment.
function whenQuiet(action) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, DELAY_MS);
  };
}

export function tokenizerTryOut(api) {
  const tokens = new Tokens(api, 'Tokens of the text');
  const text = h('textarea', {
    id: 'tokenizer-text', rows: 4, spellcheck: false,
    value: 'Hello, world! Tokens are pieces of text: unbelievable, 3.14159, naïve, 日本語 🙂\n<|im_end|> is one if control tokens count.',
  });
  const special = h('input', {type: 'checkbox', id: 'tokenizer-special'});
  const update = () => tokens.show({text: text.value, parse_special: special.checked});
  text.addEventListener('input', whenQuiet(update));
  special.addEventListener('change', update);
  update();
  return h('section', {class: 'sheet', 'aria-labelledby': 'tokenizer'},
    h('h2', {id: 'tokenizer'}, 'Tokenizer'),
    h('label', {class: 'unseen', for: 'tokenizer-text'}, 'Text to tokenize'), text,
    h('label', {class: 'row check'}, special, 'Control tokens spelled in the text count, as in a completion'),
    tokens.element);
}

const EXAMPLE = [
  {role: 'system', content: 'You are a helpful assistant.'},
  {role: 'user', content: 'What is the capital of Japan?'},
];

export function templateTryOut(api) {
  const tokens = new Tokens(api, 'Prompt of the messages');
  const text = h('textarea', {
    id: 'template-messages', class: 'mono', rows: 6, spellcheck: false,
    value: `[\n${EXAMPLE.map((each) => `  ${JSON.stringify(each)}`).join(',\n')}\n]`,
  });
  const generation = h('input', {type: 'checkbox', id: 'template-generation', checked: true});
  const update = () => {
    let messages;
    try {
      messages = JSON.parse(text.value);
    } catch (error) {
      text.setAttribute('aria-invalid', 'true');
      tokens.fail({message: `The messages are no JSON yet: ${error.message}`});
      return;
    }
    text.removeAttribute('aria-invalid');
    tokens.show({messages, add_generation_prompt: generation.checked});
  };
  text.addEventListener('input', whenQuiet(update));
  generation.addEventListener('change', update);
  update();
  return h('section', {class: 'sheet', 'aria-labelledby': 'template'},
    h('h2', {id: 'template'}, 'Chat template'),
    h('label', {class: 'small muted', for: 'template-messages'}, 'Messages, as JSON'), text,
    h('label', {class: 'row check'}, generation, 'Begin the answer (add_generation_prompt)'),
    h('p', {class: 'small muted'}, 'The prompt that the model is given, control tokens outlined:'),
    tokens.element);
}

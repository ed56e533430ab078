// Shows an answer (generation.js): its text or its tokens, how fast it came, and what can be done
// with it.
import {hideAlternatives, showAlternatives} from './alternatives.js';
import {showCode} from './code_dialog.js';
import {copyText} from './clipboard.js';
import {h} from './dom.js';
import {errorView} from './error_view.js';
import {count, duration, percent, plural, significant} from './format.js';
import {isCut} from './generation.js';
import {Markdown} from './markdown.js';
import {TokenStrip} from './token_strip.js';
import {showWhy} from './why.js';

// Least probabilities of the shades of base.css, best first.
const SHADES = [0.9, 0.5, 0.2, 0.05, 0];
const STATUS = {
  stopped: 'stopped', interrupted: 'cut off: the page was closed or loaded anew',
};
const FINISH = {stop: 'complete', length: 'token limit reached', abort: 'aborted'};

function shadeOf({logprob, forced}) {
  const p = logprob === null ? 1 : Math.exp(logprob);
  return `shade-${SHADES.findIndex((least) => p >= least)}${forced ? ' forced' : ''}`;
}

// What a choice says, in one of two ways.
class ChoiceBody {
  // `compared`: whether tokens are marked that another answer does not have, rather than shaded.
  constructor(prompt, compared) {
    this.prompt = prompt;  // that stands before a completion; null in a chat
    this.compared = compared;
    this.marked = new Set();
    this.rich = prompt === null ? new Markdown() : null;
    this.continuation = h('span', {class: 'continuation'});
    this.element = h('div', {class: 'body'});
    this.asTokens = null;
    this.strip = null;
  }

  mark(marked) {
    this.marked = marked;
    this.asTokens = null;  // the tokens are shown anew
  }

  update(answer, choice, asTokens) {
    if (this.asTokens !== asTokens) this.#choose(answer, choice, asTokens);
    if (asTokens) this.strip.append(choice.tokens.slice(this.strip.tokens.length));
    else if (this.rich) this.rich.show(choice.text, answer.status !== 'running');
    else this.continuation.textContent = choice.text;
  }

  #choose(answer, choice, asTokens) {
    this.asTokens = asTokens;
    if (!asTokens) {
      this.element.replaceChildren(this.rich?.element
        ?? h('div', {class: 'prose'}, h('span', {class: 'prompt'}, this.prompt), this.continuation));
      return;
    }
    const parts = [];
    if (answer.promptTokens) {
      const prompt = this.#strip('Tokens of the prompt', answer.promptTokens);
      prompt.append(answer.promptTokens);
      parts.push(h('p', {class: 'small muted'}, 'Prompt, from its second token on'), prompt.element,
                 h('p', {class: 'small muted'}, 'Answer'));
    } else if (this.prompt !== null) {
      parts.push(h('span', {class: 'prompt prose'}, this.prompt));
    }
    this.strip = this.#strip('Tokens of the answer', choice.tokens, this.compared);
    this.element.replaceChildren(...parts, this.strip.element);
  }

  #strip(label, tokens, compared = false) {
    return new TokenStrip({
      label, classOf: compared ? (_, index) => this.marked.has(index) ? 'differs' : '' : shadeOf, onLeave: hideAlternatives,
      onPick: (index, element) => tokens[index].logprob === null || showAlternatives(tokens[index], element),
    });
  }
}

function shadeLegend() {
  return h('p', {class: 'small muted row shades'}, 'Probability of each token:',
    ['90% or more', '50%', '20%', '5%', 'less'].map((text, i) =>
      h('span', {class: `token shade-${i}`}, text)),
    h('span', {class: 'forced-legend', hidden: true}, h('span', {class: 'token shade-0 forced'}, 'forced'),
      ' structured_outputs left no other token'),
    h('span', {}, 'Point at a token, or move with the arrow keys, for its alternatives.'));
}

export class AnswerView {
  // `prompt`: the text that a completion goes on from, null in a chat. `versions` is put beside the
  // buttons, or null. `onRegenerate`, `onContinue` and `onChange` (the user looks at it differently) are
  // callbacks; `onField(error)` gives what shows the field that an error names, or null. `compared`: it
  // stands beside another answer.
  constructor(api, answer, {prompt, versions, compared, onRegenerate, onContinue, onField, onChange}) {
    this.api = api;
    this.answer = answer;
    this.callbacks = {onRegenerate, onContinue, onField, onChange};
    this.body = new ChoiceBody(prompt, compared);
    this.pager = h('div', {class: 'row pager', hidden: true});
    this.legend = shadeLegend();
    this.problem = h('div');
    this.stats = h('p', {class: 'stats small muted number'});
    this.actions = h('div', {class: 'row actions'});
    this.element = h('article', {class: 'answer', 'aria-label': 'Answer'},
      this.pager, this.body.element, this.legend, this.problem,
      h('div', {class: 'foot'}, this.stats, h('div', {class: 'row foot-actions'}, versions, this.actions)));
    this.frame = 0;
    this.#buttons();
    this.update();
  }

  // As often as pieces come; the page is painted once a frame.
  changed() {
    if (this.answer.status !== 'running') {
      cancelAnimationFrame(this.frame);
      this.frame = 0;
      this.update();
    } else if (this.frame === 0) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.update();
      });
    }
  }

  // Marks these tokens, by their index.
  mark(marked) {
    this.body.mark(marked);
    this.update();
  }

  update() {
    const {answer} = this;
    const choice = answer.choices[answer.shown];
    const running = answer.status === 'running';
    const asTokens = Boolean(answer.asTokens) && choice.tokens.length > 0;
    this.body.update(answer, choice, asTokens);
    this.element.classList.toggle('running', running);
    this.element.classList.toggle('waiting', running && choice.text === '');
    this.body.element.hidden = choice.text === '' && !running && !asTokens;
    this.element.setAttribute('aria-busy', String(running));
    this.#updatePager();
    this.legend.hidden = !asTokens || this.body.compared;
    this.legend.querySelector('.forced-legend').hidden = !choice.tokens.some(({forced}) => forced);
    this.actions.hidden = running;
    this.tokens.hidden = choice.tokens.length === 0;
    this.tokens.setAttribute('aria-pressed', String(asTokens));
    this.why.hidden = this.answer.id === null;
    this.copy.hidden = choice.text === '';
    this.code.hidden = answer.request === null;
    this.goOn.hidden = !isCut(answer);
    this.stats.textContent = this.#statistics(choice, asTokens).join(' · ');
    if (answer.error && !this.problem.hasChildNodes()) {
      const {param} = answer.error;
      const fix = this.callbacks.onField(answer.error);
      this.problem.append(errorView(answer.error, fix
        ? [h('button', {type: 'button', class: 'plain', onclick: fix}, `Go to ${param}`)] : []));
    }
  }

  #statistics(choice, asTokens) {
    const {status, ttft, seconds, usage, waiting, goesOn, earlierTokens} = this.answer;
    if (waiting) return [waiting];
    const list = [];
    if (ttft !== null) list.push(`TTFT ${duration(ttft)}`);
    const tokens = usage?.completion_tokens ?? 0;
    const firsts = goesOn === null ? this.answer.choices.length : 1;  // which came with the first piece, and tell no speed
    if (usage && ttft !== null && tokens > firsts && seconds > ttft) {
      list.push(`${significant((tokens - firsts) / (seconds - ttft))} tokens/s`);
    }
    if (usage) {
      const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
      const earlier = earlierTokens > 0 ? ` after ${count(earlierTokens)}` : '';
      list.push(`${plural(tokens, 'token')}${earlier}, ${count(usage.prompt_tokens)} in${cached > 0 ? ` (${count(cached)} cached)` : ''}`);
    } else if (seconds !== null) {
      list.push(duration(seconds));
    }
    if (STATUS[status]) list.push(STATUS[status]);
    else if (choice.finish) list.push(FINISH[choice.finish] ?? choice.finish);
    if (asTokens && status !== 'running') {
      const known = choice.tokens.filter(({logprob}) => logprob !== null);
      const mean = known.reduce((sum, {logprob}) => sum + logprob, 0) / known.length;
      list.push(`mean probability ${percent(Math.exp(mean))}`);
      const forced = choice.tokens.filter((token) => token.forced).length;
      if (forced > 0) list.push(`${count(forced)} forced`);
    }
    return list;
  }

  #updatePager() {
    const {choices, shown} = this.answer;
    this.pager.hidden = choices.length < 2;
    if (choices.length < 2 || this.pager.children.length === choices.length) {
      [...this.pager.children].forEach((each, i) => each.setAttribute('aria-pressed', String(i === shown)));
      return;
    }
    this.pager.replaceChildren(...choices.map((_, i) => h('button', {
      type: 'button', class: 'quiet', 'aria-pressed': String(i === shown), 'aria-label': `Output ${i + 1} of ${choices.length}`,
      onclick: () => this.#showChoice(i),
    }, String(i + 1))));
  }

  #showChoice(index) {
    this.answer.shown = index;
    const body = new ChoiceBody(this.body.prompt, this.body.compared);
    this.body.element.replaceWith(body.element);
    this.body = body;
    this.update();
    this.callbacks.onChange();
  }

  #buttons() {
    const button = (text, onclick, title) => h('button', {type: 'button', class: 'quiet small', onclick, title}, text);
    this.tokens = button('Tokens', () => {
      this.answer.asTokens = !this.answer.asTokens;
      this.update();
      this.callbacks.onChange();
    }, 'Token by token, with probabilities');
    this.copy = button('Copy', () => copyText(this.answer.choices[this.answer.shown].text, this.copy));
    this.why = button('Why', () => showWhy(this.api, this.answer.id), 'Where its time went');
    this.code = button('Code', () => showCode(this.api, this.answer.request), 'This request as curl or Python');
    this.regenerate = button('Regenerate', () => this.callbacks.onRegenerate());
    this.goOn = button('Continue', () => this.callbacks.onContinue(), 'Go on where it was cut');
    this.actions.append(this.tokens, this.why, this.copy, this.code, this.regenerate, this.goOn);
  }
}

// Tokens in a row, as text that wraps: each can be pointed at, or reached by keyboard (one stop of
// Tab for all of them, then arrow keys, Home and End).
import {h} from './dom.js';

const BYTES = new TextDecoder('utf-8', {fatal: true});

// What is shown of a token. Line breaks are shown and also break the line; what is no text by itself
// (part of a character) is shown as its bytes.
export function shownText({text, bytes}) {
  if (typeof bytes === 'string') return `‹${bytes}›`;
  return text === '' ? '‹›' : text.replaceAll('\n', '↵\n');
}

// The bytes of the API's logprobs (numbers) as this module's tokens have them: text, or hexadecimal.
export function fromBytes(numbers) {
  try {
    return {text: BYTES.decode(new Uint8Array(numbers))};
  } catch {
    return {text: '', bytes: numbers.map((each) => each.toString(16).padStart(2, '0')).join(' ')};
  }
}

export class TokenStrip {
  // `classOf(token, index)` gives a token's further classes. `onPick(index, element)` is called with
  // the token that is pointed at or has the focus, `onLeave()` when none is any more.
  constructor({label, classOf, onPick, onLeave}) {
    this.tokens = [];
    this.classOf = classOf;
    this.element = h('div', {class: 'strip', role: 'group', 'aria-label': label});
    const indexOf = (target) => target.dataset?.index === undefined ? -1 : Number(target.dataset.index);
    const pick = (event) => {
      const index = indexOf(event.target);
      if (index >= 0) onPick(index, event.target);
    };
    this.element.addEventListener('pointerover', pick);
    this.element.addEventListener('focusin', (event) => {
      this.#makeStop(event.target);
      pick(event);
    });
    this.element.addEventListener('pointerleave', onLeave);
    this.element.addEventListener('focusout', onLeave);
    this.element.addEventListener('keydown', (event) => this.#move(event, indexOf(event.target), onLeave));
  }

  append(tokens) {
    const first = this.tokens.length;
    const elements = tokens.map((token, i) => h('span', {
      class: `token ${this.classOf(token, first + i)}`, 'data-index': String(first + i),
      tabIndex: first + i === 0 ? 0 : -1,
    }, shownText(token), token.forced ? h('span', {class: 'unseen'}, ' (forced)') : ''));
    this.tokens.push(...tokens);
    this.element.append(...elements);
  }

  #makeStop(element) {
    const before = this.element.querySelector('[tabindex="0"]');
    if (before) before.tabIndex = -1;
    element.tabIndex = 0;
  }

  #move(event, index, onLeave) {
    if (index < 0) return;
    if (event.key === 'Escape') {
      event.stopPropagation();
      onLeave();
      return;
    }
    const last = this.tokens.length - 1;
    const next = {ArrowLeft: index - 1, ArrowUp: index - 1, ArrowRight: index + 1, ArrowDown: index + 1, Home: 0, End: last}[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.element.children[Math.min(Math.max(next, 0), last)].focus();
  }
}

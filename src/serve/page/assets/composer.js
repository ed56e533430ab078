// Where a message is written and sent, or the answer to it stopped.
import {Attachments} from './attachments.js';
import {h, icon} from './dom.js';

const TEXTS = {
  chat: {label: 'Message', placeholder: 'Write a message'},
  completion: {label: 'Text to go on from', placeholder: 'Write the beginning of a text'},
};

export class Composer {
  // `onSend()`, `onStop()`, `onProblem(error)` for a file that cannot be taken.
  constructor({onSend, onStop, onProblem}) {
    this.attachments = new Attachments({onChange: () => this.input.focus(), onProblem});
    this.input = h('textarea', {id: 'prompt', rows: 1, autocomplete: 'off', oninput: () => this.#fit()});
    this.label = h('label', {for: 'prompt', class: 'unseen'});
    this.sendButton = h('button', {type: 'submit', class: 'primary icon', title: 'Send (Enter)', 'aria-label': 'Send'}, icon('send'));
    this.stopButton = h('button', {
      type: 'button', class: 'primary icon', title: 'Stop (Escape)', 'aria-label': 'Stop', hidden: true, onclick: onStop,
    }, icon('stop'));
    this.input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      onSend();
    });
    const {attachments} = this;
    this.element = h('form', {
      class: 'composer',
      onsubmit: (event) => {
        event.preventDefault();
        onSend();
      },
    }, h('div', {class: 'box'}, attachments.element,
      h('div', {class: 'entry'}, attachments.button, attachments.input, this.label, this.input, this.sendButton, this.stopButton)),
    h('p', {class: 'hint small muted'}, h('kbd', {}, 'Enter'), ' sends, ', h('kbd', {}, 'Shift Enter'), ' breaks the line, ',
      h('kbd', {}, 'Esc'), ' stops'));
  }

  setMode(mode) {
    this.label.textContent = TEXTS[mode].label;
    this.input.placeholder = TEXTS[mode].placeholder;
  }

  // What is written: {text, files}, or null where that is nothing.
  read() {
    const text = this.input.value;
    const {files} = this.attachments;
    return text.trim() === '' && files.length === 0 ? null : {text, files};
  }

  write(text) {
    this.input.value = text;
    this.#fit();
  }

  clear() {
    this.write('');
    this.attachments.clear();
  }

  showRunning(running) {
    const focused = document.activeElement === this.stopButton;
    this.sendButton.hidden = running;
    this.stopButton.hidden = !running;
    if (focused && !running) this.input.focus();
  }

  // As high as its text, up to what CSS allows.
  #fit() {
    this.input.style.height = 'auto';
    this.input.style.height = `${this.input.scrollHeight + 2}px`;
  }
}

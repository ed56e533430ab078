// The conversation as it is shown: each message of the user with its answer below, and what can be done
// with them.
import {hideAlternatives} from './alternatives.js';
import {AnswerView} from './answer_view.js';
import {fileList} from './attachments.js';
import {copyText} from './clipboard.js';
import {h, icon} from './dom.js';
import {differing} from './token_diff.js';

const MESSAGE = 'the message';
const ANSWER = 'the answer';

export class Transcript {
  // `actions`: onResend(message, text), onChoose(message, step), onRegenerate(answer), onContinue(answer),
  // onField(error), onChange(message) where the user looks at it differently.
  constructor(api, actions) {
    this.api = api;
    this.actions = actions;
    this.element = h('div', {class: 'talk', role: 'log', 'aria-label': 'Conversation', 'aria-live': 'off'});
    this.views = new Map();  // by the id of the answer
    this.notes = new Map();  // by the id of a pair: where it says how its answers differ
    this.turns = [];         // {key, element}, as they are shown
  }

  // What is shown already stays, up to the answer `anew`, whose view is made again.
  show(conversation, anew = null) {
    hideAlternatives();  // the token may go, or another turn come to where they lie
    if (conversation !== this.conversation) this.turns = [];
    this.conversation = conversation;
    const path = conversation.path();
    const turns = [];
    for (let i = 0; i < path.length; i += 2) turns.push({message: path[i], answer: path[i + 1], key: `${path[i].id}/${path[i + 1]?.id}`});
    const changed = turns.findIndex(({key, answer}, i) => key !== this.turns[i]?.key || (anew && answer === anew));
    const kept = changed < 0 ? turns.length : changed;
    this.turns = [...this.turns.slice(0, kept), ...turns.slice(kept).map((each) => ({key: each.key, element: this.#turn(each)}))];
    const shown = new Set(turns.flatMap(({answer}) => answer ? conversation.compared(answer).map(({id}) => id) : []));
    for (const id of this.views.keys()) if (!shown.has(id)) this.views.delete(id);
    while (this.element.children.length > kept) this.element.lastElementChild.remove();
    this.element.append(...this.turns.slice(kept).map(({element}) => element));
  }

  // What shows an answer, or undefined where it is not in view.
  viewOf(message) {
    return this.views.get(message.id);
  }

  // After another version was chosen: its arrows have the focus as those of the last one had.
  focusVersions(message, step) {
    const arrows = [...this.element.querySelectorAll(`[data-versions="${message.id}"] button`)];
    const enabled = (arrow) => arrow && !arrow.disabled;
    const wanted = arrows[step < 0 ? 0 : 1];
    (enabled(wanted) ? wanted : arrows.find(enabled))?.focus({preventScroll: true});
  }

  #turn({message, answer}) {
    const answers = answer ? this.conversation.compared(answer) : [];
    const shown = answers.length > 1 ? this.#comparison(message, answer, answers) : answers.map((each) => this.#answer(message, each, this.#versions(each, ANSWER)));
    return h('div', {class: 'turn'}, this.#message(message), shown);
  }

  // Answers side by side; the conversation goes on from the one that is chosen.
  #comparison(message, chosen, answers) {
    const side = (each) => h('section', {class: each === chosen ? 'side-of chosen' : 'side-of', 'aria-label': `Side ${each.pair.side}`},
      h('div', {class: 'row side-head'}, h('strong', {}, each.pair.side),
        h('span', {class: 'small muted grow side-label', title: each.pair.label}, each.pair.label),
        h('button', {
          type: 'button', class: 'quiet small', 'aria-pressed': String(each === chosen), title: 'What is said next follows this answer',
          onclick: () => this.actions.onChoose(each, 0),
        }, each === chosen ? 'Goes on here' : 'Go on here')),
      this.#answer(message, each, null));
    const seed = chosen.answer.request?.body.seed;
    const note = h('span', {role: 'status'});
    this.notes.set(chosen.pair.id, note);
    const element = h('div', {class: 'comparison'},
      h('div', {class: 'row'}, h('span', {class: 'small muted grow number'}, seed === undefined ? '' : `Seed ${seed}. `, note), this.#versions(chosen, ANSWER)),
      h('div', {class: 'sides-of'}, answers.map(side)));
    this.#mark(answers);
    return element;
  }

  // To be called when an answer has got more: its view follows, and that of the one beside it.
  changed(message) {
    this.viewOf(message)?.changed();
    if (message.pair && message.answer.status !== 'running') this.#mark(this.conversation.compared(message));
  }

  // Marks what two complete answers have not in common.
  #mark(answers) {
    if (answers.length !== 2 || answers.some(({answer}) => answer.status === 'running')) return;
    const [a, b] = answers.map(({answer}) => answer.choices[answer.shown].tokens);
    const marked = differing(a, b);
    marked.forEach((each, i) => this.viewOf(answers[i])?.mark(each));
    const note = this.notes.get(answers[0].pair.id);
    if (note) note.textContent = marked.some(({size}) => size > 0) ? 'Marked: what the other answer does not say.' : 'Both say the same.';
  }

  #answer(message, answer, versions) {
    const {actions} = this;
    const view = new AnswerView(this.api, answer.answer, {
      prompt: this.conversation.mode === 'chat' ? null : message.text,
      versions, compared: answer.pair !== null,
      onRegenerate: () => actions.onRegenerate(answer),
      onContinue: () => actions.onContinue(answer),
      onField: actions.onField,
      onChange: () => actions.onChange(answer),
    });
    this.views.set(answer.id, view);
    return view.element;
  }

  // "‹ 2/3 ›", or null where there is one version only.
  #versions(message, what) {
    const versions = this.conversation.versions(message);
    if (versions.length < 2) return null;
    const at = versions.indexOf(message);
    const arrow = (step, name, label) => h('button', {
      type: 'button', class: 'quiet icon', 'aria-label': `${label} version of ${what}`, title: `${label} version`,
      disabled: !versions[at + step], onclick: () => this.actions.onChoose(versions[at + step], step),
    }, icon(name));
    return h('span', {class: 'versions', role: 'group', 'aria-label': `Versions of ${what}`, 'data-versions': message.id},
      arrow(-1, 'left', 'Previous'), h('span', {class: 'number small muted'}, `${at + 1}/${versions.length}`), arrow(1, 'right', 'Next'));
  }

  #message(message) {
    const chat = this.conversation.mode === 'chat';
    const copy = h('button', {type: 'button', class: 'quiet small', onclick: () => copyText(message.text, copy)}, 'Copy');
    const edit = h('button', {
      type: 'button', class: 'quiet small', title: 'Change it and send it again; this version stays', onclick: () => this.#edit(message, box),
    }, 'Edit');
    const box = h('div', {class: chat ? 'message' : 'message bare'},
      message.files.length > 0 ? fileList(message.files) : null,
      chat && message.text !== '' ? h('div', {class: 'bubble'}, h('span', {class: 'unseen'}, 'You: '), h('div', {class: 'prose'}, message.text)) : null,
      h('div', {class: 'row message-actions'}, h('span', {class: 'row on-demand'}, copy, edit), this.#versions(message, MESSAGE)));
    return box;
  }

  // The message as a field, until it is sent again or left as it is.
  #edit(message, box) {
    const fit = () => {
      input.style.height = 'auto';
      input.style.height = `${input.scrollHeight + 2}px`;
    };
    const cancel = () => {
      form.replaceWith(box);
      box.querySelector('.on-demand button:last-child').focus();
    };
    const send = () => {
      if (input.value.trim() === '' && message.files.length === 0) return;
      if (!this.actions.onResend(message, input.value)) input.focus();
    };
    const input = h('textarea', {
      rows: 1, 'aria-label': 'Another version', value: message.text, oninput: fit,
      onkeydown: (event) => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          cancel();
        } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          send();
        }
      },
    });
    const form = h('form', {
      class: 'message editing',
      onsubmit: (event) => {
        event.preventDefault();
        send();
      },
    }, input, h('div', {class: 'row end'},
      h('button', {type: 'button', class: 'quiet', onclick: cancel}, 'Cancel'), h('button', {type: 'submit', class: 'primary'}, 'Send again')));
    box.replaceWith(form);
    fit();
    input.focus();
    input.setSelectionRange(input.value.length, input.value.length);
  }
}

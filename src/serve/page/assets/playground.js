// The playground: chat with the model, or let it go on from a text. What was said stays in this
// browser tab across a reload; an answer that runs at that moment is aborted by the server and
// marked as cut off.
import {AnswerView} from './answer_view.js';
import {h, icon} from './dom.js';
import {errorView} from './error_view.js';
import {makeRequest, newAnswer, run} from './generation.js';
import {Parameters} from './parameters.js';
import {load, saver} from './store.js';

const EXAMPLES = {
  chat: ['What is the capital of Japan?', 'Explain gravity to a child in three sentences.', 'Write a Python function that reverses a list.'],
  completion: ['Once upon a time', 'The three primary colours are', 'def fibonacci(n):\n'],
};
const MODES = [['chat', 'Chat'], ['completion', 'Completion']];
const TEXTS = {
  chat: {heading: 'Talk to the model', label: 'Message', placeholder: 'Write a message'},
  completion: {heading: 'Let the model go on', label: 'Text to go on from', placeholder: 'Write the beginning of a text'},
};

class Playground {
  constructor(root, api) {
    this.api = api;
    this.model = api.info.model.served_names[0];
    const canChat = api.info.model.chat_template;
    this.state = load() ?? {mode: canChat ? 'chat' : 'completion', system: '', turns: {chat: [], completion: []}, texts: undefined};
    if (!canChat) this.state.mode = 'completion';
    this.save = saver(() => this.state);
    this.running = null;  // what aborts the answer that is being generated
    this.parameters = new Parameters(api.info, this.state.texts, () => {
      this.state.texts = this.parameters.texts();
      this.save();
    });
    this.#build(root, canChat);
    this.#showMode();
  }

  #build(root, canChat) {
    this.talk = h('div', {class: 'talk', role: 'log', 'aria-label': 'Conversation', 'aria-live': 'off'});
    this.modeButtons = MODES.map(([mode, title]) => h('button', {
      type: 'button', 'data-mode': mode, disabled: mode === 'chat' && !canChat, onclick: () => this.#setMode(mode),
      title: mode === 'chat' && !canChat ? 'The model has no chat template' : null,
    }, title));
    this.clearButton = h('button', {type: 'button', class: 'quiet small', onclick: () => this.#clear()}, 'Clear');
    this.panelButton = h('button', {
      type: 'button', class: 'quiet icon panel-button', 'aria-label': 'Parameters', 'aria-controls': 'parameters', title: 'Parameters',
      onclick: () => this.#togglePanel(),
    }, icon('sliders'));
    this.system = h('textarea', {
      id: 'system-prompt', rows: 3, placeholder: "The template's own, if it has one", value: this.state.system,
      oninput: () => {
        this.state.system = this.system.value;
        this.save();
      },
    });
    this.systemBox = h('div', {class: 'field wide'}, h('label', {for: 'system-prompt', class: 'name'}, 'System prompt'), this.system);
    this.closeButton = h('button', {
      type: 'button', class: 'quiet icon', 'aria-label': 'Close', title: 'Close (Escape)', onclick: () => this.#togglePanel(),
    }, icon('close'));
    this.panel = h('aside', {class: 'aside', id: 'parameters', 'aria-label': 'Parameters'},
      h('div', {class: 'row end closing'}, this.closeButton), this.systemBox, this.parameters.element);
    this.problem = h('div', {class: 'problem'});
    // For screen readers: an answer as a whole, not piece by piece.
    this.spoken = h('p', {class: 'unseen', role: 'status', 'aria-label': 'Last answer'});
    root.classList.add('playground');
    root.append(
      h('div', {class: 'column'},
        h('h1', {class: 'unseen'}, 'Playground'),
        h('div', {class: 'tools row'}, h('div', {class: 'segments', role: 'group', 'aria-label': 'Kind of request'}, this.modeButtons),
          h('span', {class: 'grow'}), this.clearButton, this.panelButton),
        this.talk, this.spoken, this.problem, this.#composer()),
      this.panel);
    document.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || root.hidden || document.querySelector('dialog[open]')) return;
      if (this.panel.classList.contains('open')) this.#togglePanel();
      else this.stop();
    });
  }

  #composer() {
    this.input = h('textarea', {id: 'prompt', rows: 1, autocomplete: 'off', oninput: () => this.#fit()});
    this.inputLabel = h('label', {for: 'prompt', class: 'unseen'});
    this.sendButton = h('button', {type: 'submit', class: 'primary icon', title: 'Send (Enter)', 'aria-label': 'Send'}, icon('send'));
    this.stopButton = h('button', {
      type: 'button', class: 'primary icon', title: 'Stop (Escape)', 'aria-label': 'Stop', hidden: true, onclick: () => this.stop(),
    }, icon('stop'));
    this.input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    return h('form', {
      class: 'composer',
      onsubmit: (event) => {
        event.preventDefault();
        this.#send();
      },
    }, h('div', {class: 'box'}, this.inputLabel, this.input, this.sendButton, this.stopButton),
    h('p', {class: 'hint small muted'}, h('kbd', {}, 'Enter'), ' sends, ', h('kbd', {}, 'Shift Enter'), ' breaks the line, ',
      h('kbd', {}, 'Esc'), ' stops'));
  }

  get turns() {
    return this.state.turns[this.state.mode];
  }

  #setMode(mode) {
    this.stop();
    this.state.mode = mode;
    this.save();
    this.#showMode();
    this.input.focus();
  }

  #showMode() {
    const {mode} = this.state;
    for (const each of this.modeButtons) each.setAttribute('aria-pressed', String(each.dataset.mode === mode));
    this.systemBox.hidden = mode !== 'chat';
    this.parameters.showDefault('max_tokens', mode === 'chat' ? 'what fits' : '16');
    this.inputLabel.textContent = TEXTS[mode].label;
    this.input.placeholder = TEXTS[mode].placeholder;
    this.problem.replaceChildren();
    this.#showTurns();
  }

  #showTurns() {
    this.views = [];
    this.talk.replaceChildren();
    if (this.turns.length === 0) this.talk.append(this.#welcome());
    for (const turn of this.turns) this.#showTurn(turn);
    this.#markLast();
    this.#scroll(true);
  }

  #welcome() {
    const {mode} = this.state;
    return h('div', {class: 'welcome'},
      h('h2', {}, TEXTS[mode].heading),
      h('p', {class: 'muted'}, `${this.api.info.model.name.split('/').filter(Boolean).at(-1)} answers. What you write goes to this server and nowhere else.`),
      h('div', {class: 'examples'}, EXAMPLES[mode].map((text) => h('button', {
        type: 'button', class: 'plain',
        onclick: () => {
          this.input.value = text;
          this.#send();
        },
      }, text.trimEnd()))));
  }

  #showTurn(turn) {
    const chat = this.state.mode === 'chat';
    const index = this.turns.indexOf(turn);
    const edit = h('button', {type: 'button', class: 'quiet small', title: 'Take it back and change it', onclick: () => this.#edit(turn)}, 'Edit');
    const view = new AnswerView(this.api, turn.answer, {
      prompt: chat ? null : turn.prompt,
      onRegenerate: () => this.#generate(turn),
      onField: (name) => this.parameters.has(name) ? () => this.#showField(name) : null,
      onChange: () => this.save(),
    });
    this.views[index] = view;
    this.talk.append(h('div', {class: 'turn'},
      chat ? h('div', {class: 'message'}, h('span', {class: 'unseen'}, 'You: '), h('div', {class: 'prose'}, turn.prompt), edit) : null,
      view.element));
    return view;
  }

  #markLast() {
    this.views.forEach((view, i) => view.setLast(this.state.mode === 'completion' || i === this.turns.length - 1));
    this.clearButton.hidden = this.turns.length === 0;
  }

  #send() {
    const prompt = this.input.value;
    if (prompt.trim() === '' || this.running) return;
    const turn = {prompt, answer: null};
    if (this.#prepare(turn, this.turns) === null) return;
    this.input.value = '';
    this.#fit();
    if (this.turns.length === 0) this.talk.replaceChildren();
    this.turns.push(turn);
    this.#start(turn, this.#showTurn(turn));
  }

  // Once more, with the parameters as they now are.
  #generate(turn) {
    if (this.running || this.#prepare(turn, this.turns.slice(0, this.turns.indexOf(turn))) === null) return;
    this.#showTurns();
    this.#start(turn, this.views[this.turns.indexOf(turn)]);
  }

  // Gives the turn a new answer, or shows what is wrong and returns null.
  #prepare(turn, before) {
    this.problem.replaceChildren();
    let values;
    try {
      values = this.parameters.values();
    } catch (error) {
      this.problem.append(errorView(error));
      this.#showField(error.param);
      return null;
    }
    const {mode, system} = this.state;
    const input = mode === 'chat' ? {messages: messagesOf(system, before, turn.prompt)} : {prompt: turn.prompt};
    const asTokens = turn.answer?.asTokens ?? before.at(-1)?.answer.asTokens ?? false;
    turn.answer = {...newAnswer(makeRequest(mode, this.model, input, values, this.parameters.own())), asTokens};
    return turn.answer;
  }

  async #start(turn, view) {
    const abort = new AbortController();
    this.running = abort;
    this.#markLast();
    this.#showRunning();
    this.#scroll(true);
    await run(this.api, turn.answer, {
      signal: abort.signal,
      onChange: () => {
        view.changed();
        this.#scroll(false);
        this.save();
      },
    });
    this.running = null;
    this.spoken.textContent = turn.answer.choices[turn.answer.shown].text;
    this.#showRunning();
    this.#scroll(false);
  }

  stop() {
    this.running?.abort();
  }

  #showRunning() {
    const running = this.running !== null;
    const focused = document.activeElement === this.stopButton;
    this.sendButton.hidden = running;
    this.stopButton.hidden = !running;
    if (focused && !running) this.input.focus();
  }

  #edit(turn) {
    this.stop();
    this.turns.splice(this.turns.indexOf(turn));
    this.save();
    this.#showTurns();
    this.input.value = turn.prompt;
    this.#fit();
    this.input.focus();
  }

  #clear() {
    this.stop();
    this.turns.length = 0;
    this.save();
    this.#showMode();
    this.input.focus();
  }

  #showField(name) {
    if (!this.panel.checkVisibility()) this.#togglePanel();
    this.parameters.focus(name);
  }

  // On narrow windows, where the panel lies over the conversation.
  #togglePanel() {
    const open = this.panel.classList.toggle('open');
    this.panelButton.setAttribute('aria-expanded', String(open));
    (open ? this.closeButton : this.panelButton).focus();
  }

  // As high as its text, up to what CSS allows.
  #fit() {
    this.input.style.height = 'auto';
    this.input.style.height = `${this.input.scrollHeight + 2}px`;
  }

  // To the end; while an answer grows only if the end was in view.
  #scroll(always) {
    const page = document.scrollingElement;
    const nearEnd = page.scrollHeight - page.scrollTop - innerHeight < 120;
    if (always || nearEnd) requestAnimationFrame(() => page.scrollTo(0, page.scrollHeight));
  }
}

// What the model is told: turns that came to nothing are left out.
function messagesOf(system, turns, prompt) {
  const messages = system.trim() === '' ? [] : [{role: 'system', content: system}];
  for (const turn of turns) {
    const {text} = turn.answer.choices[turn.answer.shown];
    if (text === '') continue;
    messages.push({role: 'user', content: turn.prompt}, {role: 'assistant', content: text});
  }
  return [...messages, {role: 'user', content: prompt}];
}

export function mount(root, api) {
  const playground = new Playground(root, api);
  if (document.activeElement === document.body) playground.input.focus({preventScroll: true});
}

// The playground: chat with the model, or let it go on from a text. Conversations are kept in this browser;
// an answer that runs when the page goes away is aborted by the server and marked as cut off.
import {Composer} from './composer.js';
import {Conversation, messagesUpTo, newId, promptOf, textOf} from './conversation.js';
import {Database} from './database.js';
import {h, icon, notify} from './dom.js';
import {errorView} from './error_view.js';
import {goOn, makeRequest, newAnswer, run} from './generation.js';
import {Drawer} from './overlay.js';
import {Presets} from './presets.js';
import * as session from './session.js';
import {Settings} from './settings.js';
import {Shelf} from './shelf.js';
import {Transcript} from './transcript.js';
import {welcome} from './welcome.js';

const MODES = [['chat', 'Chat'], ['completion', 'Completion']];
// A completion has no end of its own as a turn of a chat has, and the server's default is a line.
const COMPLETION_TOKENS = 128;

class Playground {
  // `database` is null where the browser keeps nothing.
  constructor(root, api, database) {
    this.api = api;
    this.root = root;
    const canChat = api.info.model.chat_template;
    this.state = session.load() ?? {open: null, mode: 'chat', system: '', settings: undefined};
    if (!canChat) this.state.mode = 'completion';
    this.running = null;  // {abort, over} of what is being generated
    this.settings = new Settings(api.info, this.state.settings, () => this.#remember({settings: this.settings.save()}));
    this.conversation = this.#newConversation();
    this.shelf = new Shelf(database, {
      current: () => this.conversation, show: (conversation) => this.show(conversation), problem: (error) => this.#problem(error),
    });
    this.presets = new Presets(database, {
      read: () => ({system: this.system.value, texts: this.settings.parameters.texts()}),
      apply: ({system, texts}) => {
        this.settings.parameters.write(texts);
        this.system.value = system;
        this.#setSystem(system);
      },
      onProblem: (error) => this.#problem(error),
    });
    this.#build(canChat);
  }

  // Shows what was open. Nothing is there before that: what a user did meanwhile would be undone by it.
  async start() {
    const [conversation] = await Promise.all([this.shelf.start(this.state.open), this.presets.load()]);
    this.root.append(...this.parts);
    await this.show(conversation, {focus: false});
  }

  #build(canChat) {
    this.transcript = new Transcript(this.api, {
      onResend: (message, text) => this.#ask({...message, id: newId(), text}),
      onChoose: (message, step) => this.#choose(message, step),
      onRegenerate: (answer) => this.#regenerate(answer),
      onContinue: (answer) => this.#continue(answer),
      onField: (error) => this.settings.parameters.has(error.param) ? () => this.#showField(error) : null,
      onChange: (answer) => this.shelf.changed(this.conversation, answer),
    });
    this.modeButtons = MODES.map(([mode, title]) => h('button', {
      type: 'button', 'data-mode': mode, disabled: mode === 'chat' && !canChat, onclick: () => this.#setMode(mode),
      title: mode === 'chat' && !canChat ? 'The model has no chat template' : null,
    }, title));
    const opener = (name, label, controls) => h('button', {
      type: 'button', class: `quiet icon open-${controls}`, 'aria-label': label, 'aria-controls': controls, 'aria-expanded': 'false', title: label,
    }, icon(name));
    const listButton = opener('list', 'Conversations', 'history');
    const panelButton = opener('sliders', 'Parameters', 'parameters');
    this.system = h('textarea', {
      id: 'system-prompt', rows: 3, placeholder: "The template's own, if it has one", oninput: () => this.#setSystem(this.system.value),
    });
    this.systemBox = h('div', {class: 'field wide'}, h('label', {for: 'system-prompt', class: 'name'}, 'System prompt'), this.system);
    const closeButton = h('button', {type: 'button', class: 'quiet icon', 'aria-label': 'Close', title: 'Close (Escape)'}, icon('close'));
    const panel = h('aside', {class: 'aside', id: 'parameters', 'aria-label': 'Parameters'},
      h('div', {class: 'row end closing'}, closeButton), this.presets.element, this.systemBox, this.settings.element);
    this.list = new Drawer(this.shelf.list.element, listButton, this.shelf.list.closeButton);
    this.panel = new Drawer(panel, panelButton, closeButton);
    this.problem = h('div', {class: 'problem'});
    this.heading = h('h1', {class: 'unseen'});
    // For screen readers: an answer as a whole, not piece by piece.
    this.spoken = h('p', {class: 'unseen', role: 'status', 'aria-label': 'Last answer'});
    this.composer = new Composer({onSend: () => this.#send(), onStop: () => this.stop(), onProblem: (error) => this.#problem(error)});
    const column = h('div', {class: 'column'}, this.heading,
      h('div', {class: 'tools row'}, listButton,
        h('div', {class: 'segments', role: 'group', 'aria-label': 'Kind of request'}, this.modeButtons),
        h('span', {class: 'grow'}), this.settings.switch, panelButton),
      this.transcript.element, this.spoken, this.problem, this.composer.element);
    this.composer.attachments.listen(column);
    this.root.classList.add('playground');
    this.parts = [this.shelf.list.element, column, panel];
    this.atEnd = true;
    document.addEventListener('scroll', () => this.#noteEnd(), {passive: true});
    document.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || this.root.hidden || document.querySelector('dialog[open], :popover-open')) return;
      if (this.list.open) this.list.close();
      else if (this.panel.open) this.panel.close();
      else this.stop();
    });
  }

  #remember(change) {
    Object.assign(this.state, change);
    session.save(this.state);
  }

  #newConversation(mode = this.state.mode) {
    return new Conversation({mode, system: this.state.system});
  }

  // Opens a conversation, or a new one. Whatever runs is stopped first.
  async show(conversation, {focus = true} = {}) {
    await this.stop();
    this.conversation = conversation ?? this.#newConversation();
    const {id, mode, system} = this.conversation;
    this.#remember({open: id, mode, system});
    this.system.value = system;
    this.#showMode();
    this.#showTurns();
    this.shelf.refresh();
    this.list.close();
    this.#scroll(true);
    if (focus) this.composer.input.focus({preventScroll: true});
  }

  // A conversation that has begun keeps its kind.
  #setMode(mode) {
    if (mode === this.conversation.mode) return;
    this.state.mode = mode;
    this.show(null);
  }

  #setSystem(system) {
    this.conversation.system = system;
    this.#remember({system});
    this.shelf.changed(this.conversation);
  }

  #showMode() {
    const {mode} = this.conversation;
    for (const each of this.modeButtons) each.setAttribute('aria-pressed', String(each.dataset.mode === mode));
    this.systemBox.hidden = mode !== 'chat';
    if (mode === 'chat') this.settings.setDefault('max_tokens', 'what fits', '');
    else this.settings.setDefault('max_tokens', '16', String(Math.min(COMPLETION_TOKENS, this.api.info.engine.max_model_len >> 1)));
    this.composer.setMode(mode);
    this.problem.replaceChildren();
  }

  // `anew` is an answer whose view is to be made again.
  #showTurns(anew = null) {
    this.transcript.show(this.conversation, anew);
    this.heading.textContent = this.conversation.name;
    this.heading.hidden = this.conversation.empty;  // the welcome has its own
    if (!this.conversation.empty) return;
    this.transcript.element.append(welcome(this.conversation.mode, this.api.info.model.name, (text) => {
      this.composer.write(text);
      this.#send();
    }));
  }

  #problem(error) {
    this.problem.append(errorView(error));
    this.#scroll(true);  // else the field to write in may lie over it
  }

  #isFree() {
    if (this.running) notify('An answer is being written; stop it first');
    return this.running === null;
  }

  #send() {
    const written = this.composer.read();
    if (written === null || this.running) return;
    const parent = this.conversation.path().at(-1)?.id ?? '';
    if (this.#ask({id: newId(), parent, role: 'user', ...written})) this.composer.clear();
  }

  // Adds a message and has it answered; false where that could not be.
  #ask(message) {
    if (!this.#isFree()) return false;
    const answers = this.#newAnswers(message);
    if (answers === null) return false;
    this.conversation.add(message);
    this.shelf.changed(this.conversation, message);
    this.#answer(answers);
    return true;
  }

  // Once more, with the parameters as they now are; the answers so far stay as versions.
  #regenerate({parent}) {
    if (!this.#isFree()) return;
    const answers = this.#newAnswers(this.conversation.messages.get(parent));
    if (answers !== null) this.#answer(answers);
  }

  #answer(answers) {
    for (const each of answers) this.conversation.add(each);
    this.conversation.choose(answers[0]);
    this.#run(answers);
  }

  // On from where an answer was cut.
  #continue(answer) {
    if (!this.#isFree()) return;
    const wanted = this.#read(() => this.settings.wantedOf(answer.pair?.side));
    if (wanted === null) return;
    const {n, prompt_logprobs: _, ...values} = wanted.values;  // there is one output, and its prompt is known
    const message = this.conversation.messages.get(answer.parent);
    const text = textOf(answer);
    const input = this.conversation.mode === 'chat'
      ? {messages: [...messagesUpTo(this.conversation, message), {role: 'assistant', content: text}],
         add_generation_prompt: false, continue_final_message: true}
      : {prompt: promptOf(message) + text};
    goOn(answer.answer, makeRequest(this.conversation.mode, wanted.model, input, values, wanted.own));
    this.#run([answer], answer);
  }

  // What the settings say, or null where a parameter is wrong, which is shown.
  #read(what) {
    this.problem.replaceChildren();
    try {
      return what();
    } catch (error) {
      this.#problem(error);
      this.#showField(error);
      return null;
    }
  }

  // An answer to a message, or two that are compared, not begun; null where a parameter is wrong.
  #newAnswers(message) {
    const wanted = this.#read(() => this.settings.wanted());
    if (wanted === null) return null;
    const {mode} = this.conversation;
    const input = mode === 'chat' ? {messages: messagesUpTo(this.conversation, message)} : {prompt: promptOf(message)};
    const last = this.conversation.path().findLast(({role}) => role === 'assistant');
    const pairId = wanted.length > 1 ? newId() : null;
    return wanted.map(({side, label, model, values, own}) => {
      const asTokens = pairId !== null || (last?.answer.asTokens && !last.pair);
      const answer = {...newAnswer(makeRequest(mode, model, input, values, own)), asTokens: Boolean(asTokens)};
      return {id: newId(), parent: message.id, role: 'assistant', answer, pair: pairId && {id: pairId, side, label}};
    });
  }

  async #run(answers, anew = null) {
    const {conversation} = this;
    const abort = new AbortController();
    const over = Promise.all(answers.map((each) => run(this.api, each.answer, {
      signal: abort.signal,
      onChange: () => {
        this.transcript.changed(each);
        this.#scroll(false);
        this.shelf.changed(conversation, each);
      },
    })));
    this.running = {abort, over};
    this.#showTurns(anew);
    this.composer.showRunning(true);
    this.#scroll(anew === null);
    await over;
    this.running = null;
    this.spoken.textContent = answers.map((each) => (each.pair ? `${each.pair.side}: ` : '') + textOf(each)).join('\n');
    this.composer.showRunning(false);
    this.#scroll(false);
  }

  // Ends what runs; resolves when it has ended.
  async stop() {
    this.running?.abort.abort();
    await this.running?.over;
  }

  // Another version of a message, with all that was said after it.
  #choose(message, step) {
    const {scrollTop} = document.scrollingElement;
    this.conversation.choose(message);
    this.#showTurns();
    this.shelf.changed(this.conversation);
    document.scrollingElement.scrollTop = scrollTop;
    this.transcript.focusVersions(message, step);
  }

  #showField(error) {
    this.panel.show();
    this.settings.focus(error);
  }

  // To the end; while an answer grows only if the end was in view when somebody last scrolled, for a
  // piece of an answer may be higher than the window.
  #scroll(always) {
    const page = document.scrollingElement;
    if (always || this.atEnd) requestAnimationFrame(() => page.scrollTo(0, page.scrollHeight));
  }

  #noteEnd() {
    const page = document.scrollingElement;
    this.atEnd = page.scrollHeight - page.scrollTop - innerHeight < 120;
  }
}

const PATIENCE_MS = 20_000;  // a browser that has much to do takes its time

// Null where the browser keeps nothing for the page, or does not say in time.
async function openDatabase() {
  const late = new Promise((resolve) => { setTimeout(() => resolve(null), PATIENCE_MS); });
  try {
    return await Promise.race([Database.open(), late]);
  } catch {
    return null;
  }
}

export async function mount(root, api) {
  const playground = new Playground(root, api, await openDatabase());
  await playground.start();
  if (document.activeElement === document.body) playground.composer.input.focus({preventScroll: true});
}

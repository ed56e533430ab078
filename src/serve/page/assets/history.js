// All conversations: the list of them, and each one's way into the browser's database. Where the browser
// keeps nothing they last as long as the page.
import {Conversation, newId} from './conversation.js';

const DELAY_MS = 1000;

const summary = (conversation) => ({...conversation.head(), text: conversation.text()});

export class History {
  // `database` may be null. `onChange` is called when the list is another, `onProblem(error)` when the
  // browser could not keep something.
  constructor(database, {onChange, onProblem}) {
    this.database = database;
    this.callbacks = {onChange, onProblem};
    this.heads = new Map();
    this.whole = new Map();  // without a database: the conversations themselves
    this.unsaved = new Map();  // conversation: its messages that changed
    this.timer = 0;
    this.gone = false;
    this.channel = new BroadcastChannel('quire-conversations');
    this.channel.onmessage = () => this.load();
    window.addEventListener('pagehide', () => {
      this.save();
      this.gone = true;
    });
    window.addEventListener('pageshow', () => { this.gone = false; });
    document.addEventListener('visibilitychange', () => document.hidden && this.save());
  }

  // Reads the list anew: at the beginning, and when another tab has changed it.
  async load() {
    if (!this.database) return;
    const heads = await this.database.all('conversations');
    this.heads = new Map(heads.map((each) => [each.id, each]));
    this.callbacks.onChange();
  }

  // The latest first; with a text, those that say it.
  list(query = '') {
    const words = query.toLowerCase().split(/\s+/).filter((each) => each !== '');
    const says = ({name, text}) => {
      const all = `${name}\n${text}`.toLowerCase();
      return words.every((word) => all.includes(word));
    };
    return [...this.heads.values()].filter(says).sort((a, b) => b.updated - a.updated);
  }

  // The conversation, or null where there is none any more. Answers that ran when their page went away
  // were cut off then.
  async open(id) {
    await this.save();
    if (!this.database) return this.whole.get(id) ?? null;
    const [head, messages] = await this.database.conversation(id);
    if (!head) return null;
    for (const {answer} of messages) {
      if (answer?.status === 'running') answer.status = 'interrupted';
    }
    return new Conversation(head, messages);
  }

  // To be called after each change: of a message, or of the head alone. A message that is complete is saved
  // at once, what still changes soon, and at once when the page goes away or into the background, from
  // where phones end it without a word. What happens to a page that has gone (its requests fail) is not
  // saved.
  changed(conversation, message = null) {
    if (conversation.empty) return;
    const known = this.heads.get(conversation.id);
    const messages = this.unsaved.get(conversation) ?? new Set();
    if (message) messages.add(message);
    if (!known) conversation.messages.forEach((each) => messages.add(each));  // new, or deleted in another tab
    this.unsaved.set(conversation, messages);
    const complete = message && message.answer?.status !== 'running';
    if (complete) conversation.updated = Date.now();
    const listed = known?.name === conversation.name && known.updated === conversation.updated;
    if (!listed) this.heads.set(conversation.id, summary(conversation));
    if (complete) this.save();
    else if (this.timer === 0) this.timer = setTimeout(() => this.save(), DELAY_MS);
    if (!listed) this.callbacks.onChange();
  }

  async save() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.gone || this.unsaved.size === 0) return;
    const list = [...this.unsaved].map(([conversation, messages]) => ({conversation, head: summary(conversation), messages: [...messages]}));
    this.unsaved.clear();
    await this.#put(list);
  }

  async #put(list) {
    for (const {conversation, head} of list) {
      this.heads.set(head.id, head);
      if (!this.database) this.whole.set(head.id, conversation);
    }
    await this.#keep(() => this.database.putConversations(list.map(({head, messages}) => ({head, messages}))));
  }

  // Adds whole conversations, as imported.
  async add(conversations) {
    await this.#put(conversations.map((conversation) =>
      ({conversation, head: summary(conversation), messages: [...conversation.messages.values()]})));
    this.callbacks.onChange();
  }

  // Takes conversations out, and returns what brings them back.
  async remove(ids) {
    await this.save();
    const removed = [];
    for (const id of ids) {
      const conversation = await this.open(id);
      if (conversation) removed.push(conversation);
      this.heads.delete(id);
      this.whole.delete(id);
    }
    for (const each of this.unsaved.keys()) if (ids.includes(each.id)) this.unsaved.delete(each);
    this.callbacks.onChange();
    await this.#keep(() => this.database.deleteConversations(ids));
    return () => this.add(removed);
  }

  // A head that is not open is changed in the list and where it is kept.
  async rename(id, name) {
    const conversation = await this.open(id);
    if (!conversation) return;
    Object.assign(conversation, {name, renamed: true});
    await this.#put([{conversation, head: summary(conversation), messages: []}]);
    this.callbacks.onChange();
  }

  async #keep(write) {
    if (!this.database) return;
    try {
      await write();
      this.channel.postMessage(newId());
    } catch (error) {
      this.callbacks.onProblem(error);
    }
  }
}

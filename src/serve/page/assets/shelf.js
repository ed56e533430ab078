// The conversations at the page's side, with what can be done to them: open, rename, delete with a way
// back, export, import.
import {ConversationList} from './conversation_list.js';
import {notify} from './dom.js';
import {download, fileName, read, toJson, toMarkdown} from './exchange.js';
import {plural} from './format.js';
import {History} from './history.js';
import {ask} from './overlay.js';

export class Shelf {
  // `page`: current() is the open conversation, await show(conversation) opens another one and null a new
  // one, problem(error) shows what went wrong. `database` may be null.
  constructor(database, page) {
    this.page = page;
    this.history = new History(database, {onChange: () => this.refresh(), onProblem: (error) => this.#notKept(error)});
    this.list = new ConversationList({
      keeps: database !== null,
      onNew: () => page.show(null),
      onOpen: (id) => this.#open(id),
      onRename: (head) => this.#rename(head),
      onDelete: (heads) => this.#delete(heads),
      onExport: (heads, kind) => this.#export(heads, kind),
      onImport: (files) => this.#import(files),
    });
  }

  // Reads the list; the conversation of that id, or null where it is not there.
  async start(id) {
    try {
      await this.history.load();
      return id === null ? null : await this.history.open(id);
    } catch (error) {
      this.#notKept(error);
      return null;
    }
  }

  refresh() {
    this.list.show({read: (query) => this.history.list(query), openId: this.page.current().id});
  }

  // To be called after each change of a conversation (history.js).
  changed(conversation, message = null) {
    this.history.changed(conversation, message);
  }

  #notKept(error) {
    this.page.problem(new Error(`This browser did not keep the conversation: ${error.message || error.name}. Export what you need.`));
  }

  async #open(id) {
    const conversation = await this.history.open(id);
    if (conversation) await this.page.show(conversation);
    else await this.history.load();  // another tab has deleted it
  }

  async #rename(head) {
    const name = await ask({title: 'Rename the conversation', label: 'Name', value: head.name, action: 'Rename'});
    if (name === null) return;
    const current = this.page.current();
    if (current.id !== head.id) {
      await this.history.rename(head.id, name);
      return;
    }
    Object.assign(current, {name, renamed: true});
    this.changed(current);
  }

  async #delete(heads) {
    const ids = heads.map(({id}) => id);
    const {id} = this.page.current();
    const wasOpen = ids.includes(id);
    if (wasOpen) await this.page.show(null);
    const restore = await this.history.remove(ids);
    const what = heads.length === 1 ? `“${heads[0].name}”` : plural(heads.length, 'conversation');
    notify(`${what} deleted`, {
      label: 'Undo',
      action: async () => {
        await restore();
        if (wasOpen) await this.#open(id);
      },
    });
  }

  async #export(heads, kind) {
    const conversations = [];
    for (const {id} of heads) {
      const conversation = await this.history.open(id);
      if (conversation) conversations.push(conversation);
    }
    if (conversations.length === 0) return;
    const name = heads.length === 1 ? fileName(heads[0].name) : 'conversations';
    if (kind === 'json') download(`${name}.json`, toJson(conversations), 'application/json');
    else download(`${name}.md`, toMarkdown(conversations[0]), 'text/markdown');
  }

  async #import(files) {
    const conversations = [];
    for (const file of files) {
      try {
        conversations.push(...read(await file.text()));
      } catch (error) {
        this.page.problem(new Error(`${file.name} was not imported. ${error.message}`));
      }
    }
    if (conversations.length === 0) return;
    await this.history.add(conversations);
    await this.page.show(conversations[0]);
    notify(`${plural(conversations.length, 'conversation')} imported`);
  }
}

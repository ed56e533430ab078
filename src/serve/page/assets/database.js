// What this browser keeps for the page, in IndexedDB: it stays on the user's machine, for this server's
// address alone.
//
//   conversations  heads by id, with `text` for the search
//   messages       by [conversation, id]
//   presets        system prompts with parameters, by name

const NAME = 'quire';
const VERSION = 1;

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const ended = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = () => resolve();
  transaction.onabort = () => reject(transaction.error ?? new Error('the browser broke it off'));
});

const allOf = (conversation) => IDBKeyRange.bound([conversation], [conversation, []]);

export class Database {
  // Throws where the browser forbids it, or keeps a newer page's.
  static async open() {
    const request = indexedDB.open(NAME, VERSION);
    request.onupgradeneeded = () => {
      request.result.createObjectStore('conversations', {keyPath: 'id'});
      request.result.createObjectStore('messages', {keyPath: ['conversation', 'id']});
      request.result.createObjectStore('presets', {keyPath: 'name'});
    };
    const database = new Database();
    database.idb = await done(request);
    database.idb.onversionchange = () => database.idb.close();
    return database;
  }

  all(store) {
    return done(this.idb.transaction(store).objectStore(store).getAll());
  }

  // The head and the messages of a conversation; the head is undefined where there is none.
  async conversation(id) {
    const transaction = this.idb.transaction(['conversations', 'messages']);
    const head = done(transaction.objectStore('conversations').get(id));
    const messages = done(transaction.objectStore('messages').getAll(allOf(id)));
    return [await head, await messages];
  }

  // `list`: [{head, messages}]; messages that are not named stay as they are.
  putConversations(list) {
    return this.#write(['conversations', 'messages'], (heads, messages) => {
      for (const each of list) {
        heads.put(each.head);
        for (const message of each.messages) messages.put({...message, conversation: each.head.id});
      }
    });
  }

  deleteConversations(ids) {
    return this.#write(['conversations', 'messages'], (heads, messages) => {
      for (const id of ids) {
        heads.delete(id);
        messages.delete(allOf(id));
      }
    });
  }

  putPreset(preset) {
    return this.#write(['presets'], (presets) => presets.put(preset));
  }

  deletePreset(name) {
    return this.#write(['presets'], (presets) => presets.delete(name));
  }

  // Committed at once, so that it also holds where the page goes away.
  #write(stores, action) {
    const transaction = this.idb.transaction(stores, 'readwrite');
    action(...stores.map((each) => transaction.objectStore(each)));
    transaction.commit();
    return ended(transaction);
  }
}

// A conversation: plain data in the form of a tree. Each message but the first ones goes on from another;
// several that go on from the same one are versions of each other, of which one is shown.
//
//   head      {id, name, renamed, mode, system, created, updated, chosen}
//   messages  {id, parent, role: 'user', text, files: [{name, text}]}
//             {id, parent, role: 'assistant', answer, pair}     (answer: see generation.js)
//
// `mode` is chat or completion, `parent` the id of a message or '', `chosen` names by parent the version
// that is shown, times are in milliseconds since 1970. `pair`, where not null, says on which side of a
// comparison an answer stands: {id, side, label}. Ids sort in the order in which they were made.

let lastTime = 0;

export function newId() {
  lastTime = Math.max(Date.now(), lastTime + 1);
  const random = [...crypto.getRandomValues(new Uint8Array(6))].map((each) => each.toString(16).padStart(2, '0')).join('');
  return `${lastTime.toString(36).padStart(9, '0')}-${random}`;
}

export class Conversation {
  constructor({id = newId(), name = '', renamed = false, mode, system = '', created = Date.now(), updated = created, chosen = {}},
              messages = []) {
    Object.assign(this, {id, name, renamed, mode, system, created, updated, chosen});
    this.messages = new Map();
    this.byParent = new Map();
    for (const message of messages) this.#insert(message);
  }

  head() {
    const {id, name, renamed, mode, system, created, updated, chosen} = this;
    return {id, name, renamed, mode, system, created, updated, chosen};
  }

  // All that is said in it, for the search.
  text() {
    return [...this.messages.values()].map((each) => each.role === 'user' ? each.text : textOf(each)).join('\n');
  }

  get empty() {
    return this.messages.size === 0;
  }

  add(message) {
    this.#insert(message);
    this.chosen[message.parent] = message.id;
    if (!this.renamed && this.name === '' && message.role === 'user') this.name = nameFrom(message);
  }

  #insert(message) {
    this.messages.set(message.id, message);
    const siblings = this.byParent.get(message.parent);
    if (siblings) siblings.push(message);
    else this.byParent.set(message.parent, [message]);
  }

  // Those that go on from a message, oldest first.
  after(id) {
    return this.byParent.get(id) ?? [];
  }

  // The versions of a message, itself among them. Answers that are compared are one version.
  versions(message) {
    const seen = new Set(message.pair ? [message.pair.id] : []);
    return this.after(message.parent).filter((each) => {
      if (each === message || !each.pair) return true;
      return seen.size !== seen.add(each.pair.id).size;
    });
  }

  // An answer, or the two that are compared.
  compared(message) {
    return message.pair ? this.after(message.parent).filter(({pair}) => pair?.id === message.pair.id) : [message];
  }

  choose(message) {
    this.chosen[message.parent] = message.id;
  }

  // What is shown, from the first message on.
  path() {
    const path = [];
    for (let next = this.#shownAfter(''); next; next = this.#shownAfter(next.id)) path.push(next);
    return path;
  }

  #shownAfter(id) {
    return this.after(id).find((each) => each.id === this.chosen[id]) ?? this.after(id).at(-1);
  }

  // The messages that lead to this one, which is the last.
  upTo(message) {
    const list = [];
    for (let each = message; each; each = this.messages.get(each.parent)) list.unshift(each);
    return list;
  }
}

// The text of an answer's output that is shown.
export function textOf({answer}) {
  return answer.choices[answer.shown].text;
}

// What the model is told of a message: its files come first.
export function contentOf({text, files}) {
  return [...files.map((file) => {
    const fence = '`'.repeat(Math.max(3, ...[...file.text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
    return `File ${file.name}:\n${fence}\n${file.text.replace(/\n$/, '')}\n${fence}`;
  }), text].filter((part) => part !== '').join('\n\n');
}

// The same for a completion: just the texts.
export function promptOf({text, files}) {
  return [...files.map((file) => file.text), text].join('');
}

// What the model is told of a conversation up to a message of the user. Turns that came to nothing are
// left out.
export function messagesUpTo(conversation, message) {
  const list = conversation.system.trim() === '' ? [] : [{role: 'system', content: conversation.system}];
  const before = conversation.upTo(message).slice(0, -1);
  for (let i = 0; i + 1 < before.length; i += 2) {
    if (textOf(before[i + 1]) === '') continue;
    list.push({role: 'user', content: contentOf(before[i])}, {role: 'assistant', content: textOf(before[i + 1])});
  }
  return [...list, {role: 'user', content: contentOf(message)}];
}

const MOST_IN_NAME = 60;  // characters

// The first line that says something, cut at a word.
function nameFrom({text, files}) {
  const line = text.split('\n').map((each) => each.trim()).find((each) => each !== '') ?? files[0]?.name ?? '';
  const letters = [...line];
  if (letters.length <= MOST_IN_NAME) return line;
  const cut = letters.slice(0, MOST_IN_NAME).join('');
  return `${cut.replace(/\s+\S*$/, '')}…`;
}

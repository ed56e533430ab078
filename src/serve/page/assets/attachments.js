// Text files that go with a message: chosen, dropped on the page or pasted. They are read here; the server
// is only sent their text.
import {h, icon} from './dom.js';
import {bytes} from './format.js';

const MOST_BYTES = 4 << 20;

// The text of a file. Throws Error where it is too large or no text.
export async function readText(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} has ${bytes(file.size)}; a file may have ${bytes(MOST_BYTES)}`);
  const data = new Uint8Array(await file.arrayBuffer());
  const start = String.fromCharCode(...data.subarray(0, 4));
  if (start === '%PDF') throw new Error(`${file.name} is a PDF, which the page cannot read; copy its text into the message`);
  const encoding = start.startsWith('\xff\xfe') ? 'utf-16le' : start.startsWith('\xfe\xff') ? 'utf-16be' : 'utf-8';
  let text;
  try {
    text = new TextDecoder(encoding, {fatal: true}).decode(data);
  } catch {
    text = '\0';
  }
  if (text.includes('\0')) throw new Error(`${file.name} is no text in UTF-8 or UTF-16`);
  return text;
}

// A file beside a message; `onRemove` may be null.
function chip({name, text}, onRemove) {
  return h('span', {class: 'chip'}, icon('file'), h('span', {class: 'chip-name'}, name),
    h('span', {class: 'muted number'}, bytes(new Blob([text]).size)),
    onRemove ? h('button', {type: 'button', class: 'quiet icon', 'aria-label': `Remove ${name}`, title: 'Remove', onclick: onRemove}, icon('close')) : null);
}

// The files of a message that was sent, to be opened.
export function fileList(files) {
  return h('div', {class: 'chips'}, files.map((file) => h('details', {class: 'file'},
    h('summary', {}, chip(file, null)), h('pre', {class: 'fenced', tabIndex: 0, 'aria-label': file.name}, file.text))));
}

// The files of the message that is being written.
export class Attachments {
  // `onChange` is called when the user has changed them, `onProblem(error)` for a file that cannot be taken.
  constructor({onChange, onProblem}) {
    this.callbacks = {onChange, onProblem};
    this.files = [];
    this.element = h('div', {class: 'chips', role: 'group', 'aria-label': 'Attached files', hidden: true});
    this.input = h('input', {
      type: 'file', multiple: true, hidden: true, 'aria-label': 'Text files',
      onchange: () => {
        this.add(this.input.files);
        this.input.value = '';
      },
    });
    this.button = h('button', {
      type: 'button', class: 'quiet icon', 'aria-label': 'Attach text files', title: 'Attach text files, or drop them here',
      onclick: () => this.input.click(),
    }, icon('attach'));
  }

  // Takes what is dropped on an element, or pasted there.
  listen(element) {
    const carries = ({dataTransfer}) => dataTransfer?.types.includes('Files');
    element.addEventListener('dragover', (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      element.classList.add('dropping');
    });
    element.addEventListener('dragleave', (event) => {
      if (!element.contains(event.relatedTarget)) element.classList.remove('dropping');
    });
    element.addEventListener('drop', (event) => {
      element.classList.remove('dropping');
      if (!carries(event)) return;
      event.preventDefault();
      this.add(event.dataTransfer.files);
    });
    element.addEventListener('paste', (event) => {
      if (event.clipboardData.files.length === 0) return;
      event.preventDefault();
      this.add(event.clipboardData.files);
    });
  }

  async add(files) {
    for (const file of [...files]) {
      try {
        this.files.push({name: file.name, text: await readText(file)});
      } catch (error) {
        this.callbacks.onProblem(error);
      }
    }
    this.#changed();
  }

  clear() {
    this.files = [];
    this.#show();
  }

  #show() {
    this.element.hidden = this.files.length === 0;
    this.element.replaceChildren(...this.files.map((file) => chip(file, () => {
      this.files = this.files.filter((each) => each !== file);
      this.#changed();
    })));
  }

  #changed() {
    this.#show();
    this.callbacks.onChange();
  }
}

// A block of code that may still grow: its language, a button to copy it, and colours as soon as
// highlight.js is there. While it grows each line is coloured once, from where the last one ended, so
// that a long block costs no more than its length.
import {copyText} from './clipboard.js';
import {h} from './dom.js';
import {library} from './libraries.js';

const MOST_COLOURED = 200_000;  // characters
const ENTITIES = {'&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#x27;': "'"};

let hljs = null;

// What highlight.js writes (spans and text, nothing else) as nodes.
function nodesOf(markup) {
  const root = document.createDocumentFragment();
  const open = [root];
  for (const [piece, name] of markup.matchAll(/<span class="([^"]*)">|<\/span>|&[#\w]+;|[^<&]+/g)) {
    const parent = open.at(-1);
    if (name !== undefined) {
      const span = h('span', {class: name});
      parent.append(span);
      open.push(span);
    } else if (piece === '</span>') {
      if (open.length > 1) open.pop();
    } else {
      parent.append(ENTITIES[piece] ?? piece);
    }
  }
  return root;
}

export class CodeBlock {
  constructor(language) {
    this.language = language;
    this.code = h('code');
    this.text = '';
    this.complete = false;
    const copy = h('button', {type: 'button', class: 'quiet small', onclick: () => copyText(this.text, copy)}, 'Copy');
    this.element = h('figure', {class: 'code'},
      h('figcaption', {class: 'row'}, h('span', {class: 'grow small muted'}, language || 'text'), copy),
      h('pre', {class: 'fenced', tabIndex: 0, role: 'region', 'aria-label': language ? `Code, ${language}` : 'Code'}, this.code));
    this.#restart();
  }

  // The block's text so far; `complete` once it is all of it.
  show(text, complete) {
    if (text === this.text && complete === this.complete) return;
    if (!text.startsWith(this.text.slice(0, this.coloured))) this.#restart();
    this.text = text;
    this.complete = complete;
    this.#draw();
    if (hljs || this.language === '' || this.asked) return;
    this.asked = true;
    library('highlight').then((loaded) => {
      hljs = loaded;
      this.#restart();
      this.#draw();
    }).catch(() => {});  // then it stays without colours
  }

  #restart() {
    this.coloured = 0;  // characters whose lines are complete and drawn
    this.top = null;    // highlight.js's state there
    this.tail = document.createTextNode('');
    this.code.replaceChildren(this.tail);
  }

  #draw() {
    const {text} = this;
    const name = this.language.toLowerCase();
    const known = hljs !== null && name !== '' && Boolean(hljs.getLanguage(name)) && text.length <= MOST_COLOURED;
    if (!known) {
      this.tail.data = text.slice(this.coloured);
      return;
    }
    if (this.complete) {  // once more as a whole: some constructs are known by what follows only
      this.code.replaceChildren(nodesOf(hljs.highlight(name, text, true).value), this.tail);
      this.coloured = text.length;
      this.tail.data = '';
      return;
    }
    const end = text.lastIndexOf('\n') + 1;
    if (end > this.coloured) {
      const result = hljs.highlight(name, text.slice(this.coloured, end), true, this.top);
      this.tail.before(nodesOf(result.value));
      this.top = result.top;
      this.coloured = end;
    }
    this.tail.data = text.slice(this.coloured);
  }
}

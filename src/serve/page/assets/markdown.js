// An answer's Markdown as elements, also while it grows. Built from marked's tokens, node by node:
// nothing is parsed as HTML, so that HTML in an answer is shown as the characters it is. Blocks that
// are complete are never looked at again, so a long answer costs no more than its length; elements that
// stay the same stay, and so does what is selected in them.
import {CodeBlock} from './code_block.js';
import {h} from './dom.js';
import {lex, normalized, ready, whenReady} from './markdown_lexer.js';
import {formula} from './math.js';

const BASIC = {'&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'"};
const SAFE = new Set(['http:', 'https:', 'mailto:']);

// marked escapes text for HTML and leaves entities in it. A document made of it runs nothing, and
// only its text is used.
function plain(text) {
  const basic = text.replace(/&(?:amp|lt|gt|quot|#39);/g, (each) => BASIC[each]);
  if (!/&(?:#\w+|\w+);/.test(text.replace(/&(?:amp|lt|gt|quot|#39);/g, ''))) return basic;
  return new DOMParser().parseFromString(text, 'text/html').body.textContent;
}

function safeAddress(href) {
  try {
    const url = new URL(href);
    return SAFE.has(url.protocol) ? url.href : null;
  } catch {
    return null;  // relative, or none at all: this page has nothing that an answer could mean
  }
}

function link(href, children) {
  const address = safeAddress(href);
  if (address === null) return h('span', {class: 'no-link', title: `Not followed: ${href}`}, children);
  return h('a', {href: address, target: '_blank', rel: 'noopener noreferrer nofollow', title: address}, children);
}

function inlineNode(token) {
  switch (token.type) {
    case 'strong': case 'em': case 'del': return h(token.type, {}, inline(token.tokens));
    case 'codespan': return h('code', {}, plain(token.text));
    case 'br': return h('br');
    case 'link': return link(token.href, inline(token.tokens));
    // The page loads nothing from elsewhere.
    case 'image': return link(token.href, [`image: ${plain(token.text) || token.href}`]);
    case 'inlineMath': return formula(token.tex, {display: false});
    case 'html': return /^<br\s*\/?>$/i.test(token.raw) ? h('br') : token.raw;
    case 'escape': return plain(token.text);
    default: return token.tokens ? inline(token.tokens) : plain(token.text);
  }
}

function inline(tokens) {
  return (tokens ?? []).map(inlineNode);
}

function table({header, align, rows}) {
  const cell = (tag) => ({tokens}, i) => {
    const element = h(tag, {}, inline(tokens));
    if (align[i]) element.classList.add(`align-${align[i]}`);
    return element;
  };
  return h('div', {class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Table'}, h('table', {},
    h('thead', {}, h('tr', {}, header.map(cell('th')))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map(cell('td')))))));
}

// A list of blocks whose elements are kept as long as their tokens are the same. `wrap` makes a block.
class Blocks {
  constructor(element) {
    this.element = element;
    this.shown = [];  // {key, block}
  }

  // The tokens from the `from`-th block on; `complete`: the last one is not going to grow.
  show(tokens, from, complete) {
    tokens.forEach((token, i) => {
      const last = i === tokens.length - 1;
      this.#put(from + i, token, complete || !last);
    });
    while (this.shown.length > from + tokens.length) this.shown.pop().block.element.remove();
  }

  #put(index, token, complete) {
    const key = `${complete} ${token.raw}`;
    const old = this.shown[index];
    if (old?.key === key) return;
    if (old && old.block.grow?.(token, complete)) {
      old.key = key;
      return;
    }
    const block = makeBlock(token, complete);
    if (old) old.block.element.replaceWith(block.element);
    else this.element.append(block.element);
    this.shown[index] = {key, block};
  }
}

function codeBlock(token, complete) {
  const language = /^\S*/.exec(token.lang ?? '')[0];
  const block = new CodeBlock(language);
  block.show(token.text, complete);
  return {
    element: block.element,
    grow: (next, done) => {
      if (next.type !== 'code' || /^\S*/.exec(next.lang ?? '')[0] !== language) return false;
      block.show(next.text, done);
      return true;
    },
  };
}

// Lists, their items, and quotes: blocks of blocks.
function nested(token, complete, element, childrenOf, fits) {
  const blocks = new Blocks(element);
  blocks.show(childrenOf(token), 0, complete);
  return {
    element,
    grow: (next, done) => {
      if (!fits(next)) return false;
      blocks.show(childrenOf(next), 0, done);
      return true;
    },
  };
}

const withoutSpace = (tokens) => tokens.filter(({type}) => type !== 'space' && type !== 'def');

function list(token, complete) {
  const element = h(token.ordered ? 'ol' : 'ul', token.ordered && token.start !== 1 ? {start: token.start} : {});
  return nested(token, complete, element, ({items}) => items,
    (next) => next.type === 'list' && next.ordered === token.ordered && next.start === token.start);
}

function item(token, complete) {
  const box = token.task ? h('input', {type: 'checkbox', checked: token.checked, disabled: true, 'aria-label': token.checked ? 'Done' : 'To do'}) : null;
  const content = h('div');
  const element = h('li', {class: token.task ? 'task' : null}, box, content);
  return {...nested(token, complete, content, ({tokens}) => withoutSpace(tokens),
    (next) => next.type === 'list_item' && next.task === token.task && next.checked === token.checked), element};
}

function makeBlock(token, complete) {
  switch (token.type) {
    case 'code': return codeBlock(token, complete);
    case 'list': return list(token, complete);
    case 'list_item': return item(token, complete);
    case 'blockquote':
      return nested(token, complete, h('blockquote'), ({tokens}) => withoutSpace(tokens), (next) => next.type === 'blockquote');
    // The page has headings of its own above these.
    case 'heading': return {element: h(`h${Math.min(token.depth + 2, 6)}`, {class: `level-${token.depth}`}, inline(token.tokens))};
    case 'table': return {element: table(token)};
    case 'hr': return {element: h('hr')};
    case 'blockMath': return {element: formula(token.tex, {display: true, open: token.open})};
    case 'html': return {element: h('p', {class: 'prose'}, token.raw.trimEnd())};
    case 'text': return {element: h('div', {}, token.tokens ? inline(token.tokens) : plain(token.text))};
    default: return {element: h('p', {}, inline(token.tokens))};
  }
}

export class Markdown {
  constructor() {
    this.element = h('div', {class: 'rich'});
    this.#reset();
  }

  #reset() {
    this.element.replaceChildren();
    this.blocks = new Blocks(this.element);
    this.text = '';
    this.rest = '';    // what follows the blocks that are complete
    this.settled = 0;  // how many those are
  }

  // The answer so far; `complete` once it is all of it.
  show(text, complete) {
    if (!ready()) {
      if (this.wanted === undefined) whenReady(() => {
        this.#reset();
        this.show(...this.wanted);
      });
      this.wanted = [text, complete];
      this.element.replaceChildren(h('p', {class: 'prose'}, text));
      return;
    }
    if (!complete && text.endsWith('\r')) text = text.slice(0, -1);  // half a line break
    if (text === this.text && complete === this.complete) return;
    if (!text.startsWith(this.text)) this.#reset();
    // A link may be defined behind its use: then, at the end, all is read again.
    if (complete && /^ {0,3}\[[^\]\n]+\]:/m.test(text)) this.#reset();
    this.rest = normalized(this.rest + text.slice(this.text.length));
    this.text = text;
    this.complete = complete;
    this.#update();
  }

  #update() {
    const open = !this.complete;
    let tokens = lex(this.rest, open);
    const visible = withoutSpace(tokens);
    // The head of a table, before it can be seen to be one.
    const last = visible.at(-1);
    if (open && last?.type === 'paragraph' && /^ *\|/.test(last.raw) && !/\n.*\n/.test(last.raw)) visible.pop();
    this.blocks.show(visible, this.settled, this.complete);
    // Only the last block can still become another one.
    while (tokens.length > 0 && withoutSpace(tokens.slice(-1)).length === 0) tokens.pop();
    tokens = tokens.slice(0, -1);
    this.rest = this.rest.slice(tokens.reduce((sum, {raw}) => sum + raw.length, 0));
    this.settled += withoutSpace(tokens).length;
  }
}

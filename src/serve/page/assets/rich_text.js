// An answer's text, readable: code between ``` fences as blocks, `code` and **bold** in lines, and
// everything else as it is, line breaks included. Built from text nodes; nothing is parsed as HTML.
import {h} from './dom.js';

// [{code: false, text}, {code: true, text, language}, ...]; a fence that is still open ends with the text.
function splitFences(text) {
  const parts = [];
  let lines = [];
  let fence = null;
  const close = () => {
    const joined = lines.join('\n');
    // The space between a block and the text around it is the page's affair.
    const kept = fence === null ? joined.replace(/^(\s*\n)+|\s+$/g, '') : joined;
    if (kept !== '') parts.push({code: fence !== null, language: fence ?? '', text: kept});
    lines = [];
  };
  for (const line of text.split('\n')) {
    const mark = /^\s*```\s*([\w+#.-]*)\s*$/.exec(line);
    if (mark && (fence === null || mark[1] === '')) {
      close();
      fence = fence === null ? mark[1] : null;
    } else {
      lines.push(line);
    }
  }
  close();
  return parts;
}

function inline(text) {
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((piece, i) => {
    if (i % 2 === 0) return piece;
    return piece.startsWith('`') ? h('code', {}, piece.slice(1, -1)) : h('strong', {}, piece.slice(2, -2));
  });
}

function build(part) {
  if (!part.code) return h('div', {class: 'prose'}, inline(part.text));
  return h('pre', {class: 'fenced', tabIndex: 0, 'aria-label': part.language === '' ? 'Code' : `Code, ${part.language}`},
    h('code', {}, part.text));
}

export class RichText {
  constructor() {
    this.element = h('div', {class: 'rich'});
    this.shown = [];
  }

  // Parts that have not changed stay as they are, and so does what is selected in them.
  show(text) {
    const parts = splitFences(text);
    const keys = parts.map((part) => JSON.stringify(part));
    let same = 0;
    while (same < keys.length && keys[same] === this.shown[same]) ++same;
    while (this.element.children.length > same) this.element.lastChild.remove();
    this.element.append(...parts.slice(same).map(build));
    this.shown = keys;
  }
}

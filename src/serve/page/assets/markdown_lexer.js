// Markdown taken apart: marked's tokens, with formulas among them.
import {library} from './libraries.js';

let marked = null;
let waiting = null;

// Between dollars as pandoc has it: no space inside, and no digit behind, so that prices stay prices.
const INLINE_MATH = /^\$(?!\s)((?:\\.|[^\\$\n])+?)(?<!\s)\$(?!\d)|^\\\(([\s\S]+?)\\\)|^\\\[([\s\S]+?)\\\]|^\$\$([^$\n]+?)\$\$/;
const BLOCK_MATH = /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n+|$)/;
const OPEN_BLOCK = /^ {0,3}(?:\$\$|\\\[)((?:(?!\$\$|\\\])[\s\S])*)$/;

const EXTENSIONS = [
  {
    name: 'blockMath', level: 'block',
    start: (src) => src.match(/^ {0,3}(?:\$\$|\\\[)/m)?.index,
    tokenizer(src) {
      const match = BLOCK_MATH.exec(src);
      if (match) return {type: 'blockMath', raw: match[0], tex: (match[1] ?? match[2]).trim(), open: false};
      const open = this.lexer.options.open ? OPEN_BLOCK.exec(src) : null;
      return open ? {type: 'blockMath', raw: open[0], tex: open[1].trim(), open: true} : undefined;
    },
    renderer: () => '',
  },
  {
    name: 'inlineMath', level: 'inline',
    start: (src) => src.match(/\$|\\\(|\\\[/)?.index,
    tokenizer(src) {
      const match = INLINE_MATH.exec(src);
      return match ? {type: 'inlineMath', raw: match[0], tex: match[1] ?? match[2] ?? match[3] ?? match[4]} : undefined;
    },
    renderer: () => '',
  },
];

export const ready = () => marked !== null;

// Calls `action` once marked is there; never, where it cannot be loaded.
export function whenReady(action) {
  waiting ??= library('marked').then((loaded) => {
    loaded.use({extensions: EXTENSIONS, gfm: true, breaks: true});
    marked = loaded;
  });
  waiting.then(action, () => { waiting = null; });
}

// As marked sees line breaks and tabs, so that the lengths of its tokens add up.
export function normalized(text) {
  return text.replace(/\r\n|\r/g, '\n').replace(/^( *)(\t+)/gm, (_, spaces, tabs) => spaces + '    '.repeat(tabs.length));
}

const inFence = (text) => (text.match(/^ {0,3}(?:```|~~~)/gm)?.length ?? 0) % 2 === 1;

// `open`: more of the text will come.
export function lex(text, open) {
  const whole = open ? closed(text) : text;
  // A block of code that ends with the text is one for marked only behind a whole line.
  const lines = inFence(whole) && !whole.endsWith('\n') ? `${whole}\n` : whole;
  return new marked.Lexer({...marked.defaults, open}).lex(lines);
}

// Marks of the last line that are open still and will be closed: closed already, so that what stands
// between them does not change its looks when the end comes.
function closed(text) {
  if (inFence(text)) return text;
  const line = text.slice(text.lastIndexOf('\n') + 1);
  if ((line.match(/`/g)?.length ?? 0) % 2 === 1) return /`$/.test(line) ? text.slice(0, -1) : `${text}\``;
  for (const mark of ['**', '__', '~~']) {
    const plain = line.replace(/`[^`]*`/g, '');
    if (plain.split(mark).length % 2 === 1) continue;
    return line.endsWith(mark) ? text.slice(0, -2) : text.replace(/\s*$/, (space) => mark + space);
  }
  return text;
}

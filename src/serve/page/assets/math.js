// Formulas: TeX as the model writes it, drawn by KaTeX once it is there, and the TeX itself until then
// and where it is none.
import {h} from './dom.js';
import {library} from './libraries.js';

let katex = null;

// KaTeX gives drawings their width by an attribute "style", which the page's policy forbids; set as a
// property it may be.
function prepare(loaded) {
  const {SvgNode} = loaded.__domTree;
  const toNode = SvgNode.prototype.toNode;
  SvgNode.prototype.toNode = function styled() {
    const {style, ...others} = this.attributes;
    this.attributes = others;
    const node = toNode.call(this);
    if (style) node.style.cssText = style;
    return node;
  };
  katex = loaded;
}

function draw(element, tex, display) {
  try {
    const drawn = document.createElement('span');
    katex.render(tex, drawn, {displayMode: display, throwOnError: true, strict: 'ignore', maxSize: 20, maxExpand: 500});
    element.replaceChildren(drawn);
    element.classList.add('drawn');
  } catch (error) {
    element.title = error.message;  // no TeX after all
  }
}

// `open`: the formula's end has not come yet.
export function formula(tex, {display, open = false}) {
  const element = h(display ? 'div' : 'span', {class: `math${display ? ' display' : ''}`}, h('code', {}, tex));
  if (open) return element;
  if (katex) {
    draw(element, tex, display);
  } else {
    library('katex').then((loaded) => {
      if (!katex) prepare(loaded);
      draw(element, tex, display);
    }).catch(() => {});  // the TeX stays
  }
  return element;
}

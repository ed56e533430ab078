// The KV blocks: a cell each where there is room, in the colour of the request that holds it. Of a
// large cache the part that is used is drawn: a long stretch of blocks that nobody holds is one cell,
// and where that is not enough a cell stands for several blocks and is split among what they are.
import {h} from './dom.js';
import {count, plural} from './format.js';
import {fit} from './paint.js';

const FREE = 0;
const CACHED = 1;
const RETAINED = 2;
const PINNED = 3;
const MIN_CELL = 4;
const MAX_CELL = 15;
const MOST_HEIGHT = 260;
const MOST_CELLS = 4096;
const RETAINED_TEXT = 'held for an output that has ended, or on its way from files';
const LONG = 64;  // blocks in a row that nobody holds, which may be folded

// A block's use as the server writes it: below 4 a state, else twice the request and whether shared.
const requestOf = (use) => Math.floor((use - 4) / 2);
const isShared = (use) => use % 2 === 1;

// The largest cells with which all of them fit.
function layout(cells, width) {
  for (let size = MAX_CELL; size > MIN_CELL; --size) {
    const columns = Math.max(1, Math.floor(width / size));
    if (Math.ceil(cells / columns) * size <= MOST_HEIGHT) return {size, columns};
  }
  return {size: MIN_CELL, columns: Math.max(1, Math.floor(width / MIN_CELL))};
}

// Cells of `per` blocks each: {first, last, parts: [[use, blocks], ...], folded}. A run of at least
// `fold` blocks that nobody holds is a cell of its own.
function makeCells(runs, per, fold) {
  const cells = [];
  let open = null;
  let next = 0;
  for (let i = 0; i < runs.length; i += 2) {
    let left = runs[i];
    const use = runs[i + 1];
    if (left >= fold && use < RETAINED) {
      open = null;
      cells.push({first: next, last: next + left - 1, parts: [[use, left]], folded: true});
      next += left;
      continue;
    }
    while (left > 0) {
      if (!open || open.last - open.first + 1 === per) {
        open = {first: next, last: next - 1, parts: [], folded: false};
        cells.push(open);
      }
      const taken = Math.min(left, per - (open.last - open.first + 1));
      open.parts.push([use, taken]);
      open.last += taken;
      next += taken;
      left -= taken;
    }
  }
  return cells;
}

// The server's map as at most about MOST_CELLS cells, and of how many blocks each is.
function arrange({total, per_cell: per, runs}) {
  if (per > 1) return {per, cells: makeCells(runs, per, per + 1)};
  if (total <= MOST_CELLS) return {per, cells: makeCells(runs, 1, Infinity)};
  let drawn = 0;
  for (let i = 0; i < runs.length; i += 2) {
    if (runs[i] < LONG || runs[i + 1] >= RETAINED) drawn += runs[i];
  }
  const grouped = Math.max(1, Math.ceil(drawn / MOST_CELLS));
  return {per: grouped, cells: makeCells(runs, grouped, LONG)};
}

const keyOf = ({parts, folded}) => `${folded}${parts}`;

export class BlockMap {
  // `open(request)` is called with the number of a request that was clicked, `name(request)` gives
  // its name. `unit` is what the pool is counted in: "block" or, where a block takes several, "page".
  constructor(palette, tip, {open, name}, unit) {
    this.palette = palette;
    this.name = name;
    this.unit = unit;
    this.cells = [];
    this.keys = [];
    this.canvas = h('canvas', {role: 'img', class: 'clickable'});
    this.summary = h('p', {class: 'muted small'});
    // Said only where there are some.
    this.retained = h('li', {hidden: true}, h('span', {class: 'swatch use-retained'}), RETAINED_TEXT);
    this.pinned = h('li', {hidden: true}, h('span', {class: 'swatch use-pinned'}), 'pinned, used by no request');
    this.folding = h('li', {hidden: true}, h('span', {class: 'swatch use-folded'}), 'many in a row that nobody holds');
    this.root = h('div', {},
      this.canvas,
      h('ul', {class: 'legend'},
        h('li', {}, h('span', {class: 'swatch use-held'}), 'held by a request (its colour)'),
        h('li', {}, h('span', {class: 'swatch use-shared'}), 'shared by several'),
        this.retained, this.pinned,
        h('li', {}, h('span', {class: 'swatch use-cached'}), 'free, content cached'),
        h('li', {}, h('span', {class: 'swatch use-free'}), 'free'),
        this.folding),
      this.summary);
    this.canvas.addEventListener('pointermove', (event) => {
      const text = this.#describe(this.#at(event));
      if (text) tip.show(event, text);
      else tip.hide();
    });
    this.canvas.addEventListener('pointerleave', () => tip.hide());
    this.canvas.addEventListener('click', (event) => {
      const use = this.#at(event)?.use;
      if (use >= 4) open(requestOf(use));
    });
  }

  update(blocks, blockSize) {
    const before = this.keys;
    const {per, cells} = arrange(blocks);
    this.cells = cells;
    this.keys = cells.map(keyOf);
    this.folding.hidden = !cells.some(({folded}) => folded);
    const has = (wanted) => cells.some(({parts}) => parts.some(([use]) => use === wanted));
    this.retained.hidden = !has(RETAINED);
    this.pinned.hidden = !has(PINNED);
    const size = `${this.unit} of ${plural(blockSize, 'token')}`;
    const each = per === 1 ? `A cell is a ${size}.`
      : `A cell is ${per} ${this.unit}s of ${plural(blockSize, 'token')}, split by what they are.`;
    this.summary.textContent = `${count(blocks.total)} ${this.unit}s: ${count(blocks.used)} held, ` +
      `of them ${count(blocks.shared)} shared; ${count(blocks.cached)} cached, ${count(blocks.free)} free. ${each}`;
    this.canvas.setAttribute('aria-label', `KV ${this.unit}s. ${this.summary.textContent}`);
    const sameLayout = this.layout?.width === this.canvas.clientWidth && before.length === cells.length;
    if (sameLayout) this.#drawCells((i) => this.keys[i] !== before[i]);
    else this.draw();
  }

  // All cells.
  draw() {
    const width = this.canvas.clientWidth;
    if (width === 0 || this.cells.length === 0) return;
    const {size, columns} = layout(this.cells.length, width);
    const height = Math.ceil(this.cells.length / columns) * size;
    this.layout = {size, columns, width};
    this.pen = fit(this.canvas, width, height);
    this.pen.clearRect(0, 0, width, height);
    this.#drawCells(() => true);
  }

  #drawCells(wanted) {
    const {size, columns} = this.layout;
    const gap = size > 6 ? 1 : 0.5;
    this.cells.forEach((cell, i) => {
      if (!wanted(i)) return;
      const x = i % columns * size;
      const y = Math.floor(i / columns) * size;
      this.pen.clearRect(x, y, size, size);
      this.#cell(cell, x, y, size - gap);
    });
  }

  #cell(cell, x, y, size) {
    if (cell.parts.length === 1) {
      this.#part(cell.parts[0][0], x, y, size, size);
      if (cell.folded) this.#dots(x, y, size);
      return;
    }
    for (const {use, from, to} of this.#shares(cell, size)) this.#part(use, x + from, y, to - from, size);
  }

  // Where in a cell of this width each part is; one that is held is never too narrow to be seen.
  #shares({parts}, width) {
    const weights = parts.map(([use, blocks]) => {
      const share = blocks / parts.reduce((sum, [, each]) => sum + each, 0);
      return use >= RETAINED ? Math.max(share, 1 / width) : share;
    });
    const sum = weights.reduce((total, each) => total + each, 0);
    let at = 0;
    return parts.map(([use], i) => {
      const from = at;
      at += weights[i] / sum * width;
      return {use, from, to: at};
    });
  }

  #part(use, x, y, width, height) {
    const pen = this.pen;
    if (use === FREE) {
      pen.fillStyle = this.palette.sunken;
      pen.fillRect(x, y, width, height);
      if (width > 6) {
        pen.strokeStyle = this.palette.line;
        pen.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
      }
      return;
    }
    pen.fillStyle = use === CACHED ? this.palette.cached : use === RETAINED ? this.palette.muted
      : use === PINNED ? this.palette['data-3']
      : this.palette.request(requestOf(use));
    pen.fillRect(x, y, width, height);
    if (use < 4 || !isShared(use)) return;
    pen.fillStyle = this.palette.ink;
    const dot = Math.min(width, Math.max(2, height / 3));
    pen.fillRect(x + (width - dot) / 2, y + (height - dot) / 2, dot, dot);
  }

  #dots(x, y, size) {
    this.pen.fillStyle = this.palette.ink;
    const dot = Math.max(1, size / 7);
    for (const part of [1, 2, 3]) {
      this.pen.fillRect(x + size * part / 4 - dot / 2, y + (size - dot) / 2, dot, dot);
    }
  }

  // The cell under the pointer, and which of its parts.
  #at(event) {
    if (!this.layout) return null;
    const {size, columns} = this.layout;
    const column = Math.floor(event.offsetX / size);
    const index = Math.floor(event.offsetY / size) * columns + column;
    const cell = this.cells[index];
    if (column >= columns || !cell) return null;
    const within = event.offsetX - column * size;
    const use = this.#shares(cell, size).find(({to}) => within <= to)?.use;
    return {index, use};
  }

  #describe(at) {
    if (!at) return '';
    const {first, last, parts} = this.cells[at.index];
    const where = first === last ? `${this.unit} ${first}` : `${this.unit}s ${first} to ${last}`;
    if (parts.length === 1) return `${where}: ${this.#useText(parts[0][0])}`;
    return `${where}: ${parts.map(([use, blocks]) => `${count(blocks)} ${this.#useText(use)}`).join('; ')}`;
  }

  #useText(use) {
    if (use === FREE) return 'free';
    if (use === CACHED) return 'free, content cached';
    if (use === RETAINED) return RETAINED_TEXT;
    if (use === PINNED) return 'pinned';
    return `${this.name(requestOf(use))}${isShared(use) ? ', shared' : ''}`;
  }
}

// Who holds which batch slot at each step: a row for each slot, time from left to right, colours by
// request; above it how many wait. Steps are drawn once, onto a tape that goes round; showing it is
// two copies a frame, however much runs.
import {h} from './dom.js';
import {plural} from './format.js';
import {fit} from './paint.js';

const WINDOW_S = 12;
const STEP_WIDTH = 7;       // of a column, where each step has one
const LAG_S = 0.6;        // behind the present, so that what is shown has arrived
const QUEUE_HEIGHT = 38;     // of the strip above the slots, its text included
const TEXT_HEIGHT = 14;
const MOST_HEIGHT = 340;
const LEAST_SLOTS = 8;
const KEPT_S = 40;
const MOST_KEPT = 4000;     // steps, for drawing all again

const UNWANTED = -1;

// A step as the server writes it, for use here.
function readStep([id, start, duration, ...rows]) {
  const uses = [];
  for (let i = 0; i < rows.length; i += 3) {
    uses.push({slot: rows[i], request: rows[i + 1], tokens: rows[i + 2]});
  }
  return {id, start: start / 1e6, end: (start + duration) / 1e6, uses};
}

export class SlotChart {
  constructor(palette, tip, {open, name}) {
    this.palette = palette;
    this.name = name;
    this.byStep = false;
    this.canvas = h('canvas', {role: 'img', class: 'clickable'});
    this.tape = document.createElement('canvas');
    this.buttons = ['Time', 'Steps'].map((text, i) => h('button', {
      type: 'button', 'aria-pressed': String(i === 0), onclick: () => this.#setMode(i === 1),
    }, text));
    // Said only where there has been one.
    this.unwanted = h('li', {hidden: true}, h('span', {class: 'swatch use-unwanted'}), 'slot of an ended output (static batching)');
    this.caption = h('p', {class: 'muted small'});
    this.root = h('div', {},
      h('div', {class: 'row spread'},
        h('ul', {class: 'legend'},
          h('li', {}, h('span', {class: 'swatch use-held'}), 'output tokens'),
          h('li', {}, h('span', {class: 'swatch use-prompt'}), 'prompt tokens'),
          this.unwanted,
          h('li', {}, h('span', {class: 'swatch use-free'}), 'empty'),
          h('li', {}, h('span', {class: 'swatch use-queue'}), 'requests waiting')),
        h('div', {class: 'segments', role: 'group', 'aria-label': 'What a column is'}, this.buttons)),
      this.canvas, this.caption);
    this.canvas.addEventListener('pointermove', (event) => {
      const text = this.#describe(event);
      if (text) tip.show(event, text);
      else tip.hide();
    });
    this.canvas.addEventListener('pointerleave', () => tip.hide());
    this.canvas.addEventListener('click', (event) => {
      const use = this.#at(event)?.use;
      if (use) open(use.request);
    });
    this.clear();
  }

  clear() {
    this.steps = [];
    this.nextNumber = 0;
    this.version = 0;
    this.head = null;
    this.queue = [];       // {time, number, waiting}: number of the step that comes next
    this.numSlots = LEAST_SLOTS;
    this.offset = null;    // the server's clock less the browser's
    this.shownNumber = null;
    this.redraw();
  }

  #setMode(byStep) {
    this.byStep = byStep;
    this.buttons.forEach((button, i) => button.setAttribute('aria-pressed', String((i === 1) === byStep)));
    this.redraw();
  }

  add(state, steps) {
    ++this.version;
    const clock = state.time_s - performance.now() / 1000;
    // The least delayed event tells the time best.
    this.offset = this.offset === null ? clock : Math.max(clock, this.offset - 0.002);
    let first = this.steps.length;
    for (const raw of steps) {
      const step = readStep(raw);
      step.number = this.nextNumber++;
      if (step.uses.some(({tokens}) => tokens === UNWANTED)) this.unwanted.hidden = false;
      this.steps.push(step);
    }
    const surplus = this.steps.length - MOST_KEPT;
    const old = this.steps.findIndex(({end}) => end > state.time_s - KEPT_S);
    const drop = Math.max(0, surplus, this.byStep ? 0 : old);
    this.steps.splice(0, drop);
    first = Math.max(0, first - drop);
    this.queue.push({time: state.time_s, number: this.nextNumber, waiting: state.num_waiting});
    if (this.queue.length > 600) this.queue.shift();
    const most = Math.max(...this.steps.slice(first).flatMap(({uses}) => uses.map(({slot}) => slot + 1)), 0);
    this.caption.textContent = this.byStep ? 'A column is a step; the latest is on the right.'
      : `The last ${WINDOW_S} seconds, one line for each slot; where a line is empty, the slot was free.`;
    this.canvas.setAttribute('aria-label',
      `Batch slots: ${state.num_running} of ${state.engine.max_num_seqs} run, ${state.num_waiting} wait.`);
    if (most > this.numSlots) {
      this.numSlots = most;
      this.redraw();
    } else {
      this.#drawSteps(first);
    }
  }

  // Where a step is on the tape, in pixels from its beginning.
  #span(step) {
    if (this.byStep) return [step.number * STEP_WIDTH, (step.number + 1) * STEP_WIDTH];
    // On whole pixels of the screen, so that neighbours meet without a seam.
    const scale = window.devicePixelRatio || 1;
    return [step.start, step.end].map((time) => Math.round(time * this.perSecond * scale) / scale);
  }

  // All again: another size, scheme or mode.
  redraw() {
    const width = this.canvas.clientWidth;
    this.width = width;
    if (width === 0) return;
    this.perSecond = width / WINDOW_S;
    this.row = Math.max(1.5, Math.min(20, Math.floor(MOST_HEIGHT / this.numSlots * 2) / 2));
    this.inset = this.byStep && this.row >= 5 ? 1 : 0;
    this.height = Math.ceil(this.row * this.numSlots);
    this.tapeWidth = Math.ceil(width * 1.5);
    this.pen = fit(this.tape, this.tapeWidth, this.height);
    this.drawnTo = null;
    this.head = null;
    this.lastBars = null;
    this.#drawSteps(0);
    this.frame();
  }

  #drawSteps(first) {
    if (this.width === 0 || !this.pen || first >= this.steps.length) return;
    const begin = this.#span(this.steps[first])[0];
    const end = this.#span(this.steps.at(-1))[1];
    const from = Math.max(this.drawnTo ?? begin, end - this.tapeWidth);
    this.#clearTape(from, end);
    this.drawnTo = end;
    // Neighbouring steps in which a slot does the same are one bar.
    const open = new Map();
    for (let i = first; i < this.steps.length; ++i) {
      const [x0, x1] = this.#span(this.steps[i]);
      if (x1 <= end - this.tapeWidth) continue;
      for (const {slot, request, tokens} of this.steps[i].uses) {
        const bar = open.get(slot);
        if (bar && this.#joins(bar, {request, tokens, x0})) {
          bar.x1 = x1;
          continue;
        }
        if (bar) this.#bar(slot, bar);
        open.set(slot, this.#continued(slot, {request, tokens, x0, x1}));
      }
    }
    for (const [slot, bar] of open) this.#bar(slot, bar);
    this.lastBars = open;
  }

  // Whether one bar may go on as the other: both are one request's output tokens, without a pause
  // that could be seen, and steps are not to be told apart.
  #joins(bar, next) {
    return !this.inset && bar.request === next.request && bar.tokens === 0 && next.tokens === 0 &&
      next.x0 - bar.x1 < 1.5;
  }

  // A bar that goes on where the last event's ended.
  #continued(slot, bar) {
    const last = this.lastBars?.get(slot);
    const joined = last && this.#joins(last, bar);
    return joined ? {...bar, x0: Math.min(last.x1, bar.x0)} : bar;
  }

  // Calls `draw` with the places on the tape that stand for [from, to).
  #wrapped(from, to, draw) {
    const size = this.tapeWidth;
    const start = from % size;
    const length = Math.min(to - from, size);
    draw(start, Math.min(length, size - start));
    if (start + length > size) draw(0, start + length - size);
  }

  #clearTape(from, to) {
    this.#wrapped(from, to, (x, width) => this.pen.clearRect(x, 0, width + 1, this.height));
  }

  #bar(slot, {request, tokens, x0, x1}) {
    const gap = this.row >= 5 ? 1 : 0;
    const y = slot * this.row;
    const height = this.row - gap;
    this.#wrapped(x0, x1 - this.inset, (x, width) => {
      const pen = this.pen;
      if (tokens === UNWANTED) {
        pen.fillStyle = this.palette.cached;
        pen.fillRect(x, y, Math.max(width, 0.5), height);
        return;
      }
      pen.fillStyle = tokens === 0 ? this.palette.request(request) : this.palette.prompt(request);
      pen.fillRect(x, y, Math.max(width, 0.5), height);
      if (tokens > 0 && height >= 6 && width >= 2) this.#hatch(request, x, y, width, height);
    });
  }

  #hatch(request, x, y, width, height) {
    const pen = this.pen;
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, height);
    pen.clip();
    pen.strokeStyle = this.palette.stroke(request);
    pen.globalAlpha = 0.55;
    pen.beginPath();
    for (let at = x - height; at < x + width; at += 5) {
      pen.moveTo(at, y + height);
      pen.lineTo(at + height, y);
    }
    pen.stroke();
    pen.restore();
  }

  // The tape's place at the right edge of the picture now.
  #head() {
    const last = this.steps.at(-1);
    if (!this.byStep) {
      const time = performance.now() / 1000 + (this.offset ?? 0) - LAG_S;
      // Where nothing is left to be seen, nothing needs to move.
      return last && last.end > time - WINDOW_S ? time * this.perSecond : this.head ?? 0;
    }
    const target = last ? (last.number + 1) * STEP_WIDTH : 0;
    // Follows the steps evenly instead of by leaps.
    this.shownNumber = this.shownNumber === null ? target
      : this.shownNumber + (target - this.shownNumber) * 0.12;
    if (target - this.shownNumber > this.width) this.shownNumber = target - this.width;
    if (target - this.shownNumber < 0.5) this.shownNumber = target;
    return this.shownNumber;
  }

  frame() {
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    if (width !== this.width) {
      this.redraw();
      return;
    }
    const scale = window.devicePixelRatio || 1;
    const head = Math.round(this.#head() * scale) / scale;
    if (head === this.head && this.version === this.shownVersion) return;
    this.head = head;
    this.shownVersion = this.version;
    const pen = fit(this.canvas, width, QUEUE_HEIGHT + this.height);
    pen.clearRect(0, 0, width, QUEUE_HEIGHT + this.height);
    pen.fillStyle = this.palette.sunken;
    pen.fillRect(0, QUEUE_HEIGHT, width, this.height);
    this.#copyTape(pen, head, width);
    this.#drawQueue(pen, head, width);
    this.#labels(pen);
  }

  #copyTape(pen, head, width) {
    if (this.drawnTo === null) return;
    const scale = this.tape.width / this.tapeWidth;
    const oldest = Math.max(this.drawnTo - this.tapeWidth, this.#span(this.steps[0])[0], 0);
    const from = Math.max(head - width, oldest);
    const to = Math.min(head, this.drawnTo);
    if (to <= from) return;
    let at = from - (head - width);
    this.#wrapped(from, to, (x, length) => {
      if (length <= 0) return;
      pen.drawImage(this.tape, x * scale, 0, length * scale, this.tape.height, at, QUEUE_HEIGHT, length, this.height);
      at += length;
    });
  }

  #drawQueue(pen, head, width) {
    const place = ({time, number}) =>
      (this.byStep ? number * STEP_WIDTH : time * this.perSecond) - head + width;
    const most = Math.max(4, ...this.queue.map(({waiting}) => waiting));
    const shown = this.queue.filter((each) => place(each) > -50);
    pen.fillStyle = this.palette['data-3'];
    for (let i = 1; i < shown.length; ++i) {
      const x = place(shown[i - 1]);
      const high = shown[i].waiting / most * (QUEUE_HEIGHT - TEXT_HEIGHT - 4);
      pen.fillRect(Math.floor(x), QUEUE_HEIGHT - 3 - high, Math.ceil(place(shown[i]) - x) + 1, high);
    }
    const last = this.queue.at(-1)?.waiting ?? 0;
    pen.font = '11px Inter, system-ui, sans-serif';
    pen.textAlign = 'right';
    pen.textBaseline = 'top';
    pen.fillStyle = this.palette.muted;
    pen.fillText(last === 0 ? 'nobody waits' : `${last} waiting`, width, 1);
  }

  #labels(pen) {
    pen.strokeStyle = this.palette.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(0, QUEUE_HEIGHT - 0.5);
    pen.lineTo(this.width, QUEUE_HEIGHT - 0.5);
    pen.stroke();
  }

  #at(event) {
    if (this.head === null || event.offsetY < QUEUE_HEIGHT) return null;
    const position = this.head - this.width + event.offsetX;
    const slot = Math.floor((event.offsetY - QUEUE_HEIGHT) / this.row);
    for (let i = this.steps.length - 1; i >= 0; --i) {
      const [from, to] = this.#span(this.steps[i]);
      if (position >= to) return null;
      if (position < from) continue;
      return {step: this.steps[i], slot, use: this.steps[i].uses.find((use) => use.slot === slot)};
    }
    return null;
  }

  #describe(event) {
    const found = this.#at(event);
    if (!found) return '';
    const {step, slot, use} = found;
    const time = `${((step.end - step.start) * 1e3).toFixed(1)} ms`;
    if (!use) return `step ${step.id} (${time}), slot ${slot}: empty`;
    const what = use.tokens === UNWANTED ? 'thrown away'
      : use.tokens === 0 ? '1 output token' : plural(use.tokens, 'prompt token');
    return `step ${step.id} (${time}), slot ${slot}: ${this.name(use.request)}, ${what}`;
  }
}

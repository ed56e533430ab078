// Who runs and who waits, as lists. Rows are kept from one event to the next, so that a row that has
// the keyboard's focus keeps it.
import {h} from './dom.js';
import {count, duration} from './format.js';

const MOST_ROWS = 40;

const CAUSES = {
  queue_order: 'behind earlier requests',
  max_num_seqs: 'all slots are taken',
  token_budget: 'the step\'s tokens are used up',
  step_time: 'the step\'s time is used up',
  no_free_blocks: 'too few free KV blocks',
  preempted: 'gave its blocks to an earlier one',
  batch: 'waits for a batch',
  fork_parent: 'its prompt is being computed',
  admission_pace: 'too few wait to start beside those that run',
  prefix_in_flight: 'its prompt\'s beginning is being computed',
  kv_fetch: 'its prompt\'s KV blocks come from disk',
};

export function causeText(cause) {
  return CAUSES[cause] ?? cause;
}

// Ids often begin alike: of a long one the end says more.
export function shortId(id) {
  return id.length <= 22 ? id : `${id.slice(0, 7)}…${id.slice(-13)}`;
}

function waitText({wait, waited_s: waited}) {
  return wait ? `${causeText(wait)}, ${duration(waited)}` : '';
}

class Table {
  constructor(label, columns, {open, palette}) {
    this.columns = columns;
    this.open = open;
    this.palette = palette;
    this.rows = new Map();
    this.body = h('tbody', {});
    this.more = h('p', {class: 'muted small'});
    this.root = h('div', {},
      h('div', {class: 'scroll'}, h('table', {'aria-label': label},
        h('thead', {}, h('tr', {}, h('th', {}, 'Request'),
          columns.map(({title, number}) => h('th', {class: number ? 'number' : ''}, title)))),
        this.body)),
      this.more);
  }

  #row(each) {
    const swatch = h('span', {class: 'swatch'});
    const cells = this.columns.map(({number}) => h('td', {class: number ? 'number' : ''}));
    const row = h('tr', {},
      h('td', {}, h('button', {type: 'button', class: 'request', title: `${each.name}: why does it take so long?`,
        onclick: () => this.open(each.request)}, swatch, shortId(each.name))),
      cells);
    return {row, cells, swatch};
  }

  update(list, total) {
    const shown = list.slice(0, MOST_ROWS);
    const left = new Set(this.rows.keys());
    shown.forEach((each, i) => {
      left.delete(each.request);
      let entry = this.rows.get(each.request);
      if (!entry) {
        entry = this.#row(each);
        this.rows.set(each.request, entry);
      }
      entry.swatch.style.background = this.palette.request(each.request);
      this.columns.forEach(({value}, c) => {
        const text = value(each);
        if (entry.cells[c].textContent !== text) entry.cells[c].textContent = text;
      });
      if (this.body.children[i] !== entry.row) this.body.insertBefore(entry.row, this.body.children[i] ?? null);
    });
    for (const request of left) {
      this.rows.get(request).row.remove();
      this.rows.delete(request);
    }
    this.more.textContent = total > shown.length ? `and ${count(total - shown.length)} more` : '';
  }
}

export class RequestLists {
  constructor(palette, open) {
    const tools = {open, palette};
    this.running = new Table('Requests that run', [
      {title: 'Computed', number: true, value: (each) => `${count(each.computed_tokens)} of ${count(each.known_tokens)}`},
      {title: 'Cached', number: true, value: (each) => count(each.cached_tokens)},
      {title: 'At most', number: true, value: (each) => count(each.max_tokens)},
      {title: 'Blocks', number: true, value: (each) => count(each.blocks)},
      {title: 'Age', number: true, value: (each) => duration(each.age_s)},
    ], tools);
    this.waiting = new Table('The queue, the next one first', [
      {title: 'Tokens', number: true, value: (each) => count(each.known_tokens)},
      {title: 'Waits because', value: waitText},
    ], tools);
    this.runningTitle = h('h2', {id: 'running'}, 'Running');
    this.waitingTitle = h('h2', {id: 'waiting'}, 'Queue');
    this.nobodyRuns = h('p', {class: 'muted'}, 'Nothing runs.');
    this.nobodyWaits = h('p', {class: 'muted'}, 'Nobody waits.');
    this.root = h('div', {class: 'sheet-pair'},
      h('section', {class: 'sheet', 'aria-labelledby': 'running'},
        this.runningTitle, this.nobodyRuns, this.running.root),
      h('section', {class: 'sheet', 'aria-labelledby': 'waiting'},
        this.waitingTitle, this.nobodyWaits, this.waiting.root));
  }

  update(state, name) {
    const named = (list) => list.map((each) => ({...each, name: name(each.request)}));
    this.runningTitle.textContent = `Running: ${count(state.num_running)} of ${count(state.engine.max_num_seqs)}`;
    this.waitingTitle.textContent = `Queue: ${count(state.num_waiting)}`;
    this.nobodyRuns.hidden = state.num_running > 0;
    this.running.root.hidden = state.num_running === 0;
    this.nobodyWaits.hidden = state.num_waiting > 0;
    this.waiting.root.hidden = state.num_waiting === 0;
    this.running.update(named(state.running), state.num_running);
    this.waiting.update(named(state.waiting), state.num_waiting);
  }
}

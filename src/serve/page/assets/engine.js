// The engine as it works: what it says of itself, a few times a second, as pictures.
import {BlockMap} from './blocks.js';
import {Chart} from './charts.js';
import {h, notify} from './dom.js';
import {count, duration, percent, significant} from './format.js';
import {LiveStream} from './live_stream.js';
import {Palette, Tip, watchScheme} from './paint.js';
import {RequestLists} from './requests.js';
import {SlotChart} from './slots.js';
import {SpeculationView} from './speculation.js';
import {showWhy} from './why.js';

const HZ = 4;
const MOST_NAMES = 5000;

const milliseconds = (value) => (value === 0 ? '0' : duration(value / 1e3));
const rate = (value) => (value >= 100 ? count(value) : significant(value));

class Figures {
  constructor() {
    this.values = new Map();
    this.root = h('dl', {class: 'facts figures'},
      [['running', 'Running'], ['waiting', 'Waiting'], ['output', 'Output tokens/s'], ['prompt', 'Prompt tokens/s'],
        ['steps', 'Steps/s'], ['blocks', 'KV blocks held'], ['cached', 'Prompt tokens cached']].map(([id, title]) => {
        const value = h('dd', {}, '–');
        this.values.set(id, value);
        return h('div', {}, h('dt', {}, title), value);
      }));
  }

  update({num_running, num_waiting, per_second: rates, blocks, engine, totals}) {
    const set = (id, text) => { this.values.get(id).textContent = text; };
    const prompt = totals.prompt_tokens + totals.cached_tokens;
    set('running', `${count(num_running)} of ${count(engine.max_num_seqs)}`);
    set('waiting', count(num_waiting));
    set('output', rates ? count(rates.output_tokens) : '–');
    set('prompt', rates ? count(rates.prompt_tokens) : '–');
    set('steps', rates ? rate(rates.steps) : '–');
    set('blocks', percent(blocks.used / blocks.total));
    set('cached', percent(prompt === 0 ? 0 : totals.cached_tokens / prompt));
  }
}

function makeCharts(palette) {
  return {
    throughput: new Chart(palette, {
      title: 'Throughput, tokens/s', write: rate, least: 10,
      series: [{name: 'output', colour: 'data-2'}, {name: 'prompt', colour: 'data-1'}],
    }),
    first: new Chart(palette, {
      title: 'Time to first token', write: milliseconds, least: 10,
      series: [{name: 'p50', colour: 'data-2'}, {name: 'p99', colour: 'data-3'}],
    }),
    inter: new Chart(palette, {
      title: 'Time between tokens', write: milliseconds, least: 10,
      series: [{name: 'p50', colour: 'data-2'}, {name: 'p99', colour: 'data-3'}],
    }),
  };
}

// What the pool is counted in: where layers keep different tokens, a block takes several pages.
function poolUnit({memory_plan: plan}) {
  const pages = plan === null ? 1 : plan.kv_groups.reduce((sum, group) => sum + group.pages_per_block, 0);
  return pages === 1 ? 'block' : 'page';
}

export function mount(root, api) {
  const palette = new Palette();
  const tip = new Tip();
  const names = new Map();  // of the latest requests
  const name = (request) => names.get(request) ?? `request ${request}`;
  const tools = {
    name,
    open: (request) => {
      tip.hide();
      const known = names.get(request);
      if (known) showWhy(api, known.replace(/#\d+$/, ''));
      else notify('That request is not known any more.');
    },
  };
  const figures = new Figures();
  const slots = new SlotChart(palette, tip, tools);
  const blocks = new BlockMap(palette, tip, tools, poolUnit(api.info));
  const charts = makeCharts(palette);
  const speculation = new SpeculationView();
  const lists = new RequestLists(palette, tools.open);
  const connection = h('p', {class: 'connection', role: 'status'}, 'Connecting …');

  root.append(h('div', {class: 'sheets engine'},
    h('section', {class: 'sheet', 'aria-labelledby': 'engine-title'},
      h('div', {class: 'row spread'}, h('h1', {id: 'engine-title'}, 'Engine'), connection),
      figures.root),
    h('section', {class: 'sheet', 'aria-labelledby': 'slots'}, h('h2', {id: 'slots'}, 'Batch slots'), slots.root),
    h('section', {class: 'sheet', 'aria-labelledby': 'blocks'}, h('h2', {id: 'blocks'}, 'KV blocks'), blocks.root),
    h('div', {class: 'charts'}, Object.values(charts).map((chart) => h('section', {class: 'sheet'}, chart.root))),
    speculation.root, lists.root));

  function learnNames(state) {
    for (const each of [...state.running, ...state.waiting]) {
      names.delete(each.request);
      names.set(each.request, each.index > 0 ? `${each.id}#${each.index}` : each.id);
    }
    for (const request of names.keys()) {
      if (names.size <= MOST_NAMES) break;
      names.delete(request);
    }
  }

  function addToCharts({time_s: time, per_second: rates, latency}) {
    const of = (kind, rank) => latency?.[kind][rank] ?? null;
    charts.throughput.add(time, rates ? [rates.output_tokens, rates.prompt_tokens] : [null, null]);
    charts.first.add(time, [of('first_token', 'p50_ms'), of('first_token', 'p99_ms')]);
    charts.inter.add(time, [of('inter_token', 'p50_ms'), of('inter_token', 'p99_ms')]);
  }

  function forget() {
    slots.clear();
    names.clear();
    for (const chart of Object.values(charts)) chart.clear();
  }

  const stream = new LiveStream(api, HZ, {
    event(state, steps) {
      learnNames(state);
      figures.update(state);
      slots.add(state, steps);
      blocks.update(state.blocks, state.engine.block_size);
      addToCharts(state);
      speculation.update(state.speculation);
      lists.update(state, name);
    },
    connection(status, error) {
      const live = status === 'live';
      connection.classList.toggle('live', live);
      const text = live ? 'Live' : `${error?.message ?? 'The server has closed the connection.'} Trying again …`;
      if (connection.textContent !== text) connection.textContent = text;
    },
    restarted() {
      forget();
      notify('The server has restarted.');
    },
  });

  function redraw() {
    palette.read();
    slots.redraw();
    blocks.draw();
    for (const chart of Object.values(charts)) chart.draw();
  }
  watchScheme(redraw);
  new ResizeObserver(() => {
    blocks.draw();
    for (const chart of Object.values(charts)) chart.draw();
  }).observe(root);

  let frames = 0;
  const animate = () => {
    slots.frame();
    frames = requestAnimationFrame(animate);
  };
  return {
    show() {
      stream.start();
      cancelAnimationFrame(frames);
      animate();
    },
    hide() {
      stream.stop();
      cancelAnimationFrame(frames);
      tip.hide();
    },
  };
}

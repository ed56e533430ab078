// Where a request's time went: GET /requests/{id}/why as bars.
import {h} from './dom.js';
import {errorView} from './error_view.js';
import {duration, plural} from './format.js';
import {causeText, shortId} from './requests.js';

const KINDS = {
  receive: {title: 'received', kind: 'data-6'},
  admit: {title: 'admitted', kind: 'data-5'},
  wait: {title: 'waited', kind: 'data-3'},
  prefill: {title: 'prompt', kind: 'data-1'},
  decode: {title: 'output', kind: 'data-2'},
  deliver: {title: 'delivered', kind: 'data-4'},
};

const OUTCOMES = {stop: 'complete', length: 'ended by its token limit', abort: 'aborted'};

const kindOf = (span) => KINDS[span.what] ?? {title: span.what, kind: 'data-6'};
const time = (ms) => duration(ms / 1e3);

function details(span) {
  const parts = [];
  if (span.cause) parts.push(causeText(span.cause));
  const waited = span.waited_for;
  if (waited?.count > 0) {
    const more = waited.count - waited.ids.length;
    parts.push(`for ${waited.ids.map(shortId).join(', ')}${more > 0 ? ` and ${more} more` : ''}`);
  }
  if (span.tokens) parts.push(`${plural(span.tokens, 'token')} in ${plural(span.steps, 'step')}`);
  if (span.cached_tokens) parts.push(`${span.cached_tokens} cached`);
  if (span.recomputed_tokens) parts.push(`${span.recomputed_tokens} computed again`);
  return parts.join('; ') || span.because || '';
}

function outputView(output, several) {
  const total = Math.max(output.total_ms, 1e-3);
  const outcome = output.status === 'running' ? 'still runs' : OUTCOMES[output.finish_reason] ?? `ended: ${output.finish_reason}`;
  return h('section', {},
    h('p', {class: 'muted small'},
      `${several ? `Output ${output.index}: ` : ''}${time(output.total_ms)} in all, ${outcome}` +
      (output.preemptions ? `, preempted ${plural(output.preemptions, 'time')}` : '') +
      (output.left_out ? ` (${output.left_out})` : '')),
    h('div', {class: 'scroll'}, h('table', {class: 'why'}, h('tbody', {}, output.spans.map((span) => {
      const {title, kind} = kindOf(span);
      const bar = h('span', {class: `bar-piece ${kind}`});
      // The last ones stay within the track, however short they are.
      bar.style.left = `min(${100 * span.start_ms / total}%, 100% - 2px)`;
      bar.style.width = `${100 * span.duration_ms / total}%`;
      return h('tr', {title: span.because ?? ''},
        h('td', {}, title),
        h('td', {class: 'bar-cell'}, h('div', {class: 'bar-track'}, bar)),
        h('td', {class: 'number'}, time(span.duration_ms)),
        h('td', {class: 'small'}, details(span)));
    })))),
    [['Prefix cache', output.prefix_cache], ['Guesses', output.drafts], ['Beams', output.beams]]
      .filter(([, each]) => each?.because).map(([name, each]) => h('p', {class: 'muted small'}, `${name}: ${each.because}`)));
}

export async function showWhy(api, id) {
  const content = h('div', {class: 'stack'}, h('p', {class: 'muted'}, 'Asking …'));
  const dialog = h('dialog', {class: 'dialog wide', 'aria-labelledby': 'why-title'},
    h('div', {class: 'row spread why-head'},
      h('h2', {id: 'why-title'}, 'Where the time went'),
      h('div', {class: 'row'},
        h('button', {type: 'button', class: 'plain', onclick: () => load()}, 'Refresh'),
        h('button', {type: 'button', class: 'primary', onclick: () => dialog.close()}, 'Close'))),
    h('p', {class: 'muted small'}, h('code', {}, id)), content);
  dialog.addEventListener('close', () => dialog.remove());
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  async function load() {
    try {
      const {outputs} = await api.json(`requests/${encodeURIComponent(id)}/why`);
      content.replaceChildren(...outputs.map((each) => outputView(each, outputs.length > 1)));
    } catch (error) {
      content.replaceChildren(errorView(error));
    }
  }
  document.body.append(dialog);
  dialog.showModal();
  await load();
}

// The tab that plans the served model for other devices: the calculator of docs/calculator, with this model's numbers.
import {h} from './dom.js';
import {show} from './plan_view.js';

export function mount(root, api) {
  const sheets = h('div', {class: 'sheets calculator'});
  root.append(h('h1', {class: 'unseen'}, 'Calculator'), sheets);
  const load = async () => {
    sheets.replaceChildren(h('p', {class: 'muted', role: 'status'}, 'Reading the model’s sizes …'));
    try {
      const numbers = await api.json('page/calculator');
      sheets.replaceChildren(h('p', {class: 'about muted'},
        'What this model needs on other devices, and how fast it is there: the numbers of ', h('code', {}, 'quire plan'),
        '. Times are means of an estimate.'));
      show(sheets, numbers, {inAddress: false});
    } catch (error) {
      sheets.replaceChildren(h('div', {role: 'alert'}, h('p', {}, error.message),
        h('button', {type: 'button', onclick: load}, 'Try again')));
    }
  };
  load();
}

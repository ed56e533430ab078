// The tab on the model: what it is, what it takes of the memory, and its tokenizer and chat template
// to try out.
import {h} from './dom.js';
import {bytes, count, significant} from './format.js';
import {sharesBar} from './shares.js';
import {templateTryOut, tokenizerTryOut} from './try_out.js';

function fact(name, value) {
  return h('div', {}, h('dt', {}, name), h('dd', {}, value));
}

function millions(value) {
  return value >= 1e9 ? `${significant(value / 1e9)} billion` : `${significant(value / 1e6)} million`;
}

function architecture({model, engine}) {
  const parameters = model.encodings.reduce((sum, each) => sum + each.elements, 0);
  return h('section', {class: 'sheet', 'aria-labelledby': 'model-name'},
    h('h2', {id: 'model-name'}, model.name),
    h('dl', {class: 'facts'},
      fact('Architecture', model.architecture),
      fact('Parameters', millions(parameters)),
      fact('Layers', count(model.num_layers)),
      fact('Hidden size', count(model.hidden_size)),
      fact('MLP size', count(model.intermediate_size)),
      fact('Attention', model.latent_dims > 0
        ? `${model.num_attention_heads} heads over one latent of ${model.head_dim} (MLA)`
        : `${model.num_attention_heads} heads of ${model.head_dim}, ${model.num_key_value_heads} for keys and values`),
      fact('Vocabulary', `${count(model.vocab_size)} tokens${model.tie_word_embeddings ? ', embeddings tied' : ''}`),
      fact('Rope base', model.rope_theta === null ? 'none' : count(model.rope_theta)),
      fact('Context', `${count(engine.max_model_len)} of ${count(model.max_position_embeddings)} tokens`),
      fact('Chat template', model.chat_template ? 'yes' : 'none'),
      fact('Computes with', engine.isa_level === 'simulated' ? 'nothing: simulated'
        : `${engine.device === 'cpu' ? '' : `${engine.device}, `}${engine.isa_level}, ${engine.threads} threads, ${engine.activation === 'rounded' ? 'activations rounded to the weights’ precision' : 'activations in float32'}`),
      fact('Names in requests', model.served_names.join(', '))));
}

function encodings({model}) {
  return h('section', {class: 'sheet', 'aria-labelledby': 'encodings'},
    h('h2', {id: 'encodings'}, 'Encodings in the checkpoint'),
    h('div', {class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Table of encodings'}, h('table', {},
      h('thead', {}, h('tr', {},
        h('th', {}, 'Encoding'), h('th', {class: 'number'}, 'Tensors'),
        h('th', {class: 'number'}, 'Weights'), h('th', {class: 'number'}, 'Size'),
        h('th', {class: 'number'}, 'Bits each'))),
      h('tbody', {}, model.encodings.map((each) => h('tr', {},
        h('td', {}, each.encoding),
        h('td', {class: 'number'}, count(each.tensors)),
        h('td', {class: 'number'}, count(each.elements)),
        h('td', {class: 'number'}, bytes(each.bytes)),
        h('td', {class: 'number'}, significant(8 * each.bytes / each.elements))))))));
}

function memoryPlan({memory_plan: plan, engine}) {
  const heading = h('h2', {id: 'memory'}, 'Memory plan');
  if (plan === null) {
    return h('section', {class: 'sheet', 'aria-labelledby': 'memory'}, heading,
      h('p', {class: 'muted'}, 'This engine simulates: it has loaded no weights and keeps no keys and values.'));
  }
  const total = Math.max(plan.budget_bytes, plan.total_bytes);
  const parts = [
    {label: 'Weights', value: plan.weight_bytes, kind: 'data-1'},
    {label: 'KV cache', value: plan.kv_cache_bytes, kind: 'data-2'},
    {label: 'Activations', value: plan.activation_bytes, kind: 'data-3'},
    {label: 'Workspaces', value: plan.workspace_bytes, kind: 'data-4'},
    {label: 'Tokenizer and tables', value: plan.table_bytes, kind: 'data-5'},
    {label: 'Free in the budget', value: total - plan.total_bytes, kind: 'data-none'},
  ];
  const where = plan.memory_limit === 'gpu' ? plan.gpu : plan.memory_limit === 'cgroup' ? 'the container' : 'the machine';
  return h('section', {class: 'sheet', 'aria-labelledby': 'memory'}, heading,
    sharesBar({label: 'Memory plan', parts, write: bytes, total}),
    h('p', {class: 'muted small'},
      `${bytes(plan.total_bytes)} planned, of a budget of ${bytes(plan.budget_bytes)}; ${where} has ${bytes(plan.memory_total_bytes)}. ` +
      `The KV cache holds ${count(plan.kv_tokens)} tokens in ${count(plan.num_blocks)} ${blockText(plan)} ` +
      `(${engine.kv_cache_dtype}, ${bytes(engine.kv_bytes_per_token)} a token): ` +
      `${significant(plan.full_sequences)} sequences of ${count(plan.max_model_len)} tokens at once.${groupText(plan)}`));
}

// Where a block takes several pages, the pool is counted in these.
function blockText(plan) {
  const pages = plan.kv_groups.reduce((sum, group) => sum + group.pages_per_block, 0);
  return pages === 1 ? `blocks of ${plan.block_size}` : `pages, ${pages} for a block of ${plan.block_size}`;
}

function groupText(plan) {
  if (plan.kv_groups.every((group) => group.window === 0 && group.state_bytes === 0)) return '';
  const kept = (group) => {
    if (group.state_bytes !== 0) return `a state of ${bytes(group.state_bytes)}`;
    return group.window === 0 ? 'all tokens' : `the last ${count(group.window)}`;
  };
  const texts = plan.kv_groups.map((group) => `${count(group.num_layers)} layers keep ${kept(group)}`);
  return ` Of a sequence ${texts.join(', ')}.`;
}

export function mount(root, api) {
  root.append(h('div', {class: 'sheets'},
    h('h1', {class: 'unseen'}, 'Model'),
    architecture(api.info), memoryPlan(api.info), encodings(api.info),
    tokenizerTryOut(api), api.info.model.chat_template ? templateTryOut(api) : null));
}

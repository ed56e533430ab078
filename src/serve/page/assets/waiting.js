// What happens to a request until its first token: how many are ahead of it, then how much of its prompt
// has been read. From the engine's own stream, which is opened only for a request that waits a while.
import {count, duration, percent} from './format.js';
import {LiveStream} from './live_stream.js';

const PATIENCE_MS = 300;
const HZ = 4;

// What the engine's state says of the request, or null where it knows none. `first` is an earlier
// state, from which the rate follows at which requests end.
export function waitingText(state, requestId, first) {
  const mine = ({id}) => id.endsWith(`-${requestId}`);
  const runs = state.running.find(mine);
  if (runs) {
    const share = runs.computed_tokens / runs.prompt_tokens;
    return share < 1 ? `reading the prompt ${percent(share)}` : 'the first token is near';
  }
  const place = state.waiting.findIndex(mine);
  // Only the head of a long queue is told: who is not in it is behind all of those.
  if (place < 0 && state.num_waiting <= state.waiting.length) return null;
  const ahead = place < 0 ? state.waiting.length : place;
  const ended = state.totals.requests_ended - first.totals.requests_ended;
  const time = state.time_s - first.time_s;
  const about = ended > 0 && time > 0 ? `, about ${duration(Math.max(1, Math.round((ahead + 1) * time / ended)))}` : '';
  return `queued, ${place < 0 ? 'more than ' : ''}${count(ahead)} ahead${about}`;
}

// Calls `show(text)` as what is known of the request changes, until the function that it returns is
// called.
export function watchWaiting(api, requestId, show) {
  let first = null;
  const stream = new LiveStream(api, HZ, {
    event(state) {
      first ??= state;
      const text = waitingText(state, requestId, first);
      if (text !== null) show(text);
    },
    connection() {},  // the request itself tells of trouble
    restarted() { first = null; },
  });
  const timer = setTimeout(() => stream.start(), PATIENCE_MS);
  return () => {
    clearTimeout(timer);
    stream.stop();
  };
}

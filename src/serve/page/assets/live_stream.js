// The stream of what the engine does: connects, and connects again after the server has gone, until
// it is stopped.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5000;

// `on` is told: event(state, steps) of each event; connection('live', null) before it, and
// connection('waiting', error) of each failure; restarted() before the first event of another run of
// the server.
export class LiveStream {
  constructor(api, hz, on) {
    this.api = api;
    this.hz = hz;
    this.on = on;
    this.abort = null;
    this.last = null;  // {time_s, steps} of the last event
  }

  start() {
    if (this.abort) return;
    this.abort = new AbortController();
    this.#run(this.abort.signal);
  }

  stop() {
    this.abort?.abort();
    this.abort = null;
  }

  async #run(signal) {
    let wait = FIRST_WAIT_MS;
    while (!signal.aborted) {
      let failure = null;
      try {
        for await (const event of this.api.events(`engine/live?hz=${this.hz}`, {signal})) {
          if (signal.aborted) return;
          wait = FIRST_WAIT_MS;
          this.#take(event);
        }
      } catch (error) {
        failure = error;
      }
      if (signal.aborted) return;
      this.on.connection('waiting', failure);
      await pause(wait, signal);
      wait = Math.min(2 * wait, LONGEST_WAIT_MS);
    }
  }

  // The engine's clock and its count of steps begin with the engine. The clock alone would not tell of one
  // that was started again soon and found late.
  #take({state, steps}) {
    const now = {time_s: state.time_s, steps: state.totals.steps};
    if (this.last && (now.time_s < this.last.time_s || now.steps < this.last.steps)) this.on.restarted();
    this.last = now;
    this.on.connection('live', null);
    this.on.event(state, steps);
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    }, {once: true});
  });
}

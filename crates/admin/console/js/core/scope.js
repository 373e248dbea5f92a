/**
 * Ends everything that a page has started (timers, listeners, requests) with the page, by one signal.
 */
export class Scope {
  constructor() {
    this.controller = new AbortController();
  }

  /** Fires when the scope ends. */
  get signal() {
    return this.controller.signal;
  }

  /** Ends everything that was started in it. */
  end() {
    this.controller.abort();
  }

  /**
   * Runs a task now and again and again, never twice at once and not while nobody looks.
   * @param {number} pauseMs between the end of one run and the start of the next
   * @param {() => Promise<void>} task reports its own errors
   */
  async every(pauseMs, task) {
    while (!this.signal.aborted) {
      await visible(this.signal);
      if (this.signal.aborted) {
        return;
      }
      await task();
      await sleep(pauseMs, this.signal);
    }
  }
}

/**
 * Waits; returns early if the signal fires.
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleep(ms, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}

/**
 * Combines calls: the function runs once, some time after the first call.
 * @param {number} ms
 * @param {() => void} run
 */
export function soon(ms, run) {
  let waiting = false;
  return () => {
    if (waiting) {
      return;
    }
    waiting = true;
    setTimeout(() => {
      waiting = false;
      run();
    }, ms);
  };
}

/**
 * Runs the function when there have been no calls for a moment.
 * @param {number} ms
 * @param {(...args: any[]) => void} run
 */
export function settled(ms, run) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...args), ms);
  };
}

function visible(signal) {
  if (!document.hidden) {
    return Promise.resolve();
  }
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", resolve, { once: true, signal });
    signal.addEventListener("abort", resolve, { once: true });
  });
}

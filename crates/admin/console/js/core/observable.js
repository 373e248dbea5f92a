/**
 * A value with listeners for changes.
 * @template T
 */
export class Observable {
  /** @param {T} value */
  constructor(value) {
    this.current = value;
    this.listeners = new Set();
  }

  /** @returns {T} */
  get value() {
    return this.current;
  }

  /** @param {T} value */
  set value(value) {
    if (Object.is(value, this.current)) {
      return;
    }
    this.current = value;
    for (const listener of [...this.listeners]) {
      listener(value);
    }
  }

  /**
   * Calls the listener now and at each change, until the signal says stop.
   * @param {(value: T) => void} listener
   * @param {AbortSignal} [signal]
   */
  follow(listener, signal) {
    this.onChange(listener, signal);
    listener(this.current);
  }

  /**
   * Calls the listener at each change, until the signal says stop.
   * @param {(value: T) => void} listener
   * @param {AbortSignal} [signal]
   */
  onChange(listener, signal) {
    this.listeners.add(listener);
    signal?.addEventListener("abort", () => this.listeners.delete(listener));
  }
}

/** Handles of names: what a name means, found once and again when the schema changed. */
import type { SourceView } from '../model/source.ts';
import { WRITER } from '../storage/pages.ts';
import type { Store } from './store.ts';

/** What a name means in the view asked for, remembered for one version of the schema. */
export abstract class Handle<Resolved> {
  readonly name: string;
  protected readonly store: Store;
  #epoch = 0;
  #isChanged = false;
  #resolved: Resolved | undefined;

  constructor(store: Store, name: string) {
    this.store = store;
    this.name = name;
  }

  protected at(view: SourceView): Resolved {
    const isChanged = view === WRITER && this.store.isSchemaChanged;
    if (
      this.#epoch === this.store.epoch &&
      this.#isChanged === isChanged &&
      view >= this.store.schemaCommit
    )
      return this.#resolved!;
    const resolved = this.resolve(view);
    if (view >= this.store.schemaCommit) {
      this.#epoch = this.store.epoch;
      this.#isChanged = isChanged;
      this.#resolved = resolved;
    }
    return resolved;
  }

  protected abstract resolve(view: SourceView): Resolved;
}

/**
 * The plain model of a layout trial: a million operations are compared with it in every test run,
 * so that it keeps what it holds in arrays by key, and takes back changes instead of copying all.
 *
 * Keys, ids and tags are whole numbers of one range, from `low` on.
 */
export interface Person {
  readonly mark: number;
  /** A number that no other person has. */
  readonly tag: number;
}

export class LayoutModel {
  readonly #low: number;
  readonly #values: (Uint8Array | undefined)[];
  readonly #people: (Person | undefined)[];
  /** By tag, the id of who has it. */
  readonly #owners: (number | undefined)[];
  #undo: (() => void)[] = [];
  valueCount = 0;
  personCount = 0;

  constructor(low: number, keyCount: number) {
    this.#low = low;
    this.#values = Array.from({ length: keyCount }, () => undefined);
    this.#people = Array.from({ length: keyCount }, () => undefined);
    this.#owners = Array.from({ length: keyCount }, () => undefined);
  }

  // ---- taking back

  /** What `rollbackTo` takes everything behind it back to. */
  get mark(): number {
    return this.#undo.length;
  }

  rollbackTo(mark: number): void {
    while (this.#undo.length > mark) this.#undo.pop()!();
  }

  /** Makes everything stay. */
  commit(): void {
    this.#undo.length = 0;
  }

  // ---- values

  value(key: number): Uint8Array | undefined {
    return this.#values[key - this.#low];
  }

  setValue(key: number, value: Uint8Array | undefined): void {
    const old = this.value(key);
    this.#undo.push(() => this.#setValue(key, old));
    this.#setValue(key, value);
  }

  #setValue(key: number, value: Uint8Array | undefined): void {
    this.valueCount += Number(value !== undefined) - Number(this.value(key) !== undefined);
    this.#values[key - this.#low] = value;
  }

  /** Keys from one to another, both included, in order. */
  keys(from: number, to: number): number[] {
    const keys: number[] = [];
    const low = this.#low;
    const end = Math.min(to - low, this.#values.length - 1);
    for (let at = Math.max(0, from - low); at <= end; at++)
      if (this.#values[at] !== undefined) keys.push(at + low);
    return keys;
  }

  // ---- people

  person(id: number): Person | undefined {
    return this.#people[id - this.#low];
  }

  setPerson(id: number, person: Person | undefined): void {
    const old = this.person(id);
    this.#undo.push(() => this.#setPerson(id, old));
    this.#setPerson(id, person);
  }

  #setPerson(id: number, person: Person | undefined): void {
    const old = this.person(id);
    if (old !== undefined && this.ownerOf(old.tag) === id)
      this.#owners[old.tag - this.#low] = undefined;
    if (person !== undefined) this.#owners[person.tag - this.#low] = id;
    this.personCount += Number(person !== undefined) - Number(old !== undefined);
    this.#people[id - this.#low] = person;
  }

  ownerOf(tag: number): number | undefined {
    return this.#owners[tag - this.#low];
  }

  /** Ids of those who have a mark, in order. */
  idsOf(mark: number): number[] {
    const ids: number[] = [];
    for (let at = 0; at < this.#people.length; at++)
      if (this.#people[at]?.mark === mark) ids.push(at + this.#low);
    return ids;
  }
}

/**
 * Running a plan and telling what each node did: rows, batches, time, pages, memory, spills.
 *
 * Every operator is wrapped in one that measures its calls. Time and pages of a node include those
 * of its inputs, as its calls do; memory and spills are its own, since each operator gets a work
 * space of its own that counts what passes through.
 */
import type { Batch } from '../model/batch.ts';
import { isPending, type Pending } from '../model/source.ts';
import type { SpillRun, WorkArea, WorkSpace } from '../model/work.ts';
import { inputsOf, type Plan } from './algebra.ts';
import { nodeText } from './explain.ts';
import type { Tables } from './access-path.ts';
import type { Execution, Operator } from './operator.ts';

/** What one node of a plan did. */
export interface NodeReport {
  /** The node as text. */
  readonly node: string;
  readonly rows: number;
  /** Calls that answered rows; 0 for a row plan, which makes no batches. */
  readonly batches: number;
  /** Milliseconds, those of the inputs included. */
  readonly ms: number;
  /** Pages read from the file, those of the inputs included; pages in the cache are not read. */
  readonly pagesRead: number;
  /** Most bytes of working memory that the node itself held at a time. */
  readonly memoryBytes: number;
  /** Sorted runs that the node wrote to the spill file, and their bytes. */
  readonly spills: number;
  readonly spilledBytes: number;
  readonly inputs: readonly NodeReport[];
}

/** Counters that an analysis reads before and after. */
export interface Meter {
  /** Pages read from the file so far. */
  readonly pagesRead: () => number;
  /** Bytes of working memory that are charged now, by whomever. */
  readonly workBytes: () => number;
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number;
}

/** What is counted of one node while it runs. */
class Measure {
  rows = 0;
  batches = 0;
  ms = 0;
  pagesRead = 0;
  heldBytes = 0;
  memoryBytes = 0;
  spills = 0;
  spilledBytes = 0;

  hold(bytes: number): void {
    this.heldBytes += bytes;
    this.memoryBytes = Math.max(this.memoryBytes, this.heldBytes);
  }
}

/** Measures the nodes of a plan; `wrap` and `executionOf` are for whoever makes the operators. */
export class Analysis {
  readonly #meter: Meter;
  readonly #measures = new Map<Plan, Measure>();

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  #measureOf(plan: Plan): Measure {
    const known = this.#measures.get(plan);
    if (known !== undefined) return known;
    const made = new Measure();
    this.#measures.set(plan, made);
    return made;
  }

  /** The execution of one node, whose work space counts. */
  executionOf(plan: Plan, execution: Execution): Execution {
    return { ...execution, work: new CountedWork(execution.work, this.#measureOf(plan)) };
  }

  /** The operator of a node, measured. */
  wrap(plan: Plan, operator: Operator): Operator {
    const measure = this.#measureOf(plan);
    return {
      next: () => this.time(plan, () => counted(operator.next(), measure)),
      close: () => operator.close(),
    };
  }

  /** Runs a part of a node's work on its account. */
  time<T>(plan: Plan, run: () => T): T {
    const measure = this.#measureOf(plan);
    const pages = this.#meter.pagesRead();
    const held = this.#meter.workBytes();
    const start = this.#meter.now();
    try {
      return run();
    } finally {
      // A source takes memory for its batches by itself.
      if (plan.node === 'scan') measure.hold(this.#meter.workBytes() - held);
      measure.ms += this.#meter.now() - start;
      measure.pagesRead += this.#meter.pagesRead() - pages;
    }
  }

  /** Counts a row of a node that makes no batches. */
  addRow(plan: Plan): void {
    this.#measureOf(plan).rows++;
  }

  /** What the nodes of a plan did. */
  report(plan: Plan, tables: Tables): NodeReport {
    const { rows, batches, ms, pagesRead, memoryBytes, spills, spilledBytes } =
      this.#measureOf(plan);
    const inputs = inputsOf(plan).map((each) => this.report(each, tables));
    const node = nodeText(plan, tables);
    return { node, rows, batches, ms, pagesRead, memoryBytes, spills, spilledBytes, inputs };
  }
}

function counted(
  answer: Batch | undefined | Pending,
  measure: Measure,
): Batch | undefined | Pending {
  if (answer === undefined || isPending(answer)) return answer;
  measure.batches++;
  measure.rows += answer.rowCount;
  return answer;
}

/** A work space that counts what one node takes of it. */
class CountedWork implements WorkSpace {
  readonly #work: WorkSpace;
  readonly #measure: Measure;

  constructor(work: WorkSpace, measure: Measure) {
    this.#work = work;
    this.#measure = measure;
  }

  get availableBytes(): number {
    return this.#work.availableBytes;
  }

  reserve(byteCount: number): WorkArea {
    const area = this.#work.reserve(byteCount);
    const measure = this.#measure;
    measure.hold(byteCount);
    let isHeld = true;
    return {
      bytes: area.bytes,
      release: () => {
        if (isHeld) measure.hold(-byteCount);
        isHeld = false;
        area.release();
      },
    };
  }

  charge(byteCount: number): void {
    this.#work.charge(byteCount);
    this.#measure.hold(byteCount);
  }

  release(byteCount: number): void {
    this.#work.release(byteCount);
    this.#measure.hold(-byteCount);
  }

  spill(): SpillRun {
    const run = this.#work.spill();
    const measure = this.#measure;
    measure.spills++;
    return {
      append: (bytes, from, to) => {
        measure.spilledBytes += to - from;
        run.append(bytes, from, to);
      },
      rewind: () => run.rewind(),
      read: (target) => run.read(target),
      close: () => run.close(),
    };
  }
}

/** A report as text, one node a line, inputs indented below. */
export function reportText(report: NodeReport, depth = 0): string {
  const { node, rows, ms, pagesRead, memoryBytes, spills, spilledBytes, inputs } = report;
  const parts = [`${rows} rows`, `${ms.toFixed(3)} ms`, `${pagesRead} pages read`];
  if (memoryBytes > 0) parts.push(`${memoryBytes} bytes`);
  if (spills > 0) parts.push(`${spills} spills of ${spilledBytes} bytes`);
  const own = `${'  '.repeat(depth)}${node} (${parts.join(', ')})`;
  return [own, ...inputs.map((each) => reportText(each, depth + 1))].join('\n');
}

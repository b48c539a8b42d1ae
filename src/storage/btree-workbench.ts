/**
 * What writing a tree needs beside its pages: scratch nodes and entries, one set for all trees of
 * a pager, since one write runs at a time. Nothing in it means anything between two calls.
 *
 * It takes about `WORKBENCH_PAGES` pages of memory, from the first write on.
 */
import { Entry, NodeEditor } from './btree-edit.ts';
import { Limits } from './btree-node.ts';
import { Sequence } from './btree-sequence.ts';
import type { Pages } from './pages.ts';

/** Bound of the memory of a workbench, in pages: what a ledger charges for it. */
export const WORKBENCH_PAGES = 16;

const benches = new WeakMap<Pages, Workbench>();

export class Workbench {
  /** The node that put or delete changes. */
  readonly target: NodeEditor;
  readonly entry = new Entry();
  readonly removed = new Entry();
  // The rest is for changes of several nodes: see btree-split.ts.
  readonly node: NodeEditor;
  readonly fresh: NodeEditor;
  readonly parent: NodeEditor;
  readonly left: NodeEditor;
  readonly right: NodeEditor;
  readonly sequence: Sequence;
  readonly staged = [new Entry(), new Entry()] as const;
  readonly old = new Entry();
  readonly key: Uint8Array;

  /** The workbench of a pager. */
  static of(pages: Pages): Workbench {
    let bench = benches.get(pages);
    if (bench === undefined) benches.set(pages, (bench = new Workbench(pages)));
    return bench;
  }

  private constructor(pages: Pages) {
    this.target = new NodeEditor(pages);
    this.node = new NodeEditor(pages);
    this.fresh = new NodeEditor(pages);
    this.parent = new NodeEditor(pages);
    this.left = new NodeEditor(pages).atScratch(new ArrayBuffer(pages.pageBytes));
    this.right = new NodeEditor(pages).atScratch(new ArrayBuffer(pages.pageBytes));
    this.sequence = new Sequence(new Limits(pages.usableBytes), this.node);
    this.key = new Uint8Array(pages.usableBytes + 1);
  }
}

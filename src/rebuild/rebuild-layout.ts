/**
 * Layouts that a rebuild is asked for, checked and completed from what the file has.
 *
 * Line 6 of the strata. A setting that is not named stays as it is; one that is named for the
 * whole file holds for every tree that is not named itself.
 */
import { parseSize } from '../base/sizes.ts';
import { failure } from '../errors.ts';
import { unknownName, type TreeLayout } from '../model/schema.ts';
import { requireNames } from '../base/arguments.ts';
import { checkLayout } from '../storage/btree.ts';
import type { FileLayout } from '../storage/header.ts';
import { LATEST } from '../storage/pages.ts';
import type { Catalog } from '../store/catalog.ts';
import { treeLayout } from '../store/store.ts';

/** Shape of one tree as a rebuild takes it. */
export interface TreeChange {
  readonly tree?: 'b+tree' | 'b-tree';
  /** Children of a node at the most, 3 to 65,535; 0 for what fits a page. */
  readonly order?: number;
}

/** Layout of one collection, and of its indexes by name. */
export interface CollectionChange extends TreeChange {
  readonly clusterSize?: number | string;
  readonly indexes?: Readonly<Record<string, TreeChange>>;
}

/** A layout as `rebuild` takes it; what is left out stays as it is in the file. */
export interface LayoutChange {
  readonly pageSize?: number | string;
  readonly extentSize?: number | string;
  /** For every collection that is not named in `collections`. */
  readonly clusterSize?: number | string;
  /** For every tree that is not named in `collections`. */
  readonly index?: TreeChange;
  readonly collections?: Readonly<Record<string, CollectionChange>>;
}

/** One tree of the new file. */
export interface PlannedTree {
  readonly collection: string;
  /** `undefined` for the collection's own tree. */
  readonly index: string | undefined;
  readonly layout: TreeLayout;
}

/** The whole layout of the new file, as plain data that can be compared as text. */
export interface LayoutPlan {
  readonly file: FileLayout;
  readonly trees: readonly PlannedTree[];
}

const CHANGE_NAMES = ['pageSize', 'extentSize', 'clusterSize', 'index', 'collections'];
const TREE_NAMES = ['tree', 'order'];

/**
 * Completes a change to the layout of everything in the file.
 *
 * @throws {UsageError} usage.argument, usage.layout
 * @throws {SchemaError} for collections and indexes that the file does not have.
 */
export function planLayout(file: FileLayout, catalog: Catalog, change: LayoutChange): LayoutPlan {
  requireNames('a layout', change, CHANGE_NAMES);
  if (change.index !== undefined) requireNames('index', change.index, TREE_NAMES);
  const named = change.collections ?? {};
  refuseUnknownCollections(catalog, named);
  const planned = planFile(file, change);
  const trees = catalog.collections(LATEST).flatMap(({ structure, definition }) => {
    const own = named[definition.name] ?? {};
    const wanted = { ...change.index, ...pickTree(own) };
    const cluster = clusterOf(own.clusterSize ?? change.clusterSize);
    const indexes = catalog.indexes(structure, LATEST).map((entry) => entry.definition);
    const known = indexes.map((index) => index.name);
    for (const name of Object.keys(own.indexes ?? {})) {
      if (known.includes(name)) continue;
      throw unknownName('schema.unknown_index', `index of ${definition.name} named`, name, known);
    }
    const tree = (index: string | undefined, layout: TreeLayout, over: TreeChange): PlannedTree => {
      const where = index === undefined ? definition.name : `${definition.name}.${index}`;
      return {
        collection: definition.name,
        index,
        layout: completeTree(where, layout, over, cluster, planned),
      };
    };
    return [
      tree(undefined, definition.layout, wanted),
      ...indexes.map((index) => {
        const over = own.indexes?.[index.name] ?? {};
        requireNames(`index ${index.name}`, over, TREE_NAMES);
        return tree(index.name, index.layout, { ...wanted, ...over });
      }),
    ];
  });
  return { file: planned, trees };
}

function refuseUnknownCollections(
  catalog: Catalog,
  named: Readonly<Record<string, CollectionChange>>,
): void {
  const known = catalog.collectionNames(LATEST);
  for (const [name, own] of Object.entries(named)) {
    requireNames(`collection ${name}`, own, [...TREE_NAMES, 'clusterSize', 'indexes']);
    if (known.includes(name)) continue;
    throw unknownName('schema.unknown_collection', 'collection', name, known);
  }
}

function pickTree(own: CollectionChange): TreeChange {
  return {
    ...(own.tree !== undefined && { tree: own.tree }),
    ...(own.order !== undefined && { order: own.order }),
  };
}

function clusterOf(size: number | string | undefined): number | undefined {
  return size === undefined ? undefined : parseSize('clusterSize', size);
}

function isPowerOfTwo(value: number): boolean {
  return Number.isInteger(Math.log2(value));
}

/** The settings of the whole file; an extent keeps its number of pages unless it is named. */
function planFile(file: FileLayout, change: LayoutChange): FileLayout {
  const pageBytes =
    change.pageSize === undefined ? file.pageBytes : parseSize('pageSize', change.pageSize);
  const extentBytes =
    change.extentSize === undefined
      ? (file.extentBytes / file.pageBytes) * pageBytes
      : parseSize('extentSize', change.extentSize);
  const clusterBytes = clusterOf(change.clusterSize) ?? Math.min(file.clusterBytes, pageBytes / 2);
  const refuse = (what: string): Error => failure('usage.layout', `no layout can have ${what}`);
  if (!isPowerOfTwo(pageBytes) || pageBytes < 4096 || pageBytes > 65_536) {
    throw refuse(`pageSize ${pageBytes}: it is a power of two from 4 KiB to 64 KiB`);
  }
  if (extentBytes % pageBytes !== 0 || extentBytes < pageBytes) {
    throw refuse(`extentSize ${extentBytes}: it is a multiple of pageSize ${pageBytes}`);
  }
  if (!isPowerOfTwo(clusterBytes) || clusterBytes < 256 || clusterBytes > pageBytes / 2) {
    throw refuse(`clusterSize ${clusterBytes}: it is a power of two from 256 to half a page`);
  }
  const tree = change.index?.tree ?? file.tree;
  const order = change.index?.order ?? file.order;
  return { pageBytes, extentBytes, clusterBytes, tree, order };
}

function completeTree(
  where: string,
  layout: TreeLayout,
  over: TreeChange,
  clusterBytes: number | undefined,
  file: FileLayout,
): TreeLayout {
  const inFile = Math.min(layout.clusterSize, file.pageBytes / 2);
  const planned: TreeLayout = {
    tree: over.tree ?? layout.tree,
    order: over.order ?? layout.order,
    clusterSize: clusterBytes ?? inFile,
  };
  if (planned.tree !== 'b+tree' && planned.tree !== 'b-tree') {
    throw failure('usage.layout', `${where}: no tree is of kind ${String(planned.tree)}`, {
      hint: "the kinds are 'b+tree' and 'b-tree'",
    });
  }
  const { order } = planned;
  if (order !== 0 && !(Number.isInteger(order) && order >= 3 && order <= 65_535)) {
    throw failure('usage.layout', `${where}: order ${order} is not 0, nor from 3 to 65535`);
  }
  checkLayout(treeLayout(planned), file.pageBytes);
  return planned;
}

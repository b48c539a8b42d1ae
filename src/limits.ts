/**
 * Every bound of the database that is not a layout setting, with its unit and its reason
 * (STYLE rule 12).
 */

/** Bytes of an encoded key: a key must fit memory many times over, whatever the budget. */
export const KEY_BYTES_MAX = 1024 * 1024;

/** Bytes of an encoded record or value: positions inside a record are 31-bit integers. */
export const RECORD_BYTES_MAX = 2 ** 31 - 1;

/** Bytes of the UTF-8 name of a collection, index, field or collation: names live in the heap. */
export const NAME_BYTES_MAX = 1024;

/** Declared fields of a collection, dropped ones included: SQLite's default for columns. */
export const FIELDS_MAX = 2000;

/** Different undeclared field names of a collection: their dictionary lives in the heap. */
export const OPEN_FIELDS_MAX = 65_536;

/** Parts of one composite key: what others allow, and small enough for a bit mask. */
export const KEY_PARTS_MAX = 31;

/** Levels of lists and maps inside a value: decoding recurses, and the stack is finite. */
export const VALUE_DEPTH_MAX = 500;

/** Bytes that a scratch buffer keeps between calls: longer ones are given back. */
export const SCRATCH_BYTES_KEPT = 16 * 1024;

/** Memory budget, bytes, when `open` does not say: small and fixed, not a share of the machine. */
export const MEMORY_BYTES_DEFAULT = 32 * 1024 * 1024;

/** Least memory budget, bytes: the log buffer, tables of a small file and one chunk of cache. */
export const MEMORY_BYTES_MIN = 2 * 1024 * 1024;

/**
 * Pages that the memory budget holds at least: a transaction that spills, compaction and backups go
 * on with that many. So 2 MiB serve pages up to 16 KiB, those of 32 KiB need 3, of 64 KiB 6 MiB.
 */
export const MEMORY_PAGES_MIN = 96;

/**
 * Bytes of the memory budget that stand for the package's own code, compiled: of the store at open,
 * of objects and questions at the first collection; at most this share of what the budget has
 * beyond the least. All of it takes 3.5 to 4.7 MB (what the heap holds after W1, W2 and W5 beyond
 * what is charged for, Node 20), for which law M1 leaves 4 MiB beside the budget.
 */
export const CODE = {
  store: { bytesMax: 1024 * 1024, share: 1 / 8 },
  objects: { bytesMax: 640 * 1024, share: 0.3 },
};

/** Length of a text or of bytes that a trace writes out: of longer ones length and hash suffice. */
export const TRACE_VALUE_BYTES_MAX = 16 * 1024;

/** Bytes of a trace that wait in memory: one write of the file system is cheap from there on. */
export const TRACE_BUFFER_BYTES = 64 * 1024;

/** Bytes of a trace file when its size is not given: an application forgets that it records. */
export const TRACE_BYTES_DEFAULT = 1024 * 1024 * 1024;

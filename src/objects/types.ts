/**
 * The types of records, inferred from how a collection is declared. Nothing here exists at run
 * time; `test/objects/types.test.ts` says what must and must not compile.
 */
import type { FieldType } from '../model/schema.ts';
import type {
  Duration,
  LocalDate,
  LocalDateTime,
  LocalTime,
  Point,
  ZonedDateTime,
  ZonedTime,
} from '../model/temporal.ts';
import type { Float, Int, Value, ValueMap } from '../model/value.ts';

/** Types of fields by name: `{ id: 'int', joined: 'datetime?' }`. */
export type FieldTypes = { readonly [name: string]: FieldType | `${FieldType}?` };

/** What reading a field gives. An integer beyond ±(2^53 − 1) arrives as a bigint. */
interface ReadKinds {
  bool: boolean;
  int: number;
  float: number;
  number: number;
  text: string;
  bytes: Uint8Array;
  date: LocalDate;
  time: LocalTime;
  zonedtime: ZonedTime;
  localdatetime: LocalDateTime;
  datetime: ZonedDateTime;
  duration: Duration;
  point: Point;
  list: readonly Value[];
  map: ValueMap;
  json: Value;
  any: Value;
}

/** What else may be written to a field. */
interface WrittenKinds {
  int: bigint | Int;
  float: Float;
  number: bigint | Int | Float;
  datetime: Date;
  map: ReadonlyMap<string, Value>;
}

type ReadKind<T extends FieldType> = ReadKinds[T];
type WrittenKind<T extends FieldType> =
  ReadKinds[T] | (T extends keyof WrittenKinds ? WrittenKinds[T] : never);

/** A validator of records as Standard Schema defines it (Zod, Valibot, ArkType and others). */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What may stand as `fields` of a declaration. */
export type FieldsInput = FieldTypes | StandardSchema;

/** The key of a declaration: a field, or fields; without one, records get an `id`. */
export type KeyInput = string | readonly string[] | undefined;

type Flat<T> = { [K in keyof T]: T[K] } & {};

type OptionalNames<F> = { [K in keyof F]: F[K] extends `${string}?` ? K : never }[keyof F];

type Read<T> = T extends `${infer B extends FieldType}?`
  ? ReadKind<B> | null
  : T extends FieldType
    ? ReadKind<T>
    : never;
type Written<T> = T extends `${infer B extends FieldType}?`
  ? WrittenKind<B> | null | undefined
  : T extends FieldType
    ? WrittenKind<T>
    : never;

type OutputOf<F> =
  F extends StandardSchema<infer _I, infer O> ? O : { -readonly [K in keyof F]: Read<F[K]> };

/** Names that a record may be written without. */
type LooseNames<F, K, D> =
  | OptionalNames<F>
  | (keyof D & keyof F)
  | (K extends keyof F ? (F[K] extends 'int' ? K : never) : never)
  | (K extends undefined ? 'id' & keyof F : never);

type InputOf<F, K, D> =
  F extends StandardSchema<infer I, infer _O>
    ? I
    : { -readonly [N in Exclude<keyof F, LooseNames<F, K, D>>]: Written<F[N]> } & {
        -readonly [N in LooseNames<F, K, D> & keyof F]?: Written<F[N]> | undefined;
      };

/** The record that reading gives. */
export type RecordOf<F, K = undefined> = Flat<
  OutputOf<F> &
    (K extends undefined ? ('id' extends keyof OutputOf<F> ? unknown : { id: number }) : unknown)
>;

/** What `insert` and `save` take. */
export type RecordInputOf<F, K = undefined, D = unknown> = Flat<
  InputOf<F, K, D> &
    (K extends undefined ? ('id' extends keyof OutputOf<F> ? unknown : { id?: number }) : unknown)
>;

type FieldOf<R, N> = N extends keyof R ? R[N] : Value;

/** The key of a record: the value of its field, or a list of values of several. */
export type KeyOf<R, K> = K extends undefined
  ? FieldOf<R, 'id'>
  : K extends readonly string[]
    ? { readonly [I in keyof K]: FieldOf<R, K[I]> }
    : FieldOf<R, K>;

/** The objects that name one record by a unique index, or by its key. */
export type UniqueOf<R, U, K> =
  | (U extends readonly unknown[] ? UniqueEntry<R, U[number]> : never)
  | UniqueEntry<R, K extends undefined ? 'id' : K>;

/** What stands for a list in a unique index: one of its elements. */
type UniqueValue<T> = T extends readonly (infer E)[] ? E : T;
type BareName<N> = N extends `${infer F}[]` ? F : N;

type UniqueEntry<R, E> = E extends string
  ? { readonly [N in E as BareName<N> & string]: UniqueValue<FieldOf<R, BareName<N>>> }
  : E extends readonly string[]
    ? { readonly [N in E[number] as BareName<N> & string]: UniqueValue<FieldOf<R, BareName<N>>> }
    : E extends { readonly parts: infer P }
      ? UniqueEntry<R, P>
      : E extends { readonly field: infer N extends string }
        ? { readonly [M in N]: UniqueValue<FieldOf<R, M>> }
        : never;

/** A field, or a path into one that holds maps: `'address.city'`. */
export type PathOf<R> =
  | (keyof R & string)
  | {
      [K in keyof R & string]: IsPlainMap<NonNullable<R[K]>> extends true
        ? `${K}.${string}`
        : never;
    }[keyof R & string];

/** Whether values of a type may be maps: `json` is, texts and dates are not. */
type IsPlainMap<T> = ValueMap extends T ? true : T extends Leaf ? false : true;
type Leaf =
  | string
  | number
  | bigint
  | boolean
  | Uint8Array
  | readonly unknown[]
  | Date
  | LocalDate
  | LocalTime
  | ZonedTime
  | LocalDateTime
  | ZonedDateTime
  | Duration
  | Point;

/** The value that a field of a record, or a path, is compared with. */
export type OperandOf<R, P> = P extends keyof R ? Comparable<R[P]> : Value;

/** Kinds that compare with more than they are read as. */
export type Comparable<T> =
  T | (ZonedDateTime extends T ? Date : never) | (number extends T ? bigint | Int | Float : never);

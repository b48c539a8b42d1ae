#!/usr/bin/env node
/**
 * The command line: `monochord COMMAND`. Exit codes are in `output.ts` and in the help.
 *
 * Line 9 of the strata.
 */
import { Command, CommanderError, Option } from 'commander';
import { DUMP_FORMATS } from '../dump/formats.ts';
import type { DumpFlags, LoadFlags } from './dump-load.ts';
import { infoCommand } from './file-layout.ts';
import { backupCommand, checkCommand, compactCommand, memoryCommand } from './maintenance.ts';
import { EXIT, explain } from './output.ts';
import { rebuildCommand, type RebuildFlags } from './rebuild.ts';
import { getCommand, listCommand } from './records.ts';
import { tuneCommand, type TuneFlags } from './tune.ts';

const EXIT_TEXT = `
Exit codes: 0 done, 1 failed, 2 used wrongly, 3 check found faults, 4 worse than the baseline,
5 no layout meets the objective, 130 interrupted (what is finished is kept).`;

/** Runs an action; what it throws is explained, what it answers is the exit code. */
function run<A extends unknown[]>(
  action: (...args: A) => number | void | Promise<number | void>,
): (...args: A) => Promise<void> {
  return async (...args) => {
    try {
      process.exitCode = (await action(...args)) ?? EXIT.done;
    } catch (cause) {
      const options = args.find(
        (each) => typeof each === 'object' && each !== null && 'json' in each,
      );
      process.exitCode = explain(cause, (options ?? {}) as { json?: boolean });
    }
  };
}

function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ monochord ${line}`).join('\n')}`;
}

const program = new Command('monochord')
  .description('Embedded database: look at files, check them, rebuild them, tune their layout.')
  .version(process.env['MONOCHORD_VERSION'] ?? '0.1.0')
  .showHelpAfterError('(monochord COMMAND --help shows how)')
  .addHelpText('after', EXIT_TEXT)
  .exitOverride();

function command(name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .option('--json', 'print JSON', false)
    .exitOverride();
}

command('tune [FILE]', 'measure layouts on a workload, on a copy of FILE if one is given')
  .option('--workload <file>', 'module with the phases to measure, or a recorded trace (.jsonl)')
  .option('--budget <size>', 'memory budget of the store', '32MiB')
  .option('--minutes <n>', 'time to tune for (default: 10)')
  .addOption(new Option('--seconds <n>', 'the same in seconds'))
  .option('--objective <text>', 'what is to be fast, and what must hold', 'fastest mix')
  .option('--out <folder>', 'where reports and finished trials go', 'out')
  .option('--compare', "only compare the workload's own candidates, no search")
  .option('--fresh', 'measure again what was measured before')
  .option('--check <report>', 'measure today’s layout; fail if it is worse than this report')
  .option('--allow <percent>', 'with --check: what may be lost beyond the noise', '10')
  .option('--apply [report]', 'rebuild FILE as recommended (or as REPORT says), measure again')
  .addOption(new Option('--generations <n>', 'generations at the most').hideHelp())
  .addHelpText(
    'after',
    examples(
      'tune --workload work.mjs --seconds 75',
      "tune app.mono --workload work.mjs --objective 'fastest lookup with file <= 200 MiB'",
      'tune app.mono --workload trace.jsonl --apply',
      'tune --workload work.mjs --check baseline.json',
    ),
  )
  .action(run((file: string | undefined, flags: TuneFlags) => tuneCommand(file, flags)));

command('rebuild <FILE>', 'write FILE in another layout, compare, and swap it in')
  .option('--page-size <size>', 'bytes of a page, 4KiB to 64KiB')
  .option('--extent-size <size>', 'run of slots kept for one structure')
  .option('--cluster-size <size>', 'unit for the tails of large values')
  .addOption(new Option('--tree <kind>', 'shape of trees').choices(['b+tree', 'b-tree']))
  .option('--order <n>', 'children of a node at the most, 0 for what fits')
  .option('--collection <name>', 'change this collection only')
  .option('--index <name>', 'change this index of the collection only')
  .option('--layout <json>', 'a file with the whole change as JSON')
  .option('--memory <size>', 'memory for both files together')
  .option('--no-keep', 'do not keep the old file')
  .option('--undo', 'put the kept file back')
  .option('--force', 'with --undo: though commits since the rebuild are left behind')
  .option('--forget', 'remove the kept file and unfinished copies')
  .addHelpText(
    'after',
    `${examples(
      'rebuild shop.mono --page-size 16KiB',
      'rebuild shop.mono --collection customers --index email --order 64',
      'rebuild shop.mono --undo',
    )}
An interrupted rebuild goes on when it is started again with the same layout.`,
  )
  .action(run((file: string, flags: RebuildFlags) => rebuildCommand(file, flags)));

command('info <FILE>', 'show the layout of a file and of every tree in it')
  .addHelpText('after', examples('info shop.mono', 'info shop.mono --json'))
  .action(run(infoCommand));

command('check <FILE>', 'check every page, record and index')
  .addHelpText('after', examples('check shop.mono'))
  .action(run(checkCommand));

command('compact <FILE>', 'move pages into free space and cut the file')
  .addHelpText('after', examples('compact shop.mono'))
  .action(run(compactCommand));

command('backup <FILE> <TARGET>', 'copy the newest commit into a new file')
  .addHelpText('after', examples('backup shop.mono backups/monday.mono'))
  .action(run(backupCommand));

command('memory <FILE>', 'show what an open file takes of its budget')
  .option('--memory <size>', 'the budget')
  .addHelpText('after', examples('memory shop.mono --memory 64MiB'))
  .action(run(memoryCommand));

command('get <FILE> <COLLECTION> <KEY...>', 'show the record of a key')
  .addHelpText('after', examples('get shop.mono customers 17', 'get shop.mono settings theme'))
  .action(run(getCommand));

command('ls <FILE> [COLLECTION]', 'list collections, or the first records of one')
  .option('--limit <n>', 'records at the most', '20')
  .addHelpText('after', examples('ls shop.mono', 'ls shop.mono customers --limit 5'))
  .action(run(listCommand));

command('dump <FILE> [TARGET]', 'write collections as text to TARGET, or to standard output')
  .addOption(
    new Option('--format <name>', 'of the text').choices(DUMP_FORMATS).default('monochord'),
  )
  .option('--collection <name...>', 'only these; csv, json, jsonl and gdbm hold one')
  .option('--split <folder>', 'one file a record, for version control')
  .option('--extended', 'json, jsonl: kinds that JSON does not have as {"$kind": …}')
  .option('--no-header', 'csv: no names in the first record')
  .option('--delimiter <character>', 'csv: between fields', ',')
  .option('--null <text>', 'csv: for null', '')
  .option('--crlf', 'csv: records end with CR LF')
  .option('--collations <module>', 'module that exports the collations of the file')
  .addHelpText(
    'after',
    examples(
      'dump shop.mono shop.dump',
      'dump shop.mono --split shop-dump && git add shop-dump',
      'dump shop.mono --collection customers --format csv > customers.csv',
      'dump store.mono --format lmdb | mdb_load -T store.lmdb',
    ),
  )
  .action(
    run(async (file: string, target: string | undefined, flags: DumpFlags) => {
      const { dumpCommand } = await import('./dump-load.ts');
      return dumpCommand(file, target, flags);
    }),
  );

command('load <FILE> <SOURCE>', 'load a text into FILE, all of it or nothing; - is standard input')
  .addOption(
    new Option('--format <name>', 'of the text').choices(DUMP_FORMATS).makeOptionMandatory(),
  )
  .option('--into <name>', 'bucket or collection, where the text does not name it')
  .option('--create', 'make FILE, with the layout that an own dump names')
  .option('--fields <list>', 'of a new collection: id:int,name:text?')
  .option('--key <list>', 'of a new collection: the fields that identify a record')
  .option('--open', 'of a new collection: records may have other fields')
  .option('--keys <type>', 'of a new bucket')
  .option('--values <type>', 'of a new bucket')
  .option('--lines', 'json, jsonl: each element or line is a value, under its number in a bucket')
  .option('--no-header', 'csv: the first record is a record; needs --columns')
  .option('--columns <list>', 'csv: names of the columns')
  .option('--delimiter <character>', 'csv: between fields', ',')
  .option('--null <text>', 'csv: for null, where it stands without quotes', '')
  .addOption(
    new Option('--numbers <how>', 'json, jsonl: numbers that nothing holds')
      .choices(['exact', 'nearest', 'text'])
      .default('exact', 'refused'),
  )
  .addOption(
    new Option('--duplicate-names <how>', 'json, jsonl: names that stand twice in an object')
      .choices(['refuse', 'last'])
      .default('refuse'),
  )
  .addOption(
    new Option('--on-duplicate <what>', 'a key that exists already, there or in the text')
      .choices(['refuse', 'replace', 'keep'])
      .default('refuse'),
  )
  .option('--extended', 'json, jsonl: {"$kind": …} are values of that kind')
  .option('--list <name>', 'json: the list in the document whose elements are loaded')
  .option(
    '--reject <file>',
    'csv, json, jsonl: records that cannot be stored go there, with their lines',
  )
  .option('--memory <size>', 'memory budget')
  .option('--collations <module>', 'module that exports the collations of the file')
  .addHelpText(
    'after',
    `${examples(
      'load copy.mono shop.dump --format monochord --create',
      'load shop.mono prices.csv --format csv --into prices --fields id:int,price:float --key id',
      'load shop.mono events.jsonl --format jsonl --into events --reject events.rejected',
    )}
  $ mdb_dump -a store.lmdb | monochord load store.mono - --format lmdb
Ctrl-C ends a load and changes nothing.`,
  )
  .action(
    run(async (file: string, source: string, flags: LoadFlags) => {
      const { loadCommand } = await import('./dump-load.ts');
      return loadCommand(file, source, flags);
    }),
  );

// Whoever read our output has gone (`| head`), or it cannot be written: nobody is there to be told.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  if (code !== 'EPIPE')
    process.stderr.write(`monochord: writing to standard output failed: ${code}\n`);
  process.exit(EXIT.failed);
});

try {
  await program.parseAsync();
} catch (cause) {
  if (!(cause instanceof CommanderError)) throw cause;
  process.exitCode = cause.exitCode === 0 ? EXIT.done : EXIT.usage;
}

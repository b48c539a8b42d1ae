/** `monochord info`: the layout of a file and of every tree in it. Line 9 of the strata. */
import * as fs from 'node:fs';
import { LATEST } from '../model/source.ts';
import { readMarker } from '../rebuild/rebuild-marker.ts';
import { FORMAT_VERSION } from '../storage/header.ts';
import { treesOf } from '../store/check.ts';
import { withReader } from './open-file.ts';
import { bytesText, print, table, type CommonOptions } from './output.ts';

export function infoCommand(path: string, options: CommonOptions): void {
  withReader(path, ({ storage, store }) => {
    const { layout, fileId, commit } = storage.header;
    const trees = treesOf(store, LATEST).map(({ name, tree }) => {
      const { entries, height, nodesByLevel, usedBytes, nodeBytes } = tree.stats(LATEST);
      const pages = nodesByLevel.reduce((sum, count) => sum + count, 0);
      const { kind, order = 0, clusterBytes = 512 } = tree.layout;
      const fill = usedBytes / nodeBytes;
      return { name, tree: kind, order, clusterBytes, entries, height, pages, fill };
    });
    const marker = readMarker(store.catalog);
    const report = {
      path,
      formatVersion: FORMAT_VERSION,
      fileId: Buffer.from(fileId).toString('hex'),
      commit,
      fileBytes: fs.statSync(path).size,
      ...layout,
      rebuiltFrom: marker?.from,
      keptPath: fs.existsSync(`${path}-before`) ? `${path}-before` : undefined,
      trees,
    };
    print(options, report, () => {
      const head = [
        `${path}: ${bytesText(report.fileBytes)}, format ${FORMAT_VERSION}, commit ${commit}`,
        `page ${bytesText(layout.pageBytes)}, extent ${bytesText(layout.extentBytes)}, ` +
          `new collections: ${layout.tree}, order ${layout.order || 'what fits'}, ` +
          `cluster ${bytesText(layout.clusterBytes)}`,
        ...(report.keptPath === undefined ? [] : [`kept by a rebuild: ${report.keptPath}`]),
      ];
      const rows = trees.map((each) => [
        each.name,
        each.tree,
        each.order === 0 ? 'what fits' : String(each.order),
        bytesText(each.clusterBytes),
        String(each.entries),
        String(each.height),
        String(each.pages),
        `${(each.fill * 100).toFixed(0)} %`,
      ]);
      const names = ['tree', 'kind', 'order', 'cluster', 'entries', 'levels', 'pages', 'fill'];
      return `${head.join('\n')}\n\n${table(names, rows)}`;
    });
  });
}

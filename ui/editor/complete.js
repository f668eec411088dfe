// What can be typed next: tables and columns as the page's own tree has them, and the functions of this server.

import { syntaxTree } from "@codemirror/language";

/** The name of one part of a qualified name, without its quotes. */
const bare = name => (name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name);

/** Reads the tree beside the editor: `{schema, name, written, about, columns: [{name, written, kind}]}`. */
export function tables(tree) {
  const items = tree ? [...tree.querySelectorAll(":scope > ul > li")] : [];
  return items.map(item => {
    const written = item.querySelector("a").textContent;
    const parts = written.match(/"(?:[^"]|"")*"|[^.]+/g) ?? [written];
    const columns = [...item.querySelectorAll("details li")].map(column => {
      const kind = column.querySelector("small")?.textContent ?? "";
      const name = column.firstChild?.textContent ?? "";
      return { name: bare(name), written: name, kind };
    });
    const [name, schema] = [bare(parts.at(-1)), parts.length > 1 ? bare(parts[0]) : "public"];
    return { schema, name, written, about: item.title, columns };
  });
}

/** The same as the grammar's own completion wants it, which knows aliases and schemas. */
export function namespace(tables) {
  const all = {};
  for (const table of tables) {
    const children = table.columns.map(column => ({ label: column.name, type: "property", detail: column.kind }));
    const self = { label: table.name, type: "type", info: table.about || undefined };
    (all[table.schema] ??= {})[table.name] = { self, children };
  }
  return all;
}

/** The word before the cursor, where a column or a function could stand. */
function word(context) {
  const word = context.matchBefore(/[\p{L}_][\p{L}\p{N}_]*/u);
  if (!word && !context.explicit) return null;
  const from = word?.from ?? context.pos;
  const before = context.state.sliceDoc(Math.max(0, from - 200), from);
  // Behind a dot the columns of one table are asked for, behind FROM a table.
  if (/\.$|\b(from|join)\s+$/i.test(before)) return null;
  const inside = syntaxTree(context.state).resolveInner(context.pos, -1).name;
  return /String|Comment|Quoted/.test(inside) ? null : from;
}

/** Columns of the tables that the statement reads, before all else. */
export const columns = tables => context => {
  const from = word(context);
  if (from === null) return null;
  const read = new Set(Array.from(context.state.doc.toString().matchAll(/\b(?:from|join)\s+([\w."]+)/gi), found => found[1].toLowerCase()));
  const options = tables.filter(table => read.has(table.written.toLowerCase())).flatMap(table =>
    table.columns.map(column => ({
      label: column.name, apply: column.written, type: "property", boost: 20, detail: [column.kind, table.name].filter(Boolean).join(" · "),
    })));
  return options.length ? { from, options, validFor: /^[\p{L}\p{N}_]*$/u } : null;
};

/** Functions with their arguments; the cursor comes to stand between the parentheses. */
export const calls = functions => {
  const options = functions.map(([name, written]) => ({
    label: name, detail: written, type: "function",
    apply: (view, _, from, to) => {
      const follows = view.state.sliceDoc(to, to + 1) === "(";
      const changes = { from, to, insert: follows ? name : `${name}()` };
      view.dispatch({ changes, selection: { anchor: from + name.length + 1 }, userEvent: "input.complete" });
    },
  }));
  return context => {
    const from = word(context);
    return from === null ? null : { from, options, validFor: /^[\p{L}\p{N}_]*$/u };
  };
};

/** SQL's own words, in capitals, after all else. */
export const keywords = words => {
  const options = words.map(word => ({ label: word.toUpperCase(), type: "keyword", boost: -1 }));
  return context => {
    const from = word(context);
    return from === null ? null : { from, options, validFor: /^\w*$/ };
  };
};

// The editor of the SQL page. It takes the place of the text area and writes back into it, so the form sends what is typed; where this
// script does not run, the text area stays.
//
// It lives in a shadow tree: there CodeMirror gives its rules to the document as constructed sheets, which a policy without inline styles
// allows, while in the document itself it would write a `<style>`.

import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { SQLDialect, schemaCompletionSource } from "@codemirror/lang-sql";
import { bracketMatching, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec, StateField } from "@codemirror/state";
import { Decoration, EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tagHighlighter, tags } from "@lezer/highlight";

import { calls, columns, keywords, namespace, tables } from "./complete.js";
import css from "./editor.css";
import functions from "./functions.json";
import { keep } from "./kept.js";
import { callable, types, words } from "./words.js";

/** The same classes as those of statements elsewhere. */
const colours = tagHighlighter([
  { tag: [tags.keyword, tags.typeName, tags.bool, tags.null], class: "k" },
  { tag: tags.standard(tags.name), class: "f" },
  { tag: tags.number, class: "n" },
  { tag: tags.string, class: "t" },
  { tag: tags.special(tags.string), class: "q" },
  { tag: tags.comment, class: "c" },
]);

/** PostgreSQL's grammar, with the words and functions of this server. */
const dialect = SQLDialect.define({
  charSetCasts: true,
  doubleDollarQuotedStrings: true,
  operatorChars: "+-*/<>=~!@#%^&|`?",
  specialVar: "",
  keywords: words,
  types,
  builtin: callable(functions).join(" "),
});

const LEAVE = "Escape, then Tab, leaves the editor";

/** Puts the editor in the place of a text area. */
export function mount(box) {
  if (!("adoptedStyleSheets" in document)) return;
  const host = document.createElement("div");
  host.className = "editor";
  // Letters typed here are no commands of the page.
  host.dataset.typing = "";
  host.style.height = `${box.offsetHeight}px`;
  const root = host.attachShadow({ mode: "open" });
  let openKept = () => {};
  const view = new EditorView({ root, parent: root, state: state(box, () => openKept()) });
  root.append(Object.assign(document.createElement("p"), { id: "leave", hidden: true, textContent: LEAVE }));
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  root.adoptedStyleSheets.push(sheet);
  box.before(host);
  box.hidden = true;
  openKept = keep(box.dataset.editor, () => view.state.doc.toString());
  box.labels[0]?.addEventListener("click", () => view.focus());
  document.querySelector("a[data-line]")?.addEventListener("click", event => {
    event.preventDefault();
    const place = wrong(view.state.doc);
    if (place) view.dispatch({ selection: { anchor: place.from, head: place.to }, scrollIntoView: true });
    view.focus();
  });
}

function state(box, openKept) {
  const known = tables(document.querySelector("nav.tables"));
  const sources = [
    schemaCompletionSource({ dialect, schema: namespace(known), defaultSchema: "public" }),
    columns(known),
    calls(functions),
    keywords(`${words} ${types}`.split(" ")),
  ];
  const run = () => (box.form.requestSubmit(), true);
  return EditorState.create({
    doc: box.value,
    extensions: [
      Prec.highest(keymap.of([
        { key: "Mod-Enter", run },
        { key: "Alt-h", run: () => (openKept(), true) },
        { key: "Tab", run: acceptCompletion },
      ])),
      dialect.extension,
      sources.map(autocomplete => dialect.language.data.of({ autocomplete })),
      autocompletion({ icons: false, maxRenderedOptions: 60 }),
      syntaxHighlighting(colours),
      lineNumbers(),
      history(),
      bracketMatching(),
      closeBrackets(),
      placeholder(box.placeholder),
      indentUnit.of("  "),
      EditorState.tabSize.of(2),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": "Statement", "aria-describedby": "leave" }),
      EditorView.updateListener.of(update => {
        if (update.docChanged) box.value = update.state.doc.toString();
      }),
      marks,
      keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
    ],
  });
}

/** What the server refused is marked until the text changes. */
const marks = StateField.define({
  create: state => {
    const place = wrong(state.doc);
    return place ? Decoration.set(Decoration.mark({ class: "wrong" }).range(place.from, place.to)) : Decoration.none;
  },
  update: (marks, transaction) => (transaction.docChanged ? Decoration.none : marks),
  provide: field => EditorView.decorations.from(field),
});

/** Where it is: the server counts characters, the editor UTF-16 units. */
function wrong(doc) {
  const told = document.querySelector("a[data-line]")?.dataset;
  if (!told || +told.line > doc.lines) return null;
  const line = doc.line(+told.line);
  const letters = [...line.text];
  const before = letters.slice(0, told.column - 1).join("").length;
  const there = letters.slice(told.column - 1, +told.column - 1 + +told.width).join("").length;
  // At the end of a line there is nothing to underline: its last letter is.
  const from = line.from + Math.min(before, Math.max(0, line.length - 1));
  const to = Math.min(line.to, from + Math.max(1, there));
  return to > from ? { from, to } : null;
}

/** CodeMirror for specs. Its styles go into a shadow root, because the page allows no inline ones. */
import { autocompletion, completionKeymap, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { HighlightStyle, indentUnit, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, setDiagnostics } from '@codemirror/lint'
import { Compartment, EditorState } from '@codemirror/state'
import { EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { placeAt, type Place, type Suggestion } from './completion'

export interface Editor {
  /** Replace the text, unless it is the same. */
  show: (text: string) => void
  /** Mark lines, counted from 1, with what is wrong there. */
  mark: (faults: Map<number, string>) => void
  close: () => void
}

export interface Options {
  text: string
  label: string
  onchange: (text: string) => void
  suggest: (place: Place) => Suggestion[]
}

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--second)' },
  { tag: [tags.comment, tags.meta], color: 'var(--muted)' },
  { tag: [tags.string, tags.content], color: 'var(--text)' },
  { tag: [tags.invalid], color: 'var(--bad)' },
])

const LOOK = EditorView.theme({
  '&': { font: '12.5px/20px var(--mono)', color: 'var(--text)', minHeight: '260px' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-scroller': { font: 'inherit' },
  '.cm-content': { padding: '12px 0', caretColor: 'var(--text)' },
  '.cm-gutters': { background: 'none', border: '0', color: 'var(--muted)' },
  '.cm-activeLine': { background: 'color-mix(in srgb, var(--line) 35%, transparent)' },
  '.cm-placeholder': { color: 'var(--muted)' },
  '.cm-tooltip': { background: 'var(--surface)', border: '1px solid var(--line)', color: 'var(--text)', boxShadow: 'var(--shadow-high)' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { font: 'inherit', maxHeight: '14em' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { background: 'var(--accent-soft)', color: 'var(--text)' },
  '.cm-completionDetail': { color: 'var(--muted)', fontStyle: 'normal' },
  '.cm-completionInfo': { maxWidth: '320px', font: '13px/1.4 system-ui, sans-serif', whiteSpace: 'normal' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '700' },
})

/** Open an editor in a shadow root. */
export function openEditor(root: ShadowRoot, options: Options): Editor {
  const attributes = new Compartment()
  const state = EditorState.create({
    doc: options.text,
    extensions: [
      lineNumbers(),
      history(),
      highlightActiveLine(),
      yaml(),
      indentUnit.of('  '),
      syntaxHighlighting(COLOURS),
      lintGutter(),
      placeholder('dataset: flowers'),
      autocompletion({
        override: [(context) => complete(context, options.suggest)],
        icons: false,
        activateOnCompletion: (chosen) => chosen.type === 'property',
      }),
      keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
      attributes.of(describe(options.label, false)),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) options.onchange(update.state.doc.toString())
      }),
      LOOK,
    ],
  })
  const view = new EditorView({ state, root, parent: root })
  return {
    show: (text) => show(view, text),
    mark: (faults) => {
      view.dispatch({ effects: attributes.reconfigure(describe(options.label, faults.size > 0)) })
      mark(view, faults)
    },
    close: () => view.destroy(),
  }
}

function describe(label: string, isInvalid: boolean): ReturnType<typeof EditorView.contentAttributes.of> {
  return EditorView.contentAttributes.of({
    'aria-label': label,
    tabindex: '0',
    'aria-invalid': String(isInvalid),
    autocapitalize: 'off',
    spellcheck: 'false',
  })
}

function show(view: EditorView, text: string): void {
  const shown = view.state.doc.toString()
  if (shown !== text) view.dispatch({ changes: { from: 0, to: shown.length, insert: text } })
}

function mark(view: EditorView, faults: Map<number, string>): void {
  const { doc } = view.state
  const found = [...faults].map(([number, message]) => {
    const line = doc.line(Math.min(number, doc.lines))
    const from = line.from + (line.text.length - line.text.trimStart().length)
    return { from, to: line.to, severity: 'error' as const, message }
  })
  view.dispatch(setDiagnostics(view.state, found.sort((a, b) => a.from - b.from)))
}

function complete(context: CompletionContext, suggest: Options['suggest']): CompletionResult | null {
  const before = context.state.sliceDoc(0, context.pos)
  const place = placeAt(before)
  const isEmpty = place.typed === '' && place.key === null
  if (isEmpty && !context.explicit && !before.endsWith('  ')) return null
  const indent = ' '.repeat(before.length - before.lastIndexOf('\n') - 1 - place.typed.length)
  const options = suggest(place).map((one) => ({
    label: one.label,
    type: one.kind,
    detail: one.detail,
    info: one.info === '' ? undefined : one.info,
    apply: one.kind === 'value' ? one.label : one.isBlock ? `${one.label}:\n${indent}  ` : `${one.label}: `,
  }))
  return options.length > 0 ? { from: context.pos - place.typed.length, options, validFor: /^[\w:.-]*$/ } : null
}


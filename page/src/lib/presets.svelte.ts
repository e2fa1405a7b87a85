/** Settings that go together: those of the page, and those that a person saved in this browser. */
import { flatten, isObject } from './spec'

type Json = Record<string, unknown>

export interface Preset {
  name: string
  what: string
  /** A part of a spec, which is written over the present one. */
  spec: Json
}

export const PRESETS: Preset[] = [
  { name: 'Try out', what: 'One epoch, to see that everything works', spec: { quality: 'fast', training: { epochs: 1 } } },
  { name: 'Fast', what: 'Trains shorter, and where possible a smaller model', spec: { quality: 'fast' } },
  { name: 'Best', what: 'Trains longer and a larger model', spec: { quality: 'best' } },
  {
    name: 'Photos',
    what: 'Pictures that mean the same mirrored and in other light',
    spec: { training: { augment: { flip: true, brightness: 0.2, contrast: 0.2, saturation: 0.2 } } },
  },
  {
    name: 'Upright',
    what: 'Digits, letters or signs, which another angle would change',
    spec: { training: { augment: { flip: false, rotate_degrees: 0 } } },
  },
  {
    name: 'Small files',
    what: 'Also files in float16 and int8, each with its own verdict',
    spec: { export: { variants: ['fp16', 'int8-dynamic'] } },
  },
  { name: 'Only verified', what: 'The job fails if its file differs from the model', spec: { export: { require_verified: true } } },
]

const KEY = 'redkiln-presets'
/** These belong to one job; a preset is for others too. */
const OWN_FIELDS = new Set(['dataset', 'name', 'metadata'])

class Saved {
  all = $state<Preset[]>(load())
}

export const saved = new Saved()

function load(): Preset[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? '{}')
    const named = isObject(kept) ? Object.entries(kept) : []
    return named.flatMap(([name, spec]) => (isObject(spec) ? [{ name, what: 'Saved in this browser', spec }] : []))
  } catch {
    return [] // somebody else wrote to the storage: there is nothing to show
  }
}

function keep(all: Preset[]): void {
  saved.all = all
  localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(all.map(({ name, spec }) => [name, spec]))))
}

/** Save the settings of a spec under a name; an earlier preset of this name is replaced. */
export function savePreset(name: string, spec: Json): void {
  const shared = Object.fromEntries(Object.entries(spec).filter(([field]) => !OWN_FIELDS.has(field)))
  keep([...saved.all.filter((one) => one.name !== name), { name, what: 'Saved in this browser', spec: shared }])
}

export function removePreset(name: string): void {
  keep(saved.all.filter((one) => one.name !== name))
}

/** The presets whose fields a task has, by the pointers of its fields. */
export function presetsFor(pointers: Set<string>): Preset[] {
  return PRESETS.filter((preset) => flatten(preset.spec).every(({ pointer }) => pointers.has(pointer)))
}

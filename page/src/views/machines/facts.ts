/** The facts of a GPU with where each comes from. All are pure. */
import { bytes, number } from '../../lib/format'
import type { OverviewGpu } from '../../lib/overview.svelte'

export interface Fact {
  name: string
  value: string
  source: string
}

type Facts = OverviewGpu['facts']
const KFD = 'driver: KFD topology'
const TABLE = "table of AMD's products, by PCI id"

/** What is known; a fact that the machine does not report is left out. */
export function factsOf({ facts }: OverviewGpu): Fact[] {
  const all: [string, string | null, string][] = [
    ['Product', facts.name ?? null, TABLE],
    ['Target', facts.gfx ?? null, facts.is_gfx_inferred ? TABLE : `${KFD}, gfx_target_version`],
    ['Compute units', shown(facts.cu_count), `${KFD}, simd_count / simd_per_cu`],
    ['Work-group processors', shown(facts.wgp_count), 'compute units / 2, as HIP counts on RDNA'],
    ['Lanes of a wave', shown(facts.wave_size), `${KFD}, wave_front_size`],
    ['Highest clock', facts.max_clock_mhz ? `${number(facts.max_clock_mhz)} MHz` : null, `${KFD}, max_engine_clk_fcompute`],
    ['Memory', facts.vram_bytes ? bytes(facts.vram_bytes) : null, memorySource(facts)],
    ['Memory bandwidth', bandwidth(facts), TABLE],
    ['Peak', peak(facts), "computed: compute units × lanes × operations of the target × highest clock"],
    ['PCI address', facts.pci_address ?? null, facts.node == null ? 'driver: card' : `${KFD}, location_id`],
    ['Dies', facts.num_xcc && facts.num_xcc > 1 ? String(facts.num_xcc) : null, `${KFD}, num_xcc`],
    ['Drives a screen', facts.drives_display == null ? null : facts.drives_display ? 'yes' : 'no', 'driver: connectors of the card'],
  ]
  return all.flatMap(([name, value, source]) => (value === null ? [] : [{ name, value, source }]))
}

function shown(value: number | null | undefined): string | null {
  return value === null || value === undefined ? null : String(value)
}

function bandwidth({ memory_bandwidth_bytes_per_second: rate }: Facts): string | null {
  return rate ? `${bytes(rate)}/s` : null
}

function peak(facts: Facts): string | null {
  const rates = Object.entries(facts.peak_tflops ?? {}).map(([type, tflops]) => `${type} ${number(tflops)}`)
  return rates.length > 0 ? `${rates.join(', ')} TFLOP/s` : null
}

function memorySource(facts: Facts): string {
  if (facts.is_memory_approximate) return "driver: what it may take of the host's memory (GTT)"
  return facts.node == null ? 'driver: mem_info_vram_total' : `${KFD}, memory banks`
}

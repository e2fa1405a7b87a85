/** The present time as state, once a second, only while something shows it. */
import { createSubscriber } from 'svelte/reactivity'

const subscribe = createSubscriber((update) => {
  const timer = setInterval(update, 1000)
  return () => clearInterval(timer)
})

/** Milliseconds since 1970; whoever reads it is updated every second. */
export function now(): number {
  subscribe()
  return Date.now()
}

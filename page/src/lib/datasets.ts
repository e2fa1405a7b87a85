/** Data sets by reference, as specs name them, and the versions of a name. */
import { call, Problem } from '../api/client'
import type { Dataset } from '../api/types'

const MOST = 200

/** All data sets of a name that were not deleted, newest first. */
export async function versionsOf(name: string): Promise<Dataset[]> {
  return (await call('get', '/v1/datasets', { query: { name, limit: MOST } })).data
}

/** The data set that a spec means: by id, else the newest of that name, if possible a valid one. */
export async function findDataset(reference: string): Promise<Dataset | null> {
  const named = await versionsOf(reference)
  const newest = named.find((one) => one.status !== 'invalid') ?? named[0]
  return newest ?? (await getDataset(reference))
}

/** A data set by its id; null if there is none. */
export async function getDataset(id: string): Promise<Dataset | null> {
  try {
    return await call('get', '/v1/datasets/{dataset_id}', { path: { dataset_id: id } })
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null
    throw error
  }
}

/** Data sets with their titles if their contents differ; nothing if they are the same. */
export async function differentData(ids: string[]): Promise<{ id: string; title: string }[]> {
  if (ids.length < 2) return []
  const found = await Promise.all(ids.map(getDataset))
  const contentOf = (one: Dataset): string => `${one.sha256} ${JSON.stringify(one.options)}`
  const contents = new Set(found.map((one, i) => (one?.sha256 ? contentOf(one) : ids[i])))
  if (contents.size < 2) return []
  const names = found.map((one, i) => one?.name ?? ids[i] ?? '')
  const titleOf = (name: string, i: number): string =>
    names.filter((other) => other === name).length > 1 ? `${name} ${ids[i]?.slice(-6)}` : name
  return ids.map((id, i) => ({ id, title: titleOf(names[i] ?? id, i) }))
}

/** The number of samples of all splits. */
export function totalOf(dataset: Dataset): number {
  const counts = Object.values(dataset.counts ?? {}).flatMap((ofSplit) => Object.values(ofSplit))
  return counts.reduce((sum, count) => sum + count, 0)
}

/** A data set's list, page by page, of names that contain a text. */
export async function listDatasets(search: string, after: string | null): Promise<{ data: Dataset[]; hasMore: boolean }> {
  const query = { q: search || undefined, after: after ?? undefined, limit: MOST }
  const page = await call('get', '/v1/datasets', { query })
  return { data: page.data, hasMore: page.has_more === true }
}

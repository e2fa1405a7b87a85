/** Numbers that training derives from a date. All are pure. */

const DAY_MS = 86_400_000

/** A number of a date such as `2024-01-31T10:00`: the week begins with Monday, 0. */
export function derive(date: string, part: string): number {
  const moment = new Date(`${date.includes('T') ? date : `${date}T00:00`}Z`)
  const hour = moment.getUTCHours() + moment.getUTCMinutes() / 60 + moment.getUTCSeconds() / 3600
  const month = moment.getUTCMonth() + 1
  const weekday = (moment.getUTCDay() + 6) % 7
  const numbers: Record<string, number> = {
    year: moment.getUTCFullYear(),
    month,
    day: moment.getUTCDate(),
    weekday,
    hour,
    ordinal: moment.getTime() / DAY_MS,
  }
  const [, name = '', wave] = /^(month|weekday|hour)_(sin|cos)$/.exec(part) ?? []
  const shares: Record<string, number> = { month: (month - 1) / 12, weekday: weekday / 7, hour: hour / 24 }
  if (wave) return (wave === 'sin' ? Math.sin : Math.cos)(2 * Math.PI * (shares[name] ?? NaN))
  return numbers[part] ?? NaN
}

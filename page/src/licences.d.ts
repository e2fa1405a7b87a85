/** Made by `licences.config.ts` when the page is built. */
declare module 'virtual:licences' {
  const packages: { name: string; version: string; licence: string; text: string }[]
  export default packages
}

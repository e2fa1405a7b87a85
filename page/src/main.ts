import './app.css'
import { mount } from 'svelte'
import App from './App.svelte'
import { watchEndings } from './lib/endings'
import { reloadIfPartsAreMissing } from './lib/reload'
import { applyTheme } from './lib/theme.svelte'
import { startRouter } from './lib/router.svelte'

applyTheme()
startRouter()

const target = document.getElementById('app')
if (target === null) throw new Error('index.html has no element with the id app')
mount(App, { target })
watchEndings()
reloadIfPartsAreMissing()

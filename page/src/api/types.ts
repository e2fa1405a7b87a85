/** Short names for what the API answers; `make page-types` generates the types themselves. */
import type { components } from './schema'

type Schemas = components['schemas']

export type Job = Schemas['JobView']
export type JobSummary = Schemas['JobSummary']
export type JobStatus = Schemas['JobStatus']
export type Comparison = NonNullable<Schemas['CrossValidation']['comparison']>
export type CrossValidation = Schemas['CrossValidation']
export type Outcome = Schemas['Outcome']
export type Progress = Schemas['Progress']
export type Attempt = Schemas['AttemptView']
export type JobEvent = Schemas['EventView']
export type Artifact = Schemas['ArtifactView']
export type Series = Schemas['Series']
export type TelemetrySeries = Schemas['TelemetrySeries']
export type Dataset = Schemas['DatasetView']
export type Worker = Schemas['WorkerView']
export type Gpu = Schemas['WorkerGpu']
export type Diagnosis = Schemas['Diagnosis']
export type DoctorCheck = Schemas['DoctorCheck']
export type WorkerBenchmark = Schemas['WorkerBenchmark']
export type Measurement = Schemas['Measurement']
export type SelfTest = Schemas['SelfTestReport']
export type Key = Schemas['KeyView']
export type RegisteredModel = Schemas['RegisteredModel']
export type ModelVersion = Schemas['ModelVersion']
export type TaskInfo = Schemas['TaskView']

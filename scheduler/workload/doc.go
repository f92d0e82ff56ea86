// Package workload reads and writes jobs: published traces in their original formats, and our CSV.
//
// Read detects a file's format by its content (or takes it as an option), and returns a Trace: the
// jobs, the nodes if the trace names them, and notes on what was left out and why. Write writes
// jobs as our CSV, whose columns are found by name. Package generator below this one generates
// synthetic jobs.
//
// The formats, and which of the published files are read:
//
//	csv          ours: job_id, submit_s or arrival_s, duration_s, num_gpus, and Columns
//	philly       Microsoft Philly 2017: cluster_job_log (JSON)
//	helios       SenseTime Helios 2020: cluster_log.csv
//	alibaba2020  Alibaba PAI 2020: pai_task_table.csv, with pai_job_table.csv and, if present,
//	             pai_machine_spec.csv in the same folder. pai_instance_table, with machines and
//	             times of instances, is not read
//	alibaba2023  Alibaba 2023: openb_pod_list_*.csv, nodes from openb_node_list_*.csv; lists without
//	             times take them from openb_pod_list_default.csv
//	gavel        Gavel and Shockwave: lines of 7, 10 or 12 words between tabs; Gavel's lengths come
//	             from simulation_throughputs.json, in the folder or above it
//	pollux       Pollux: workload-N.csv with lengths from its published profiles, which are built
//	             in, or from durations.csv; and its philly.csv
//	swf          the Standard Workload Format of the Parallel Workloads Archive; one or more
//	             processors are taken for a GPU
//
// Published traces contain jobs that never ran, need no GPU or have no end. These are left out.
// What other jobs lack is replaced by a rule, see docs/traces.md. Both are counted in Trace.Notes.
// Invalid input is reported as an Error with file, line, column, value and what was expected, in at
// most 200 characters. Files are read line by line, and no line or entry is unbounded.
//
// Times of our CSV are kept. All others count from the trace's first submission.
//
// Read trace.go, then read.go.
package workload

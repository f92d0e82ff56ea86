// Package workload is where jobs come from: files of traces, in the forms in which they are
// published.
//
// Read takes a file, guesses its form from what is in it (or is told), and answers with a Trace:
// the jobs, the nodes where the trace names them, and notes that say what was left out and why.
// Write puts jobs into our own form, a CSV whose columns are found by their names. Jobs that nobody
// had are made up by package generator below this one.
//
// The forms, and which of the published files are read:
//
//	csv          ours: job_id, submit_s or arrival_s, duration_s, num_gpus, and what else Columns lists
//	philly       Microsoft Philly 2017: cluster_job_log (JSON)
//	helios       SenseTime Helios 2020: cluster_log.csv
//	alibaba2020  Alibaba PAI 2020: pai_task_table.csv, pai_job_table.csv beside it, nodes from pai_machine_spec.csv if it is there.
//	             pai_instance_table adds machines and the times of single instances, which no job here has, and is not read
//	alibaba2023  Alibaba 2023: openb_pod_list_*.csv, nodes from openb_node_list_*.csv beside it
//	gavel        Gavel and Shockwave: lines of 7, 10 or 12 tab-separated words; Gavel's have lengths by *throughputs*.json beside them
//	pollux       Pollux: workload-N.csv with lengths by durations.csv beside it, or its philly.csv, which has lengths
//	swf          the Standard Workload Format of the Parallel Workloads Archive; processors are taken for GPUs
//
// What is published is much dirtier than ours: jobs that never ran, that need no GPU or that have
// no end. Those are left out and counted in Trace.Notes. What cannot be understood is an Error with
// file, line, column, value and what was expected there.
//
// Times of our form are kept as they are written. All others count from the trace's first
// submission.
//
// Read trace.go, then read.go.
package workload

package sim

import (
	"slices"
	"strconv"

	"github.com/phos-gpu/phos/scheduler/throughput"
	"github.com/phos-gpu/phos/scheduler/workload"
)

// maxProcessorsPerGPU bounds --processors-per-gpu. No node has more processors.
const maxProcessorsPerGPU = 4096

// traceFacts is what the results say of a trace that is not whole: what was left out, and what was
// assumed for how many jobs. Scripts read it: fields may be added, never renamed.
type traceFacts struct {
	Format string   `json:"format"`
	Jobs   int      `json:"jobs"`
	Notes  []string `json:"notes"`
}

// factsOf returns nil if nothing is to be said of a trace.
func factsOf(trace workload.Trace) *traceFacts {
	if len(trace.Notes) == 0 {
		return nil
	}
	return &traceFacts{Format: trace.Format, Jobs: trace.Jobs.Len(), Notes: trace.Notes}
}

// notes returns the notes, none for nil.
func (f *traceFacts) notes() []string {
	if f == nil {
		return nil
	}
	return f.Notes
}

// assumeSpeeds takes all GPU types of a trace's own nodes for equally fast, if no speed is known of
// one of them and the flags name none. Published traces have types such as G2, which are
// undisclosed, and lengths on the types that the jobs really got.
func (s *settings) assumeSpeeds(trace workload.Trace) {
	types := gpuTypes(trace.Nodes)
	given := s.TypeSpeeds != nil || s.Reference != "" || s.Models != ""
	if given || len(types) < 2 || s.Profile != native || s.Model == ownModel || s.Model == linearModel {
		return
	}
	known := throughput.NewTable().Model(throughput.Unknown)
	first := slices.IndexFunc(types, func(gpuType string) bool { return !known.Knows(gpuType) })
	if first < 0 {
		return
	}
	s.TypeSpeeds = shares{}
	for _, gpuType := range types {
		s.TypeSpeeds[gpuType] = 1
	}
	if s.trace == nil {
		s.trace = &traceFacts{Format: trace.Format, Jobs: trace.Jobs.Len()}
	}
	s.trace.Notes = append(s.trace.Notes,
		"no speed is known of its GPU type "+strconv.Quote(types[first])+"; all its types are taken for equally fast")
}

const aboutTraces = `Traces are read in these formats, found by their content or named by --format, plain or compressed by
gzip. Each is shown with a line of it:

    csv          ours; columns by name, see: pos_cli help sim run
                     job_id,submit_s,duration_s,num_gpus
                     7,60,3600,4
    philly       Microsoft Philly 2017, cluster_job_log, a JSON list
                     {"vc": "11cb48", "jobid": "a_1", "submitted_time": "2017-10-09 07:01:55", "user": "u1",
                      "attempts": [{"start_time": "2017-10-09 07:02:02", "end_time": "2017-10-09 08:02:02",
                                    "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}]}
    helios       SenseTime Helios 2020, cluster_log.csv
                     job_id,user,vc,gpu_num,submit_time,duration
                     900,u1,vcY,8,2020-04-01 00:00:03,36848
    alibaba2020  Alibaba PAI 2020, pai_task_table.csv; pai_job_table.csv beside it has the users
                     job-a,worker,1.0,Terminated,100.5,900.0,600.0,29.3,50.0,T4
    alibaba2023  Alibaba 2023, openb_pod_list_*.csv; nodes are from openb_node_list_*.csv beside it. The
                 lists multigpu20 to 50 have no times. A pod has those of the pod of the same name in
                 openb_pod_list_default.csv beside it. Copies, which are not there, are as long as its
                 pods with the same request in turn, and are created at equal intervals. A pod for one of
                 several GPU types may run on any
                     name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time
                     openb-pod-0017,8,1000,9437497,10769854,9437497
    gavel        Gavel's and Shockwave's *.trace, tabs between 7, 10 or 12 words. Lengths follow from
                 simulation_throughputs.json in the folder or above it. On a GPU count that it lacks, a
                 model is as fast as on the next smaller count, or else a part of the next greater one
                     CycleGAN  python3 cyclegan.py  --n_steps  1  5000  60.0  4
    pollux       Pollux's workload-*.csv and philly.csv. Lengths of workloads are those of a run alone by
                 Pollux's published profiles, or in durations.csv beside it (application, num_replicas,
                 batch_size, duration_s). On counts of GPUs that they lack as for gavel
                     name,time,application,num_replicas,batch_size
                     cifar10-0,107,cifar10,6,2048
    swf          the Standard Workload Format of the Parallel Workloads Archive: 18 numbers, -1 unknown.
                 Requested processors (else allocated ones) are GPUs, --processors-per-gpu of them one;
                 requested times (else run times) are estimates, groups and users GROUP/USER. Nodes are
                 MaxNodes and MaxProcs of the header. Preceding jobs and think times have no effect
                     1 0 5 100 4 -1 -1 8 200 -1 1 3 2 -1 1 -1 -1 -1

Jobs that never ran, need no GPU or have no end are left out. What was left out, and what was assumed
for how many jobs, is in the result: in the text, in trace of summary.json and compare.json, and on the
page. A job whose model or application is unknown is an error.`

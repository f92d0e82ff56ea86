package workload

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// guessPollux reports whether the header is that of one of Pollux's files.
func guessPollux(h head) bool {
	return h.has("name", "time", "application") || h.has("timestamp", "duration", "num_gpus")
}

// polluxRun is what determines how long an application trains.
type polluxRun struct {
	application, replicas, batch string
}

// readPollux reads Pollux's workloads, in which a job is an application, a number of GPUs and a
// batch size. Its length is in durations.csv in the same folder (application, num_replicas,
// batch_size, duration_s), if there is one; otherwise it follows from the profiles that Pollux has
// published, see polluxProfiles. Pollux's excerpt of Philly, traces/philly.csv, has lengths of its
// own.
func readPollux(s *source) (Trace, error) {
	t, err := newTable(s.lines, nil)
	if err != nil {
		return Trace{}, err
	}
	trace := newTrace()
	read := polluxLog
	if t.has("timestamp") {
		err = t.require("timestamp", "duration", "num_gpus")
	} else if err = t.require("name", "time", "application", "num_replicas", "batch_size"); err == nil {
		var lengths map[polluxRun]cluster.Job
		lengths, err = s.polluxLengths()
		read = func(t *table) (cluster.Job, error) { return s.polluxJob(t, lengths) }
		if lengths == nil {
			trace.Notes = append(trace.Notes, "lengths follow from Pollux's published profiles, on nodes of 4 GPUs")
		}
	}
	if err != nil {
		return Trace{}, err
	}
	seen := map[string]int{}
	err = t.each(func() error {
		job, err := read(t)
		if err != nil {
			return err
		}
		if first, twice := seen[job.Name]; twice && job.Name != "" {
			return t.badValue("name", job.Name, fmt.Sprintf("a name of its own; line %d has the same", first))
		}
		seen[job.Name] = t.line
		trace.Jobs.Add(&job)
		return nil
	})
	if err != nil {
		return Trace{}, err
	}
	return trace, nil
}

// polluxLengths reads how long applications train; nil if there is no durations.csv.
func (s *source) polluxLengths() (map[polluxRun]cluster.Job, error) {
	in, done, err := s.openSecond("durations.csv*")
	if err != nil || in == nil {
		return nil, err
	}
	defer done()
	t, err := newTable(*in, nil)
	if err != nil {
		return nil, err
	}
	if err := t.require("application", "num_replicas", "batch_size", "duration_s"); err != nil {
		return nil, err
	}
	lengths := map[polluxRun]cluster.Job{}
	return lengths, t.each(func() error {
		length, err := t.seconds("duration_s")
		lengths[polluxKey(t)] = cluster.Job{Length: length, Estimate: length}
		return err
	})
}

// polluxKey returns what determines the length of a row's job.
func polluxKey(t *table) polluxRun {
	return polluxRun{t.word("application"), t.word("num_replicas"), t.word("batch_size")}
}

// polluxJob parses a row of a workload.
func (s *source) polluxJob(t *table, lengths map[polluxRun]cluster.Job) (j cluster.Job, err error) {
	key := polluxKey(t)
	j, ok := lengths[key]
	if !ok && lengths != nil {
		return j, t.badValue("application", key.application,
			fmt.Sprintf("one that durations.csv has with num_replicas %s and batch_size %s", key.replicas, key.batch))
	}
	j.Name, j.Model, j.Share = string(t.raw("name")), key.application, cluster.WholeGPU
	if j.Submit, err = t.seconds("time"); err != nil {
		return j, err
	}
	if j.GPUs, err = t.count("num_replicas"); err != nil || lengths != nil {
		return j, err
	}
	batch, err := t.number("batch_size", 1, math.MaxInt64, "a whole number of 1 or more")
	if err != nil {
		return j, err
	}
	length, rule := polluxLength(key.application, j.GPUs, batch)
	if length == 0 {
		return j, t.badValue("application", key.application,
			"one of "+strings.Join(slices.Sorted(maps.Keys(polluxProfiles)), ", ")+
				"; others need a durations.csv (application,num_replicas,batch_size,duration_s)")
	}
	if rule != "" {
		s.assumed[rule]++
	}
	j.Length, j.Estimate = length, length
	return j, nil
}

// polluxProfile is how long an application trains on a number of GPUs with a batch size.
type polluxProfile struct {
	gpus    int
	batch   int64
	seconds int64
}

// polluxProfiles are the lengths of all jobs of the published workloads, alone and undisturbed.
// They are computed from the profiles that Pollux has published (branch osdi21-artifact of
// petuum/adaptdl, simulator/traces) as its simulator does it: in each epoch, progress at the
// goodput of that batch size, with GPUs packed on nodes of 4, up to the last epoch of the
// application. Each application is sorted by GPUs, then by batch size.
var polluxProfiles = map[string][]polluxProfile{
	"bert": {
		{1, 12, 13614}, {4, 48, 3587}, {6, 384, 3093}, {8, 384, 2460}, {12, 384, 1594}, {16, 384, 1324},
	},
	"cifar10": {
		{1, 128, 4028},
		{4, 512, 1167},
		{6, 2048, 897},
		{8, 1024, 1335},
		{8, 2048, 869},
		{12, 4096, 610},
		{16, 4096, 479},
	},
	"deepspeech2": {
		{1, 20, 19439}, {4, 80, 6378}, {6, 320, 4136}, {8, 160, 6158}, {8, 320, 3518}, {12, 640, 2480},
	},
	"imagenet": {
		{8, 1600, 79840}, {16, 3200, 44832}, {24, 3200, 31805}, {32, 6400, 27434}, {48, 6400, 19688},
	},
	"ncf": {
		{1, 256, 1444}, {1, 32768, 46}, {2, 512, 938}, {4, 1024, 587}, {8, 2048, 927},
	},
	"yolov3": {
		{1, 8, 33738}, {2, 16, 19068}, {4, 32, 14268}, {4, 64, 14100}, {8, 64, 26140}, {16, 128, 11538},
	},
}

// What replaces a length that the profiles lack. The published workloads need none of these.
const (
	polluxFewer = "GPUs or batch size not in the profiles; length is that of the next smaller count and the nearest size"
	polluxMore  = "GPUs not in the profiles; length grows as GPUs are fewer than in them"
)

// polluxLength returns the length of a job by the profiles, and the rule by which it was found; ""
// if it is in them. The length is 0 if the application is unknown. Like Gavel's jobs, those with
// more GPUs than were measured are no faster.
func polluxLength(application string, gpus int, batch int64) (length time.Duration, rule string) {
	profiles := polluxProfiles[application]
	if len(profiles) == 0 {
		return 0, ""
	}
	count := profiles[0].gpus
	for _, p := range profiles {
		if p.gpus <= gpus {
			count = p.gpus
		}
	}
	// Of this count's batch sizes, take the nearest as a ratio; of two as near, the smaller.
	var best polluxProfile
	for _, p := range profiles {
		off := func(b int64) float64 { return math.Abs(math.Log(float64(b) / float64(batch))) }
		if p.gpus == count && (best.gpus == 0 || off(p.batch) < off(best.batch)) {
			best = p
		}
	}
	length = time.Duration(best.seconds) * time.Second
	switch {
	case best.gpus == gpus && best.batch == batch:
		return length, ""
	case best.gpus <= gpus:
		return length, polluxFewer
	}
	return length * time.Duration(best.gpus) / time.Duration(gpus), polluxMore
}

// polluxLog parses a row of philly.csv.
func polluxLog(t *table) (j cluster.Job, err error) {
	j = cluster.Job{Share: cluster.WholeGPU, User: t.word("cluster")}
	if j.Submit, err = t.clock("timestamp"); err != nil {
		return j, err
	}
	if j.Length, err = t.seconds("duration"); err != nil {
		return j, err
	}
	j.Estimate = j.Length
	j.GPUs, err = t.count("num_gpus")
	return j, err
}

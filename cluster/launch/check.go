package launch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a launch. They are far above what people need, and keep each description, and what a
// node must do for it, bounded.
const (
	MaxJobs      = 64
	MaxReplicas  = 4096 // of all jobs
	MaxProcesses = 64   // of a replica
	MaxPorts     = 16   // of a process
	MaxGPUs      = 1024 // of a process
	MaxRetries   = 1000
	MaxAfter     = 64
	MaxHostnames = 4096
	MaxArray     = 10_000 // launches of an array

	// MaxCommandBytes and MaxEnvironmentBytes are what one process may get. Linux takes 2 MiB of
	// both together, and 128 KiB for one string.
	MaxCommandBytes     = 128 << 10
	MaxEnvironmentBytes = 128 << 10

	maxName        = 100
	maxDescription = 10_000
	maxLabel       = 63
	maxPath        = 4095
)

// checker collects what is wrong with the values of a Spec.
type checker struct{ errors Errors }

// wrong adds an error; a nil value is not shown.
func (c *checker) wrong(field string, value any, problem string) {
	e := FieldError{Field: field, Problem: problem}
	if value != nil {
		e.Value = shown(value)
	}
	c.errors = append(c.errors, e)
}

// Check returns the Spec with everything that was left out filled in, or Errors. It knows nothing
// of any cluster: whether there are such nodes is asked later.
func (s Spec) Check() (Spec, error) {
	var c checker
	s.Jobs = slices.Clone(s.Jobs)
	c.checkLaunch(&s)
	c.checkJobs(s.Jobs)
	for i := range s.Jobs {
		s.Jobs[i].Processes = slices.Clone(s.Jobs[i].Processes)
		c.checkJob(fmt.Sprintf("jobs[%d]", i), &s.Jobs[i], s.Variables)
	}
	c.checkArray(&s)
	if len(c.errors) > 0 {
		return Spec{}, c.errors
	}
	return s, nil
}

func (c *checker) checkLaunch(s *Spec) {
	c.text("name", s.Name, maxName)
	c.text("description", s.Description, maxDescription)
	if s.Queue == "" {
		s.Queue = Wait
	}
	if s.Queue != Wait && s.Queue != Refuse {
		c.wrong("queue", string(s.Queue), `want "wait" or "refuse"`)
	}
	if s.Network != "" && s.Network != HostNetwork && s.Network != OwnNetwork {
		c.wrong("network", string(s.Network), `want "host" or "own"`)
	}
	if s.Network == OwnNetwork && len(New(*s).Replicas) > MaxAddresses {
		c.wrong("network", string(s.Network), fmt.Sprintf("a launch with a network of its own has at most %d replicas", MaxAddresses))
	}
	c.between("priority", s.Priority, -1000, 1000)
	c.atMost("after", len(s.After), MaxAfter)
	for i, each := range s.After {
		c.label(fmt.Sprintf("after[%d]", i), each)
	}
	c.checkPlace(s.Place)
	c.checkSource(s.Source)
	c.checkCheckpoint(s.Checkpoint)
	c.environment("env", s.Variables)
}

func (c *checker) checkPlace(p Place) {
	for _, each := range []struct{ field, value string }{{"place.cluster", p.Cluster}, {"place.shard", p.Shard}} {
		if each.value != "" {
			c.label(each.field, each.value)
		}
	}
	c.atMost("place.hostnames", len(p.Hostnames), MaxHostnames)
	for i, each := range p.Hostnames {
		field := fmt.Sprintf("place.hostnames[%d]", i)
		c.hostname(field, each)
		if slices.Index(p.Hostnames, each) != i {
			c.wrong(field, each, "it is named twice")
		}
	}
}

func (c *checker) checkSource(s Source) {
	switch {
	case s.Directory != "" && s.Git != "":
		c.wrong("source", nil, "has a dir and a git repository; leave one out")
	case s.Git == "" && (s.Branch != "" || s.Commit != ""):
		c.wrong("source.git", nil, "missing: a branch or commit needs a repository")
	}
	c.text("source.dir", s.Directory, maxPath)
	c.word("source.git", s.Git)
	c.word("source.branch", s.Branch)
	if s.Commit != "" && !isCommit(s.Commit) {
		c.wrong("source.commit", s.Commit, "want the 40 or 64 hexadecimal digits of a commit")
	}
}

// word refuses what git could take for an option, and text that is not one word.
func (c *checker) word(field, value string) {
	c.text(field, value, maxPath)
	if strings.HasPrefix(value, "-") || strings.ContainsFunc(value, unicode.IsSpace) {
		c.wrong(field, value, "want a name without spaces that does not begin with -")
	}
}

// isCommit reports whether text is the full name of a commit.
func isCommit(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

func (c *checker) checkCheckpoint(p Checkpoint) {
	if p.Keep < 0 {
		c.wrong("checkpoint.keep", p.Keep, "want how many generations stay; left out, three do")
	}
	c.text("checkpoint.dir", p.Directory, maxPath)
	if p.Directory != "" && !strings.HasPrefix(p.Directory, "/") {
		c.wrong("checkpoint.dir", p.Directory, "want an absolute path that all nodes share")
	}
	for i, each := range p.On {
		if each != string(OnPreempt) && each != string(OnDrain) && each != string(OnSuspend) {
			c.wrong(fmt.Sprintf("checkpoint.on[%d]", i), each, `want "preempt", "drain" or "suspend"`)
		}
	}
}

// checkJobs checks the jobs as a whole.
func (c *checker) checkJobs(jobs []Job) {
	if len(jobs) == 0 {
		c.wrong("jobs", nil, "missing: a launch needs at least one job")
	}
	c.atMost("jobs", len(jobs), MaxJobs)
	replicas, names := 0, map[string]int{}
	for i, job := range jobs {
		replicas += min(max(job.Replicas.Max, 1), MaxReplicas+1)
		if first, found := names[job.Name]; found && job.Name != "" {
			c.wrong(fmt.Sprintf("jobs[%d].name", i), job.Name, fmt.Sprintf("jobs[%d] has the same name", first))
			continue
		}
		names[job.Name] = i
	}
	if replicas > MaxReplicas {
		c.wrong("jobs", nil, fmt.Sprintf("more than %d replicas in all", MaxReplicas))
	}
}

// checkJob checks one job and fills in what was left out.
func (c *checker) checkJob(field string, j *Job, outer map[string]string) {
	if j.Name == "" {
		c.wrong(field+".name", nil, "missing")
	} else {
		c.label(field+".name", j.Name)
	}
	if j.Replicas == (Replicas{}) {
		j.Replicas = Replicas{1, 1}
	}
	if j.Replicas.Min < 1 || j.Replicas.Max < j.Replicas.Min {
		c.wrong(field+".replicas", nil, "want a number from 1, or a range as 4..8")
	}
	if j.OnReplicaFailure == "" {
		j.OnReplicaFailure = StopOthers
	}
	if j.OnReplicaFailure != StopOthers && j.OnReplicaFailure != KeepOthers {
		c.wrong(field+".on_replica_failure", string(j.OnReplicaFailure), `want "stop" or "continue"`)
	}
	c.between(field+".retries", j.Retries, 0, MaxRetries)
	for i, code := range j.RetryOn {
		c.between(fmt.Sprintf("%s.retry_on[%d]", field, i), code, 1, 255)
	}
	if len(j.RetryOn) > 0 && j.Retries == 0 {
		c.wrong(field+".retry_on", nil, "has no effect without retries")
	}
	c.environment(field+".env", j.Variables)
	if len(j.Processes) == 0 {
		c.wrong(field+".processes", nil, "missing: a replica needs at least one process")
	}
	c.atMost(field+".processes", len(j.Processes), MaxProcesses)
	for i := range j.Processes {
		c.checkProcess(fmt.Sprintf("%s.processes[%d]", field, i), &j.Processes[i], outer, j.Variables)
	}
}

func (c *checker) checkProcess(field string, p *Process, outer ...map[string]string) {
	c.command(field+".command", p.Command)
	c.text(field+".dir", p.Directory, maxPath)
	if !isInside(p.Directory) {
		c.wrong(field+".dir", p.Directory, "want a path inside the working directory")
	}
	c.environment(field+".env", p.Variables)
	total := map[string]string{}
	for _, each := range append(outer, p.Variables) {
		maps.Copy(total, each)
	}
	if size := environmentBytes(total); size > MaxEnvironmentBytes {
		c.wrong(field+".env", nil, fmt.Sprintf("%d bytes in all; at most %d are allowed", size, MaxEnvironmentBytes))
	}
	c.atMost(field+".ports", len(p.Ports), MaxPorts)
	for i, each := range p.Ports {
		name := fmt.Sprintf("%s.ports[%d]", field, i)
		c.label(name, each)
		if slices.Index(p.Ports, each) != i {
			c.wrong(name, each, "it is named twice")
		}
	}
	c.resources(field+".resources", p.Resources)
}

// command refuses an argv that no program can get.
func (c *checker) command(field string, command []string) {
	if len(command) == 0 || command[0] == "" {
		c.wrong(field, nil, `missing: name the program and its arguments, as ["python3", "train.py"]`)
		return
	}
	size := 0
	for i, each := range command {
		size += len(each) + 1
		if strings.ContainsRune(each, 0) || !utf8.ValidString(each) {
			c.wrong(fmt.Sprintf("%s[%d]", field, i), each, "want UTF-8 without NUL bytes")
		}
	}
	if size > MaxCommandBytes {
		c.wrong(field, nil, fmt.Sprintf("%d bytes; at most %d are allowed", size, MaxCommandBytes))
	}
}

// resources refuses GPUs without a number.
func (c *checker) resources(field string, r Resources) {
	c.between(field+".gpus", r.GPUs, 0, MaxGPUs)
	if r.GPUs == 0 && (len(r.GPUModels) > 0 || r.GPUMemory > 0) {
		c.wrong(field+".gpus", nil, "missing: gpu_models and gpu_memory say which, not how many")
	}
	for i, each := range r.GPUModels {
		name := fmt.Sprintf("%s.gpu_models[%d]", field, i)
		c.text(name, each, maxLabel)
		if len(modelWords(each)) == 0 {
			c.wrong(name, each, "want a model, as h100 or a100-80gb")
		}
	}
}

// environment checks names and values. A value may have any text but NUL.
func (c *checker) environment(field string, values map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !isVariable(name):
			c.wrong(field, name, "want names of letters, digits and _ that do not begin with a digit")
		case strings.HasPrefix(name, "PHOS_"):
			c.wrong(join(field, name), nil, "names that begin with PHOS_ are set by phos")
		case strings.ContainsRune(values[name], 0) || !utf8.ValidString(values[name]):
			c.wrong(join(field, name), values[name], "want UTF-8 without NUL bytes")
		}
	}
}

// environmentBytes is what an environment takes of a process's memory.
func environmentBytes(values map[string]string) (size int) {
	for name, value := range values {
		size += len(name) + len(value) + 2
	}
	return size
}

// isVariable reports whether a shell takes a name for that of a variable.
func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && len(name) <= maxPath
}

// isInside reports whether a relative path stays below the directory that it starts in.
func isInside(path string) bool {
	depth := 0
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
		case "..":
			depth--
		default:
			depth++
		}
		if depth < 0 {
			return false
		}
	}
	return !strings.HasPrefix(path, "/")
}

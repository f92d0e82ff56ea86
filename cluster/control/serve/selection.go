package serve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/record"
)

// selection is which processes of a launch a request is about: ID[/job[.replica[.process]]].
type selection struct {
	id, job          string
	replica, process int // -1: all
}

// parseSelection reads ID[/job[.replica[.process]]].
func parseSelection(text string) (selection, error) {
	s := selection{replica: -1, process: -1}
	id, rest, _ := strings.Cut(text, "/")
	s.id = id
	if rest == "" {
		return s, nil
	}
	words := strings.Split(rest, ".")
	s.job = words[0]
	for i, into := range []*int{&s.replica, &s.process} {
		if len(words) <= i+1 {
			break
		}
		number, err := strconv.Atoi(words[i+1])
		if err != nil || number < 0 {
			return s, api.Invalid(fmt.Sprintf("%.100q: want ID, ID/job, ID/job.replica or ID/job.replica.process", text))
		}
		*into = number
	}
	if len(words) > 3 {
		return s, api.Invalid(fmt.Sprintf("%.100q: want ID, ID/job, ID/job.replica or ID/job.replica.process", text))
	}
	return s, nil
}

// source is an attempt whose log is wanted, with the node that has it.
type source struct {
	job     string
	index   int
	replica int
	attempt int
	node    string
	live    bool
	process int
	launch  string
}

// sources returns the attempts that a request is about.
func sources(l *record.Launch, s selection, attempt int) (found []source, err error) {
	jobs := 0
	for i := range l.State.Replicas {
		r := &l.State.Replicas[i]
		job := l.State.Spec.Jobs[r.Job].Name
		if s.job != "" && s.job != job || s.replica >= 0 && s.replica != r.Index {
			continue
		}
		jobs++
		if s.process >= len(l.State.Spec.Jobs[r.Job].Processes) {
			return nil, fmt.Errorf("%w: job %s has %d processes", api.ErrNotFound, job, len(l.State.Spec.Jobs[r.Job].Processes))
		}
		if at, ok := attemptOf(l, i, attempt); ok {
			at.job, at.index, at.process, at.launch = job, r.Index, s.process, l.ID
			found = append(found, at)
		}
	}
	if jobs == 0 {
		return nil, fmt.Errorf("%w: launch %s has no replica %s.%d", api.ErrNotFound, l.Label(), s.job, s.replica)
	}
	return found, nil
}

// attemptOf returns where an attempt of a replica ran; 0 is the last one.
func attemptOf(l *record.Launch, replica, attempt int) (source, bool) {
	r := &l.State.Replicas[replica]
	if attempt == 0 {
		attempt = r.Attempt
	}
	for _, span := range slices.Backward(l.Spans) {
		if span.Replica == replica && span.Attempt == attempt {
			return source{replica: replica, attempt: attempt, node: span.Node, live: r.Live && r.Attempt == attempt}, true
		}
	}
	return source{}, false
}

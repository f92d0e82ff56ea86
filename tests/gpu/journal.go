package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// journal stores outcomes at once, one per line. A run that is cut off loses only its current row.
type journal struct {
	file *os.File
	done map[string]outcome // the last outcome, by part and name
}

// openJournal reads the outcomes of earlier runs on the same machine. On another machine (other
// GPU, driver or phos) it starts empty.
func openJournal(path string, of identity) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{file: file, done: map[string]outcome{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20) // for the output of failed tests
	var was identity
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &was) != nil || was != of {
		if err := file.Truncate(0); err != nil {
			return nil, err
		}
		return j, j.writeLine(of)
	}
	for lines.Scan() {
		var o outcome
		// A truncated last line is a row without an outcome.
		if json.Unmarshal(lines.Bytes(), &o) == nil {
			j.done[o.Part+" "+o.Name] = o
		}
	}
	return j, lines.Err()
}

// writeLine appends a value as one line of JSON.
func (j *journal) writeLine(of any) error {
	encoded, err := json.Marshal(of)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(encoded, '\n')); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// add stores an outcome.
func (j *journal) add(o outcome) error {
	j.done[o.Part+" "+o.Name] = o
	return j.writeLine(o)
}

// shown reports whether a row need not run again. A row that was impossible or skipped may be
// possible by now; a failed one runs again only on request.
func (j *journal) shown(r row, again bool) bool {
	o := j.done[r.part+" "+r.name]
	return r.part != probes && (o.Verdict == passed || o.Verdict == failed && !again)
}

// about returns the expected time of a row: its last time, if that was longer.
func (j *journal) about(r row) time.Duration {
	o := j.done[r.part+" "+r.name]
	last := time.Duration(o.Seconds * float64(time.Second))
	if o.Verdict == passed {
		return last
	}
	return max(r.about, last)
}

// of returns the outcomes of rows that have one.
func (j *journal) of(rows []row) (outcomes []outcome) {
	for _, r := range rows {
		if o, there := j.done[r.part+" "+r.name]; there {
			outcomes = append(outcomes, o)
		}
	}
	return outcomes
}

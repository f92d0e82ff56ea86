package main

import (
	"context"
	"time"
)

// row is one item of the run.
type row struct {
	part, name string
	// needs are facts about the machine without which the row is impossible.
	needs []fact
	// about is its expected time; it is cut off after limit.
	about, limit time.Duration
	// show returns the measured figures, or an error.
	show func(ctx context.Context, m *machine) ([]figure, error)
}

// figure is a measured value with its target: at most Most, or at least Least, where these are not
// 0.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	Most  float64 `json:"most,omitempty"`
	Least float64 `json:"least,omitempty"`
	Note  string  `json:"note,omitempty"`
}

// judged reports whether a figure meets its target; empty without a target.
func (f figure) judged() string {
	switch {
	case f.Most == 0 && f.Least == 0:
		return ""
	case (f.Most == 0 || f.Value <= f.Most) && (f.Least == 0 || f.Value >= f.Least):
		return "met"
	}
	return "missed"
}

// verdict is the result of a row.
type verdict string

const (
	passed     verdict = "passed"
	failed     verdict = "FAILED"
	skipped    verdict = "skipped" // it was skipped by the test itself, which gave the reason
	impossible verdict = "impossible"
	cutOff     verdict = "cut off" // the time of its part was over
)

// outcome is the result of a row that was run.
type outcome struct {
	Part    string    `json:"part"`
	Name    string    `json:"name"`
	Verdict verdict   `json:"verdict"`
	Why     string    `json:"why,omitempty"`
	Seconds float64   `json:"seconds"`
	Figures []figure  `json:"figures,omitempty"`
	At      time.Time `json:"at"`
}

// skip is the error of a row that cannot be run here.
type skip struct{ why string }

func (s skip) Error() string { return s.why }

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// report is the result of a comparison.
type report struct {
	Files []fileReport `json:"files"`
	// NotRun are the places that no test runs.
	NotRun []place `json:"not_run"`
	// Left is the number of these places without an exception.
	Left int `json:"left"`
	// Needless names exceptions whose code is run, or no longer exists.
	Needless []string `json:"needless"`
}

type fileReport struct {
	File     string   `json:"file"`
	Language language `json:"language"`
	Count    int      `json:"count"`
	NotRun   int      `json:"not_run"`
}

func newReport(places []place, exceptions []exception) *report {
	type part struct {
		file string
		in   language
	}
	r, files := &report{NotRun: []place{}, Needless: []string{}}, map[part]*fileReport{}
	exceptions = slices.Clone(exceptions)
	for _, p := range places {
		key := part{p.File, p.Language}
		if files[key] == nil {
			files[key] = &fileReport{File: p.File, Language: p.Language}
		}
		files[key].Count++
		if p.run {
			continue
		}
		files[key].NotRun++
		if at := slices.IndexFunc(exceptions, func(e exception) bool { return e.matches(p) }); at >= 0 {
			p.Reason = exceptions[at].reason
			exceptions = slices.Delete(exceptions, at, at+1)
		} else {
			r.Left++
		}
		r.NotRun = append(r.NotRun, p)
	}
	for _, e := range exceptions {
		what := "no longer exists"
		if slices.ContainsFunc(places, e.matches) {
			what = "is run after all"
		}
		r.Needless = append(r.Needless, fmt.Sprintf("line %d: %s %s: %s: %s", e.line, e.file, e.function, e.source, what))
	}
	keys := slices.SortedFunc(maps.Keys(files), func(a, b part) int {
		return inOrder(place{File: a.file, Source: string(a.in)}, place{File: b.file, Source: string(b.in)})
	})
	for _, key := range keys {
		r.Files = append(r.Files, *files[key])
	}
	return r
}

// print writes the report for people. exceptions is the name of the exceptions file.
func (r *report) print(w io.Writer, exceptions string) {
	total := map[language]fileReport{}
	for _, f := range r.Files {
		fmt.Fprintf(w, "%-36s %4d of %4d %s not run\n", f.File, f.NotRun, f.Count, f.Language)
		sum := total[f.Language]
		total[f.Language] = fileReport{Count: sum.Count + f.Count, NotRun: sum.NotRun + f.NotRun}
	}
	for _, in := range []language{inGo, inC} {
		fmt.Fprintf(w, "%-36s %4d of %4d %s not run\n", "all", total[in].NotRun, total[in].Count, in)
	}
	for _, p := range r.NotRun {
		if p.Reason == "" {
			fmt.Fprintf(w, "not run: %s\n", p)
		} else {
			fmt.Fprintf(w, "excepted: %s\n          %s\n", p, p.Reason)
		}
	}
	for _, needless := range r.Needless {
		fmt.Fprintf(w, "needless: %s, %s\n", exceptions, needless)
	}
}

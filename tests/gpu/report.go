package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// describe says what the machine is, and what it does not allow.
func (m *machine) describe(w io.Writer) {
	fmt.Fprintf(w, "%-10s %s, %d GiB, driver %s; %d GiB of memory; %s\n", "machine", m.GPU, m.deviceBytes>>30, m.Driver, m.hostBytes>>30, m.Phos)
	for _, each := range []fact{isRoot, hasGPU, hasCRIU, mayTrace, mayMount, mayFreeze, hasTorch} {
		if why, lacks := m.lacks[each]; lacks {
			fmt.Fprintf(w, "%-10s no %s: %s\n", "", each, why)
		}
	}
}

// list says which rows there are.
func list(w io.Writer, m *machine, rows []row) {
	for _, r := range rows {
		fmt.Fprintln(w, strings.TrimSpace(r.part+"/"+r.name+"  "+prefixed("impossible here: ", m.missing(r))))
	}
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// line is an outcome for people who watch.
func line(o outcome) string {
	text := fmt.Sprintf("%-10s %s/%s (%.1f s)", o.Verdict, o.Part, o.Name, o.Seconds)
	for _, f := range o.Figures {
		text += fmt.Sprintf("\n%-10s %s", "", f)
	}
	if o.Why != "" {
		text += "\n" + indented(o.Why)
	}
	return text
}

func indented(text string) string {
	return "           " + strings.ReplaceAll(text, "\n", "\n           ")
}

func (f figure) String() string {
	text := fmt.Sprintf("%s: %.4g %s", f.Name, f.Value, f.Unit)
	switch {
	case f.Most != 0:
		text += fmt.Sprintf(" (at most %g: %s)", f.Most, f.judged())
	case f.Least != 0:
		text += fmt.Sprintf(" (at least %g: %s)", f.Least, f.judged())
	}
	return strings.TrimSpace(text + " " + f.Note)
}

func (f figure) judged() string {
	if f.reached() {
		return "ok"
	}
	return "missed"
}

// report writes what is known of the rows, from this run and those before, and says what failed and what is left.
func (c *course) report(directory string, rows []row) error {
	var shown []outcome
	for _, r := range rows {
		if o, there := c.journal.done[r.part+" "+r.name]; there {
			shown = append(shown, o)
		}
	}
	base := filepath.Join(directory, "gpu-"+time.Now().UTC().Format("2006-01-02-150405"))
	encoded, err := json.MarshalIndent(struct {
		Machine  identity  `json:"machine"`
		Bytes    uint64    `json:"device_bytes"`
		Outcomes []outcome `json:"outcomes"`
	}{c.machine.identity, c.machine.deviceBytes, shown}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(base+".json", append(encoded, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(base+".md", []byte(c.machine.markdown(shown)), 0o644); err != nil {
		return err
	}
	fmt.Printf("%-10s %s.md and .json\n", "written", base)
	return c.verdict(shown)
}

// verdict is an error when something failed, and says how to go on where rows are left.
func (c *course) verdict(shown []outcome) error {
	if len(c.left) > 0 {
		fmt.Printf("%-10s %d rows did not fit into %s a part: run it again for them\n", "left", len(c.left), c.limit)
	}
	count := map[verdict]int{}
	var failures []string
	for _, o := range shown {
		count[o.Verdict]++
		if o.Verdict == failed {
			failures = append(failures, o.Part+"/"+o.Name)
		}
	}
	fmt.Printf("%-10s %d passed, %d failed, %d skipped, %d impossible here\n", "rows", count[passed], count[failed], count[skipped], count[impossible])
	if len(failures) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failures, ", "))
	}
	return nil
}

// markdown is the table for people.
func (m *machine) markdown(shown []outcome) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# On a real GPU, %s\n\n%s, %d GiB, driver %s; %d GiB of host memory; %s.\n\n| row | verdict | seconds | figures |\n| --- | --- | ---: | --- |\n",
		time.Now().UTC().Format(time.DateOnly), m.GPU, m.deviceBytes>>30, m.Driver, m.hostBytes>>30, m.Phos)
	for _, o := range shown {
		var cells []string
		for _, f := range o.Figures {
			cells = append(cells, f.String())
		}
		if o.Why != "" {
			first, _, _ := strings.Cut(o.Why, "\n")
			cells = append(cells, first)
		}
		fmt.Fprintf(&text, "| %s/%s | %s | %.1f | %s |\n", o.Part, o.Name, o.Verdict, o.Seconds,
			strings.ReplaceAll(strings.Join(cells, "<br>"), "|", "\\|"))
	}
	return text.String()
}

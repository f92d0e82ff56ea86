package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// describe prints what the machine is, and what it does not allow.
func (m *machine) describe(w io.Writer) {
	fmt.Fprintf(w, "%-10s %s\n", "machine", m)
	for _, each := range facts {
		if why, lacks := m.lacks[each.fact]; lacks {
			fmt.Fprintf(w, "%-10s no %s: %s\n", "", each.fact, why)
		}
	}
}

func (m *machine) String() string {
	device := "no GPU"
	if m.GPU != "" {
		device = fmt.Sprintf("%s, %d GiB, driver %s", m.GPU, m.deviceBytes>>30, m.Driver)
	}
	return fmt.Sprintf("%s; %d cores, %d GiB of memory, %d GiB free in %s; %s", device,
		runtime.NumCPU(), m.hostBytes>>30, m.diskBytes>>30, m.scratch, strings.ReplaceAll(m.Phos, "\n", ", "))
}

// list prints the rows.
func list(w io.Writer, m *machine, rows []row) {
	for _, r := range rows {
		fmt.Fprintln(w, strings.TrimSpace(r.part+"/"+r.name+"  "+prefixed("impossible here: ", m.missing(r))))
	}
}

// prefixed returns the text behind the prefix, or nothing if the text is empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// line formats an outcome for people.
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

// report is the table and the JSON of a run, both complete after every row.
type report struct {
	machine *machine
	base    string // path without the extension
}

func newReport(m *machine, directory string) report {
	return report{m, filepath.Join(directory, "gpu-"+time.Now().UTC().Format("2006-01-02-150405"))}
}

// write writes the rows of this run and of earlier ones.
func (r report) write(outcomes []outcome) error {
	encoded, err := json.MarshalIndent(struct {
		Date     time.Time       `json:"date"`
		Machine  identity        `json:"machine"`
		Bytes    uint64          `json:"device_bytes"`
		Host     uint64          `json:"host_bytes"`
		Lacks    map[fact]string `json:"lacks"`
		Outcomes []outcome       `json:"outcomes"`
	}{time.Now().UTC().Truncate(time.Second), r.machine.identity, r.machine.deviceBytes, r.machine.hostBytes, r.machine.lacks, outcomes}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.base+".json", append(encoded, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(r.base+".md", []byte(r.machine.markdown(outcomes)), 0o644)
}

// conclude returns an error if a row failed, and says how to continue if rows are left.
func (c *course) conclude(outcomes []outcome) error {
	fmt.Printf("%-10s %s.md and .json\n", "written", c.report.base)
	if len(c.left) > 0 {
		var names []string
		for _, r := range c.left {
			names = append(names, r.part+"/"+r.name)
		}
		fmt.Printf("%-10s no time was left for %s: run it again for them\n", "left", strings.Join(names, ", "))
	}
	count := map[verdict]int{}
	var failures []string
	for _, o := range outcomes {
		count[o.Verdict]++
		if o.Verdict == failed {
			failures = append(failures, o.Part+"/"+o.Name)
		}
		for _, f := range o.Figures {
			if f.judged() == "missed" {
				fmt.Printf("%-10s %s/%s: %s\n", "missed", o.Part, o.Name, f)
			}
		}
	}
	fmt.Printf("%-10s %d passed, %d failed, %d skipped, %d cut off, %d impossible here\n", "rows",
		count[passed], count[failed], count[skipped], count[cutOff], count[impossible])
	if len(failures) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failures, ", "))
	}
	return nil
}

// markdown returns the table for people.
func (m *machine) markdown(shown []outcome) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# On a GPU, %s\n\n%s.\n\n| row | verdict | seconds | figures |\n| --- | --- | ---: | --- |\n",
		time.Now().UTC().Format(time.DateOnly), m)
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

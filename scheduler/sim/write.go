package sim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Seconds formats a duration in seconds, exactly and as short as possible: 300, 0.5, 1.000000001.
func Seconds(d time.Duration) string { return string(words.AppendSeconds(nil, d)) }

// csvField quotes a field of a CSV file if necessary.
func csvField(text string) string {
	if !strings.ContainsAny(text, ",\"\r\n") {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
}

// TimelineCSV writes the timeline: time_s, running, waiting, held, gpus_demanded, gpus_busy, gpus.
func (r *Result) TimelineCSV(to io.Writer) error {
	out := bufio.NewWriter(to)
	fmt.Fprintln(out, "time_s,running,waiting,held,gpus_demanded,gpus_busy,gpus")
	for m := range r.Timeline.All() {
		busy := strconv.FormatFloat(float64(m.BusyMilli)/cluster.WholeGPU, 'f', -1, 64)
		fmt.Fprintf(out, "%s,%d,%d,%d,%d,%s,%d\n", Seconds(m.At), m.Running, m.Waiting, m.Held, m.Demand, busy, m.Capacity)
	}
	return out.Flush()
}

// SummaryJSON writes the summary.
func (r *Result) SummaryJSON(to io.Writer) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(&r.Summary)
}

// Write writes the three files to a folder.
func (r *Result) Write(dir string) error { return r.WriteAs(dir, "") }

// WriteAs is Write with a prefix before the names.
func (r *Result) WriteAs(dir, prefix string) error {
	for _, each := range []struct {
		name  string
		write func(io.Writer) error
	}{{"jobs.csv", r.JobsCSV}, {"summary.json", r.SummaryJSON}, {"timeline.csv", r.TimelineCSV}} {
		if err := writeFile(dir, prefix+each.name, each.write); err != nil {
			return err
		}
	}
	return nil
}

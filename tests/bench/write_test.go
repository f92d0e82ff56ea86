package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// result is the content of a file in bench/results.
type result struct {
	Date     string    `json:"date"`
	Machine  string    `json:"machine"`
	Load     string    `json:"load"`
	Bytes    uint64    `json:"bytes"`
	Rounds   int       `json:"rounds"`
	Sections []section `json:"sections"`
}

// write writes the rows to a directory, as text for people and as JSON for programs.
func write(t *testing.T, dir string, b *bench, all []section) {
	t.Helper()
	now := time.Now()
	r := result{
		Date: now.Format(
			time.DateOnly,
		), Machine: machine(), Load: load(t), Bytes: b.bytes, Rounds: b.rounds, Sections: all,
	}
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(dir, now.Format("2006-01-02-150405"))
	for suffix, text := range map[string]string{".json": string(encoded) + "\n", ".md": r.markdown()} {
		if err := os.WriteFile(base+suffix, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("written: %s.md and %s.json", base, base)
}

// machine describes the measured machine.
func machine() string {
	var name unix.Utsname
	_ = unix.Uname(&name)
	kernel := unix.ByteSliceToString(name.Release[:])
	var info unix.Sysinfo_t
	_ = unix.Sysinfo(&info)
	return fmt.Sprintf(
		"%d cores (%s), %d GiB, Linux %s, no GPU: the software one",
		runtime.NumCPU(),
		processor(),
		(info.Totalram+1<<29)>>30,
		kernel,
	)
}

// processor returns the model of the first processor.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// markdown returns a table for each section.
func (r *result) markdown() string {
	var text strings.Builder
	fmt.Fprintf(&text, "# Speed, %s\n\n%s. Load before: %s. %d MiB of device memory, medians of %d rounds by turns.\n",
		r.Date, r.Machine, r.Load, r.Bytes/mebibyte, r.Rounds)
	for _, s := range r.Sections {
		fmt.Fprintf(&text, "\n## %s\n\n| measure | value | target | |\n| --- | ---: | --- | --- |\n", s.Name)
		for _, each := range s.Rows {
			target, verdict := each.target()
			fmt.Fprintf(
				&text,
				"| %s | %s | %s | %s |\n",
				strings.TrimSpace(each.name),
				strings.TrimSpace(each.figure()+" "+each.unit),
				strings.TrimSpace(target+" "+verdict),
				each.note,
			)
		}
	}
	return text.String()
}

// MarshalJSON uses the names that readers of the file expect.
func (r row) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"name": strings.TrimSpace(
			r.name,
		), "value": r.value, "unit": r.unit, "most": r.most, "least": r.least, "note": r.note,
	})
}

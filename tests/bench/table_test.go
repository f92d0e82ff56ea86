package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// row is a figure with its target: at most most, or at least least, where these are not 0.
type row struct {
	name        string
	value       float64
	unit        string
	most, least float64
	note        string
}

func (r row) String() string {
	target, verdict := r.target()
	return fmt.Sprintf("%-34s %8s %-3s %-8s %-7s %s", r.name, r.figure(), r.unit, target, verdict, r.note)
}

// target returns the target, and whether the value meets it.
func (r row) target() (target, verdict string) {
	switch {
	case r.most != 0:
		return fmt.Sprintf("<= %g", r.most), judge(r.value <= r.most)
	case r.least != 0:
		return fmt.Sprintf(">= %g", r.least), judge(r.value >= r.least)
	}
	return "", ""
}

// figure returns the value with about three significant digits.
func (r row) figure() string {
	decimals := 2
	switch {
	case r.value >= 100:
		decimals = 0
	case r.value < 0.1:
		decimals = 4
	}
	return strconv.FormatFloat(r.value, 'f', decimals, 64)
}

func judge(reached bool) string {
	if reached {
		return "ok"
	}
	return "missed"
}

// section is the rows of one group.
type section struct {
	Name string `json:"name"`
	Rows []row  `json:"rows"`
}

// table formats the rows as text.
func table(rows []row) string {
	var text strings.Builder
	for _, r := range rows {
		fmt.Fprintln(&text, strings.TrimRight(r.String(), " "))
	}
	return text.String()
}

// logTable logs the rows, with the load of the machine.
func logTable(t *testing.T, rows []row) {
	t.Helper()
	t.Logf("load %s on %d cores\n%s", load(t), runtime.NumCPU(), table(rows))
}

// load returns the load averages of one, five and fifteen minutes.
func load(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

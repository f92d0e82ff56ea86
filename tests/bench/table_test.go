package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// row is a figure beside what it should be: at most most, or at least least, where these are not 0.
type row struct {
	name        string
	value       float64
	unit        string
	most, least float64
	note        string
}

func (r row) String() string {
	target, verdict := "", ""
	switch {
	case r.most != 0:
		target, verdict = fmt.Sprintf("<= %g", r.most), judge(r.value <= r.most)
	case r.least != 0:
		target, verdict = fmt.Sprintf(">= %g", r.least), judge(r.value >= r.least)
	}
	decimals := 2
	if r.value >= 100 {
		decimals = 0
	}
	return fmt.Sprintf("%-32s %8.*f %-3s %-8s %-7s %s", r.name, decimals, r.value, r.unit, target, verdict, r.note)
}

func judge(reached bool) string {
	if reached {
		return "ok"
	}
	return "missed"
}

// print shows the rows, and how busy the machine was with other things.
func print(t *testing.T, rows []row) {
	t.Helper()
	var table strings.Builder
	for _, r := range rows {
		fmt.Fprintln(&table, strings.TrimRight(r.String(), " "))
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("load %s on %d cores\n%s", strings.Join(strings.Fields(string(load))[:3], " "), runtime.NumCPU(), table.String())
}

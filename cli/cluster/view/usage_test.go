package view

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/api"
)

// TestUsedSince: a share of a CPU needs two looks at the same start of a process.
func TestUsedSince(t *testing.T) {
	at := func(attempt uint32, cpu, clock uint64) *api.ProcessUsage {
		return &api.ProcessUsage{
			Launch: "l-1", Number: 1, Job: "main", Attempt: attempt, Phase: "running", Node: "a\x1b", Gpus: []uint32{3, 4},
			CpuNs: proto.Uint64(cpu), AtNs: proto.Uint64(clock), MemoryBytes: proto.Uint64(2 << 20),
		}
	}
	unknown := at(1, 0, 0)
	unknown.CpuNs, unknown.AtNs, unknown.MemoryBytes = nil, nil, nil
	for name, each := range map[string]struct {
		before, now *api.ProcessUsage
		want        string
	}{
		"half":          {at(1, 1000, 1000), at(1, 1500, 2000), "50%"},
		"two and a bit": {at(1, 0, 0), at(1, 2020, 1000), "202%"},
		"less":          {at(1, 1000, 1000), at(1, 900, 2000), "0%"},
		"another start": {at(1, 1000, 1000), at(2, 1500, 2000), "-"},
		"no time":       {at(1, 1000, 1000), at(1, 1500, 1000), "-"},
		"unknown":       {at(1, 1000, 1000), unknown, "-"},
	} {
		used := UsedSince([]*api.ProcessUsage{each.before}, []*api.ProcessUsage{each.now})
		var text bytes.Buffer
		if err := Usage(&text, used); err != nil {
			t.Fatal(err)
		}
		row := strings.Fields(strings.Split(text.String(), "\n")[1])
		if row[6] != each.want || strings.Contains(text.String(), "\x1b") {
			t.Errorf("%s: %q, want %s", name, row, each.want)
		}
	}
}

// TestFit: no text is larger than the screen.
func TestFit(t *testing.T) {
	text := strings.Repeat("äöü 0123456789\n", 10)
	for _, size := range [][2]int{{0, 0}, {24, 80}, {5, 7}, {2, 1}} {
		got := Fit(text, size[0], size[1])
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		if size[0] > 0 && len(lines) >= size[0] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		if size[0] == 0 && got != text {
			t.Errorf("without limits: %q", got)
		}
		for _, line := range lines {
			if size[1] > 0 && len([]rune(line)) > size[1] {
				t.Errorf("%v: %q", size, line)
			}
		}
	}
	if got := Fit(text, 5, 80); !strings.Contains(got, "(7 more rows") {
		t.Errorf("of 10 rows in 5: %s", got)
	}
}

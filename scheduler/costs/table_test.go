package costs

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
	"github.com/phos-gpu/phos/scheduler/workload"
)

const s = time.Second

func TestFind(t *testing.T) {
	table := New(
		Row{Save: 10 * s, Load: 20 * s},
		Row{Tier: "ram", Bytes: 100, Save: 1 * s, Load: 2 * s},
		Row{Model: "m", Tier: "ram", Bytes: 100, Save: 4 * s, Load: 6 * s},
		Row{Model: "m", Tier: "ram", Bytes: 200, Save: 6 * s, Load: 10 * s},
	)
	for _, tt := range []struct {
		name, model, tier string
		bytes             int64
		save, load        time.Duration
	}{
		{"exactly", "m", "ram", 200, 6 * s, 10 * s},
		{"between", "m", "ram", 150, 5 * s, 8 * s},
		{"below the first", "m", "ram", 10, 4 * s, 6 * s},
		{"beyond the last", "m", "ram", 300, 8 * s, 14 * s},
		{"of unknown size", "m", "ram", 0, 5 * s, 8 * s},
		{"another model", "other", "ram", 100, 1 * s, 2 * s},
		{"beyond the only one", "other", "ram", 300, 3 * s, 6 * s},
		{"another tier", "m", "disk", 150, 10 * s, 20 * s},
	} {
		if row := table.Find(tt.model, tt.tier, tt.bytes); row.Save != tt.save || row.Load != tt.load {
			t.Errorf("%s: %v and %v, want %v and %v", tt.name, row.Save, row.Load, tt.save, tt.load)
		}
	}
}

func TestLearn(t *testing.T) {
	table := New(Row{Model: "m", Bytes: 1000, Save: 50 * s, Load: 60 * s})
	table.Learn("m", "", 1010, Save, 4*s)
	if row := table.Find("m", "", 1000); row.Save != 4*s || row.Saves != 1 || row.Load != 60*s || row.Loads != 0 {
		t.Errorf("a measurement replaces the estimate of the same size, and no other: %+v", row)
	}
	table.Learn("m", "", 1000, Save, 8*s)
	if row := table.Find("m", "", 1000); row.Save != 6*s || row.Saves != 2 {
		t.Errorf("two measurements make a mean: %+v", row)
	}
	table.Learn("m", "", 5000, Load, 9*s)
	if rows := table.Rows(); len(rows) != 2 || rows[1].Load != 9*s || rows[1].Save != 30*s || rows[1].Saves != 0 {
		t.Errorf("another size gets a row of its own, with its neighbour's figures in proportion: %+v", rows)
	}
	for range 1000 {
		table.Learn("m", "", 1000, Save, 2*s)
	}
	if row := table.Find("m", "", 1000); row.Save < 2*s || row.Save > 2*s+s/100 {
		t.Errorf("the mean follows: %+v", row)
	}
}

func TestCostsOfJobs(t *testing.T) {
	table := New(Row{Bytes: 100, Save: 1 * s, Load: 2 * s, SelfSave: 40 * s})
	m := schedulertest.NewView(100*s, []cluster.Node{{GPUs: 4}, {ID: 1, GPUs: 4}},
		schedulertest.Job{
			Job: cluster.Job{ID: 1, GPUs: 3, GPUMemoryBytes: 100}, Phase: scheduler.Running,
			On: cluster.Placement{{Node: 0, Index: 0}, {Node: 0, Index: 1}, {Node: 1, Index: 0}},
		},
		schedulertest.Job{Job: cluster.Job{ID: 2, GPUs: 1, GPUMemoryBytes: 100}, Phase: scheduler.Waiting},
		schedulertest.Job{Job: cluster.Job{ID: 3, GPUs: 1, GPUMemoryBytes: 100}, Phase: scheduler.Waiting, Runs: 1},
	)
	costs := table.For("disk")
	if save := costs.Save(m.Job(1)); save != 2*s {
		t.Errorf("two GPUs on a node and one on another take %v, want 2s", save)
	}
	if lost := costs.Lost(m.Job(1), m.Now()); lost != 20*s {
		t.Errorf("%v lost, want 20s", lost)
	}
	on := cluster.Placement{{Node: 1, Index: 3}}
	if first, again := costs.Load(m.Job(2), on), costs.Load(m.Job(3), on); first != 0 || again != 2*s {
		t.Errorf("a new job loads for %v and one that was stopped for %v, want 0s and 2s", first, again)
	}
}

func TestFile(t *testing.T) {
	const text = `model,tier,bytes,save_s,load_s,self_save_s,saves,loads
,,0,2.5,4,600,0,0
resnet50,ram,4000000000,0.000000001,0.6,0,17,12
`
	table, err := Read(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := table.Write(&again); err != nil || again.String() != text {
		t.Errorf("%v: %s", err, again.String())
	}
	short, err := Read(strings.NewReader("load_s,save_s\n1,2\n"), "f")
	if want := []Row{{Save: 2 * s, Load: 1 * s}}; err != nil || !slices.Equal(short.Rows(), want) {
		t.Errorf("%v, %v", short, err)
	}
}

var bad = []struct {
	text   string
	line   int
	column string
}{
	{"", 0, ""},
	{"save_s\n", 1, ""},
	{"save_s,load_s,colour\n", 1, ""},
	{"save_s,load_s,save_s\n", 1, ""},
	{"save_s,load_s\n1\n", 2, ""},
	{"save_s,load_s\n1,2\n-1,2\n", 3, "save_s"},
	{"save_s,load_s\n1,\n", 2, "load_s"},
	{"save_s,load_s\nNaN,1\n", 2, "save_s"},
	{"save_s,load_s,bytes\n1,1,2.5\n", 2, "bytes"},
	{"save_s,load_s\n\"1,1\n", 2, ""},
}

func TestBadFiles(t *testing.T) {
	for _, tt := range bad {
		_, err := Read(strings.NewReader(tt.text), "f")
		var wrong *workload.Error
		if !errors.As(err, &wrong) || wrong.Line != tt.line || wrong.Column != tt.column || wrong.File != "f" {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("model,tier,bytes,save_s,load_s,self_save_s,saves,loads\nm,,1,1,1,1,1,1\n")
	for _, tt := range bad {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Read(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := table.Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&out, "f")
		if err != nil || !slices.Equal(again.Rows(), table.Rows()) {
			t.Fatalf("%v: %+v is read again as %+v", err, table.Rows(), again.Rows())
		}
	})
}

package bench

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/tests/harness"
)

const mebibyte = 1 << 20

// bench is one run.
type bench struct {
	// rows are the wanted groups of rows.
	rows *regexp.Regexp
	// bytes is the size of a program's device memory.
	bytes uint64
	// largest is the largest size in the table of growth.
	largest uint64
	// rounds is how many times each alternative is measured; the medians are compared.
	rounds int
	// while is how long a rate is measured.
	while time.Duration
	// idle is how long a process that has nothing to do is measured.
	idle time.Duration
	// jobs is the number of jobs for a scheduler.
	jobs int
	// fleet is the size of a cluster.
	fleet fleetSize
	// disk and memory are directories for images.
	disk, memory string

	memoryProgram string   // compiled, or empty
	link          hostLink // measured, or zero
}

// group is some rows that are measured together.
type group struct {
	name    string
	measure func(*testing.T, *bench) []row
}

func groups() []group {
	return []group{
		{"calls", measureCalls},
		{"interpreter", func(t *testing.T, _ *bench) []row { return interpreter(t) }},
		{"digests", measureDigests},
		{"pause", measurePause},
		{"tmpfs", measureTmpfs},
		{"rate", measureRate},
		{"second", measureSecond},
		{"restore", measureRestore},
		{"migrate", measureMigrate},
		{"elsewhere", measureElsewhere},
		{"away", measureAway},
		{"cut", measureCut},
		{"budget", measureBudget},
		{"growth", measureGrowth},
		{"host", measureHost},
		{"comeback", measureComeback},
		{"threads", measureThreads},
		{"steps", measureSteps},
		{"driver", measureDriver},
		{"scheduler", measureScheduler},
		{"sim", measureSim},
		{"peers", measurePeers},
		{"planning", measurePlanning},
		{"training", measureTraining},
		{"cluster", measureCluster},
	}
}

func groupNames() (names []string) {
	for _, each := range groups() {
		names = append(names, each.name)
	}
	return names
}

// TestGroupsAreNamed: the help of ./build.sh bench lists all groups in their order.
func TestGroupsAreNamed(t *testing.T) {
	help, err := exec.Command("../../scripts/bench.sh", "--help").Output()
	listed := strings.Join(strings.Fields(string(help)), " ") // the help wraps its lines
	if err != nil || !strings.Contains(listed, ": "+strings.Join(groupNames(), " ")+" --") {
		t.Errorf("%v: the help does not list %q in order:\n%s", err, groupNames(), help)
	}
}

// newBench reads the settings from the environment.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		rows:    regexp.MustCompile("."),
		bytes:   4 << 30,
		largest: 8 << 30,
		rounds:  3,
		while:   4 * time.Second,
		idle:    30 * time.Second,
		jobs:    100_000,
		fleet:   fleetOf(1000),
	}
	if names := os.Getenv("PHOS_BENCH"); names != "" && names != "1" {
		for name := range strings.SplitSeq(names, "|") {
			if !slices.Contains(groupNames(), name) {
				t.Fatalf("unknown group %q; known: %s", name, strings.Join(groupNames(), ", "))
			}
		}
		b.rows = regexp.MustCompile("^(" + names + ")$")
	}
	if rounds := os.Getenv("PHOS_BENCH_ROUNDS"); rounds != "" {
		var err error
		if b.rounds, err = strconv.Atoi(rounds); err != nil || b.rounds < 1 {
			t.Fatalf("PHOS_BENCH_ROUNDS=%s: %v", rounds, err)
		}
	}
	if nodes := os.Getenv("PHOS_BENCH_NODES"); nodes != "" {
		count, err := strconv.Atoi(nodes)
		if err != nil || count < 1 {
			t.Fatalf("PHOS_BENCH_NODES=%s: %v", nodes, err)
		}
		b.fleet = fleetOf(count)
	}
	if size := os.Getenv("PHOS_BENCH_SIZE"); size != "" {
		var bytes config.Size
		if err := bytes.UnmarshalText([]byte(size)); err != nil {
			t.Fatalf("PHOS_BENCH_SIZE: %v", err)
		}
		b.bytes, b.largest = uint64(bytes), 2*uint64(bytes)
	}
	b.disk, b.memory = b.place(
		t,
		cmp.Or(os.Getenv("PHOS_BENCH_DIR"), "/var/tmp"),
	), b.place(
		t,
		cmp.Or(os.Getenv("PHOS_BENCH_MEMORY"), "/dev/shm"),
	)
	if _, real := harness.Driver(); real {
		mountMemory(t, b.memory)
	}
	return b
}

// place creates a directory for images.
func (b *bench) place(t *testing.T, below string) string {
	t.Helper()
	dir, err := os.MkdirTemp(below, "phos-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestSpeed prints the table. It runs if PHOS_BENCH is set, as by ./build.sh bench: to 1, or to
// names of groups.
func TestSpeed(t *testing.T) {
	if os.Getenv("PHOS_BENCH") == "" {
		t.Skip("run it with ./build.sh bench")
	}
	b := newBench(t)
	var all []section
	for _, each := range groups() {
		if !b.rows.MatchString(each.name) {
			continue
		}
		t.Run(each.name, func(t *testing.T) {
			rows := each.measure(t, b)
			all = append(all, section{each.name, rows})
			logTable(t, rows)
		})
	}
	if path := os.Getenv("PHOS_BENCH_WRITE"); path != "" && !t.Failed() {
		write(t, path, b, all)
	}
}

// onGPU skips tests that are meaningless on the software GPU.
func onGPU(t *testing.T) {
	t.Helper()
	if _, real := harness.Driver(); !real {
		t.Skip("compares phos with the driver alone: run it with ./build.sh gpu")
	}
}

// TestSmall runs the rows of checkpoints with little memory. It checks that they can be measured,
// and that the program's memory is right in the end. It has no speed targets.
func TestSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	b := newBench(t)
	b.bytes, b.largest, b.rounds, b.jobs = 64*mebibyte, 64*mebibyte, 1, 1000
	b.while, b.idle = 200*time.Millisecond, 200*time.Millisecond
	b.fleet = fleetSize{nodes: 5, gpus: 4, queued: 20, listed: 20, rate: 50, while: time.Second}
	for _, name := range []string{
		"digests", "pause", "rate", "second", "restore", "migrate", "elsewhere", "away", "cut", "budget", "growth", "host", "comeback", "threads", "scheduler", "sim", "peers",
		"planning", "cluster",
	} {
		t.Run(name, func(t *testing.T) {
			at := slices.IndexFunc(groups(), func(g group) bool { return g.name == name })
			if rows := groups()[at].measure(t, b); len(rows) == 0 {
				t.Error("got no rows")
			}
		})
	}
}

// daemon starts a phosd whose GPU has enough memory.
func (b *bench) daemon(t *testing.T) *harness.Daemon {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	return harness.Start(t, "--log-level=debug", "--gpus=soft:1,memory="+fmt.Sprintf("%dMiB", 2*b.largest/mebibyte))
}

// imageDir returns a new directory for an image.
func imageDir(t *testing.T, below string) string {
	t.Helper()
	dir, err := os.MkdirTemp(below, "image-")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Clean(dir)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

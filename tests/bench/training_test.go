package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline/progress"
	"github.com/phos-gpu/phos/cluster/pipeline/replay"
	"github.com/phos-gpu/phos/tests/goodput"
	"github.com/phos-gpu/phos/tests/harness"
)

// measureTraining measures phos.pipeline on this machine: a step against that of a plain pipeline,
// and what the loss and the leaving of a rank cost.
func measureTraining(t *testing.T, b *bench) []row {
	_, err := harness.Tool("TRAINING_PYTHON")
	harness.Need(t, "training", err)
	rows := stepsOfTraining(t, b)
	lost, pause := lossOfRank(t)
	return append(append(rows, lost...), goodputRow(t, pause)...)
}

// trainer is a training that is measured.
type trainer struct {
	*testing.T
	how      string
	port     string
	out      string
	ranks    []*exec.Cmd
	printed  []*strings.Builder
	finished []chan error
}

// begin starts the ranks of a training.
func begin(t *testing.T, ranks int, how string, arguments ...string) *trainer {
	t.Helper()
	python, err := harness.Tool("TRAINING_PYTHON")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trainer{T: t, how: how, port: harness.FreePort(t), out: filepath.Join(t.TempDir(), "passes")}
	at := slices.Index(arguments, "OUT")
	arguments = slices.Clone(arguments)
	arguments[at] = tr.out
	for rank := range ranks {
		program := append([]string{harness.Path("tests/bench/testdata/training.py"), how}, arguments...)
		c := exec.CommandContext(t.Context(), python, program...)
		c.Env = append(os.Environ(), "PYTHONPATH="+harness.Path("python"), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1",
			"PHOS_PLANNER="+filepath.Join(harness.Bin(), "pos_cli"), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+tr.port,
			fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("WORLD_SIZE=%d", ranks))
		said, finished := &strings.Builder{}, make(chan error, 1)
		c.Stdout, c.Stderr = said, os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { finished <- c.Wait() }()
		tr.ranks, tr.printed, tr.finished = append(tr.ranks, c), append(tr.printed, said), append(tr.finished, finished)
	}
	return tr
}

// await waits for the ranks that were not ended on purpose.
func (tr *trainer) await(ended ...int) {
	tr.Helper()
	for rank, finished := range tr.finished {
		if err := <-finished; err != nil && !slices.Contains(ended, rank) {
			tr.Fatalf("rank %d: %v", rank, err)
		}
	}
}

// steps returns the seconds of each step, without the first ones.
func (tr *trainer) steps() (all []float64) {
	tr.Helper()
	for line := range strings.Lines(tr.printed[0].String()) {
		seconds, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			tr.Fatal(err)
		}
		all = append(all, seconds)
	}
	return all[2:]
}

// status asks the training how it is.
func (tr *trainer) status() *progress.Status {
	tr.Helper()
	ctx, cancel := context.WithTimeout(tr.Context(), harness.Patience)
	defer cancel()
	text, err := progress.Ask(ctx, "127.0.0.1:"+tr.port)
	if err != nil {
		return &progress.Status{}
	}
	s, err := progress.Read(text)
	if err != nil {
		tr.Fatal(err)
	}
	return s
}

// stepsOfTraining compares a step with that of a plain pipeline of two stages, and with the plan.
func stepsOfTraining(t *testing.T, b *bench) []row {
	const width, blocks, tokens, steps = "192", "8", "16", "10"
	arguments := []string{width, blocks, tokens, steps, "4", "32", "OUT"}
	var ours, plain, planned []float64
	for range b.rounds {
		tr := begin(t, 2, "plain", arguments...)
		tr.await()
		plain = append(plain, tr.steps()...)
		// A rank can hold a little more than half of the model.
		tr = begin(t, 2, "phos", append(arguments, "memory=24000000")...)
		s := &progress.Status{}
		harness.Eventually(t, "it has a plan", func() bool { s = tr.status(); return s.Plan != nil })
		tr.await()
		if len(s.Plan.Pipelines) != 1 {
			t.Fatalf("there are %d pipelines", len(s.Plan.Pipelines))
		}
		ours, planned = append(ours, tr.steps()...), append(planned, float64(s.Plan.IterationTime())/1e9)
	}
	return []row{
		{
			name: "a step, against a plain pipeline", value: median(ours) / median(plain), unit: "x", most: 1.03,
			note: fmt.Sprintf("two stages; %.0f ms and %.0f ms", 1e3*median(ours), 1e3*median(plain)),
		},
		{
			name: "a step as planned, off by", value: 100 * math.Abs(median(planned)/median(ours)-1), unit: "%", most: 5,
			note: fmt.Sprintf("planned %.0f ms", 1e3*median(planned)),
		},
	}
}

// lossOfRank kills one of eight ranks with about 256 MiB of state, and lets another one leave.
func lossOfRank(t *testing.T) (rows []row, pause time.Duration) {
	tr := begin(t, 8, "phos", "1024", "12", "8", "6", "2", "16", "OUT", "faults=1", "memory=450000000")
	before := &progress.Status{}
	harness.Eventually(t, "it trains", func() bool { before = tr.status(); return before.Step >= 1 })
	const dead, leaves = 1, 6
	time.Sleep(time.Duration(before.Seconds / 2 * float64(time.Second))) // about the middle of a step
	killed := time.Now()
	if err := tr.ranks[dead].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	after := &progress.Status{}
	harness.Eventually(t, "it goes on", func() bool { after = tr.status(); return len(after.Ranks) == 7 && after.Seconds > 0 })
	loss := after.Events[len(after.Events)-1]
	if err := tr.ranks[leaves].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it goes on without the one that left", func() bool {
		after = tr.status()
		return len(after.Ranks) == 6 && after.Seconds > 0
	})
	tr.await(dead, leaves)
	left := after.Events[len(after.Events)-1]
	passes := tr.passes()
	pause = loss.Time().Sub(killed)
	transfer := float64(loss.Bytes) / copyRate(t)
	share := sharePipeline(before, dead)
	rows = []row{
		{
			name: "from a killed rank to new work", value: pause.Seconds(), unit: "s", most: math.Round(100*(1+transfer)) / 100,
			note: fmt.Sprintf("8 ranks on this machine, %d MiB copied; a copy over loopback takes %.2f s", loss.Bytes>>20, transfer),
		},
		{
			name: "repeated, of the lost pipeline's", value: float64(passes.repeated(loss.Step)) / float64(share), unit: "x", most: 1,
			note: fmt.Sprintf("%d of its %d microbatches of a step", passes.repeated(loss.Step), share),
		},
		{
			name: "repeated when a rank leaves", value: float64(passes.repeated(left.Step)), unit: "", most: 0.001,
			note: fmt.Sprintf("microbatches; it took %.2f s, %d MiB copied", left.Seconds, left.Bytes>>20),
		},
	}
	return rows, pause
}

// sharePipeline returns how many microbatches of a step the pipeline of a rank has.
func sharePipeline(s *progress.Status, rank int) int {
	for _, each := range s.Plan.Pipelines {
		for _, node := range each.Nodes {
			if s.Nodes[node] == rank {
				return each.Microbatches
			}
		}
	}
	return 0
}

// pass is a microbatch that a last stage has computed.
type pass struct{ step, number int }

// passes are those of all ranks.
type passes []pass

// passes reads what last stages have computed.
func (tr *trainer) passes() (all passes) {
	tr.Helper()
	paths, err := filepath.Glob(tr.out + ".*")
	if err != nil {
		tr.Fatal(err)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			tr.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var p pass
			if _, err := fmt.Sscan(lines.Text(), &p.step, &p.number); err != nil {
				tr.Fatal(err)
			}
			all = append(all, p)
		}
		_ = file.Close()
	}
	return all
}

// repeated returns how many microbatches of a step were computed more than once.
func (p passes) repeated(step int) (count int) {
	seen := map[int]bool{}
	for _, each := range p {
		if each.step != step {
			continue
		}
		if seen[each.number] {
			count++
		}
		seen[each.number] = true
	}
	return count
}

// copyRate returns how many bytes a second go through a connection on this machine.
func copyRate(t *testing.T) float64 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const size = 512 << 20
	go func() {
		if conn, err := listener.Accept(); err == nil {
			chunk := make([]byte, mebibyte)
			for range size / mebibyte {
				if _, err := conn.Write(chunk); err != nil {
					return
				}
			}
			_ = conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	if n, err := io.Copy(io.Discard, conn); err != nil || n != size {
		t.Fatalf("%d bytes: %v", n, err)
	}
	return size / time.Since(began).Seconds()
}

// goodputRow replays a failure every ten minutes until half of the nodes are left: as was
// published, and with what was measured here. docs/goodput.md has more of it.
func goodputRow(t *testing.T, pause time.Duration) []row {
	rate := func(run *replay.Run) float64 {
		report, err := run.Replay()
		if err != nil {
			t.Fatal(err)
		}
		return report.SamplesPerSecond
	}
	model, trace := goodput.GPT67(), goodput.OneByOne(goodput.TenMinutes)
	ours, ideal := model.Phos(trace, pause), rate(model.Ideal(trace))
	return []row{{
		name: "GPT-3 6.7B, a failure every 10 min", value: rate(ours) / ideal, unit: "x", least: 0.97,
		note: fmt.Sprintf("of recoveries that cost nothing; a pause of %v, backups every %v; published: %.2f",
			ours.Pause.Round(time.Millisecond), ours.Backup, rate(model.Replanned(trace))/ideal),
	}}
}

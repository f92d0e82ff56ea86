package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hollow"
)

// fleetSize is how large a cluster of hollow nodes is, and what happens there.
type fleetSize struct {
	nodes, gpus int
	// queued are the launches that wait while others end.
	queued int
	// rate is how many launches end each second, and how many are submitted.
	rate  int
	while time.Duration
	// listed is how many launches phos ps lists.
	listed int
}

// fleetOf returns a cluster of some nodes. There are targets for 1,000.
func fleetOf(nodes int) fleetSize {
	return fleetSize{nodes: nodes, gpus: 8, queued: 10 * nodes, listed: 10 * nodes, rate: 100, while: 30 * time.Second}
}

// measureCluster measures a cluster: one of hollow nodes, and one of hosts that run processes.
func measureCluster(t *testing.T, b *bench) []row {
	if _, real := harness.Driver(); real {
		t.Skip("a controller uses no GPU")
	}
	return append(startsOnHosts(t, b), manyNodes(t, b.fleet)...)
}

// manyNodes measures the controller of a large cluster.
func manyNodes(t *testing.T, size fleetSize) (rows []row) {
	s := hollow.NewSite(t, 2, "")
	client := s.Client()
	f := s.Fleet(client, size.nodes, size.gpus)
	submit := func(count int) {
		if err := hollow.Submit(t.Context(), client, count); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	submit(size.nodes * size.gpus)
	harness.Eventually(t, "all GPUs have users", func() bool { return f.Started() == size.nodes*size.gpus })
	t.Logf("%d launches were submitted and placed in %v", size.nodes*size.gpus, time.Since(began))
	if more := size.listed - size.nodes*size.gpus; more > 0 {
		submit(more)
	}
	rows = append(rows, listLaunches(t, s.Leader(client), client))
	submit(size.queued - max(0, size.listed-size.nodes*size.gpus))
	rows = append(endAndPlace(t, s, f, client, size), rows...)
	rows = append(rows, takeOver(t, s, s.Leader(client), f, size)...)
	for _, fault := range f.Faults() {
		t.Error(fault)
	}
	return rows
}

// endAndPlace measures how the controller gives the GPUs of launches that end to those that wait.
func endAndPlace(t *testing.T, s *hollow.Site, f *hollow.Fleet, client *api.Client, size fleetSize) []row {
	leader := s.Leader(client)
	controller, etcd, self := []int{leader.PID()}, []int{s.Etcd.PID()}, []int{os.Getpid()}
	before := [3]float64{ticks(t, controller), ticks(t, etcd), ticks(t, self)}
	f.Reuses()
	began := time.Now()
	runLoad(t, f, client, size)
	seconds := time.Since(began).Seconds()
	share := func(i int, pids []int) float64 { return (ticks(t, pids) - before[i]) / ticksPerSecond / seconds }
	shares := [3]float64{share(0, controller), share(1, etcd), share(2, self)}
	took := f.Reuses()
	slices.Sort(took)
	if len(took) == 0 {
		t.Fatal("no GPU was given to a next launch")
	}
	at := func(part float64) float64 { return took[int(float64(len(took)-1)*part)].Seconds() * 1e3 }
	what := fmt.Sprintf("%d nodes, %d queued, %d ends/s", size.nodes, size.queued, size.rate)
	return []row{
		{
			name: "end to the next start, p99", value: at(0.99), unit: "ms", most: 250,
			note: fmt.Sprintf("%s; median %.0f ms, longest %.0f ms, %.0f ends/s measured", what, at(0.5), at(1), float64(len(took))/seconds),
		},
		{
			name: "controller's share of a core", value: shares[0], most: 0.5,
			note: fmt.Sprintf("beside it etcd %.2f, and the hollow nodes %.2f", shares[1], shares[2]),
		},
		{name: "controller's memory", value: statusKiB(t, leader.PID(), "VmHWM:") / (1 << 20), unit: "GiB", most: 1, note: "at most"},
	}
}

// runLoad ends launches and submits others at a rate.
func runLoad(t *testing.T, f *hollow.Fleet, client *api.Client, size fleetSize) {
	ticker := time.NewTicker(time.Second / time.Duration(size.rate))
	defer ticker.Stop()
	submitted := make(chan error, 1024)
	count := 0
	for end := time.After(size.while); ; {
		select {
		case <-ticker.C:
			f.EndOldest(0)
			count++
			go func(name string) { submitted <- hollow.SubmitOne(context.Background(), client, name) }(fmt.Sprintf("next-%d", count))
		case <-end:
			for range count {
				if err := <-submitted; err != nil {
					t.Error(err)
				}
			}
			return
		}
	}
}

// statusKiB returns a line of a process's status.
func statusKiB(t *testing.T, pid int, line string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), line)
	kib, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

// takeOver measures the time from the death of the leader to the first start that the next one
// decides, while launches end.
func takeOver(t *testing.T, s *hollow.Site, leader *hollow.Controller, f *hollow.Fleet, size fleetSize) []row {
	old, _ := f.FirstStart()
	next := []int{s.Controllers[0].PID()}
	if leader == s.Controllers[0] {
		next[0] = s.Controllers[1].PID()
	}
	others := []int{s.Etcd.PID(), os.Getpid()}
	usedBefore, othersBefore := ticks(t, next), ticks(t, others)
	leader.Kill()
	killed := time.Now()
	ticker := time.NewTicker(time.Second / time.Duration(size.rate))
	defer ticker.Stop()
	for range ticker.C {
		f.EndOldest(0)
		if epoch, at := f.FirstStart(); epoch != old {
			return []row{{
				name: "takeover", value: at.Sub(killed).Seconds(), unit: "s", most: 7,
				note: "from the kill of the leader to the first start that the next one decides",
			}, {
				name: "  processor time of the next controller", value: (ticks(t, next) - usedBefore) / ticksPerSecond, unit: "s",
				note: fmt.Sprintf("beside it etcd and the hollow nodes %.2f s", (ticks(t, others)-othersBefore)/ticksPerSecond),
			}}
		}
		if time.Since(killed) > harness.Patience {
			t.Fatal("no controller takes over")
		}
	}
	return nil
}

// listLaunches measures phos ps, with its process.
func listLaunches(t *testing.T, c *hollow.Controller, client *api.Client) row {
	reply, err := client.Launches.List(t.Context(), &api.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var took, used []float64
	for range 5 {
		command := exec.Command(filepath.Join(harness.Bin(), "phos"), "ps")
		command.Env = append(os.Environ(), api.ClusterVariable+"="+c.Socket)
		began := time.Now()
		output, err := command.Output()
		took = append(took, time.Since(began).Seconds()*1e3)
		used = append(used, (command.ProcessState.UserTime()+command.ProcessState.SystemTime()).Seconds()*1e3)
		if lines := strings.Count(string(output), "\n"); err != nil || lines < len(reply.GetLaunches()) {
			t.Fatalf("phos ps prints %d lines for %d launches: %v", lines, len(reply.GetLaunches()), err)
		}
	}
	return row{
		name: fmt.Sprintf("phos ps of %d launches", len(reply.GetLaunches())), value: median(took), unit: "ms", most: 300,
		note: fmt.Sprintf("with the start of the program, which used a processor for %.0f ms", median(used)),
	}
}

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/hosts"
)

// storm is a site to which random things happen under a stream of launches.
type storm struct {
	*site
	random      *rand.Rand
	program     string // of the witnesses
	records     string // the test's path of their records
	submitted   int
	standstills []standstill
}

// newStorm starts a site of three hosts, and makes this program one that its launches can run.
func newStorm(s *site, seed uint64) *storm {
	s.Helper()
	shared := s.hosts[0].Shared()
	st := &storm{site: s, random: rand.New(rand.NewPCG(seed, 19)), program: filepath.Join(hosts.SharedDir, "witness")}
	s.share("records")
	st.records = filepath.Join(shared, "records")
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		s.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(shared, "witness"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		s.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		s.Fatal(err)
	}
	return st
}

// fault is something that happens to a host, and the way back.
type fault struct {
	name  string
	begin func(*storm, int) (end func())
}

var faults = []fault{
	{"a controller is killed", func(s *storm, i int) func() {
		c := s.controllers[i%len(s.controllers)]
		c.Kill()
		return c.Start
	}},
	{"a controller stands still", func(s *storm, i int) func() {
		c := s.controllers[i%len(s.controllers)]
		c.Signal(syscall.SIGSTOP)
		return func() { c.Signal(syscall.SIGCONT) }
	}},
	{"the agent is killed", func(s *storm, i int) func() {
		s.agents[i].Kill()
		return s.agents[i].Start
	}},
	{"the agent stands still", func(s *storm, i int) func() {
		s.agents[i].Signal(syscall.SIGSTOP)
		return func() { s.agents[i].Signal(syscall.SIGCONT) }
	}},
	{"phosd is killed", func(s *storm, i int) func() {
		s.phosds[i].Kill()
		return s.phosds[i].Start
	}},
	{"the host loses power", func(s *storm, i int) func() {
		s.hosts[i].Kill()
		return func() { s.boot(i) }
	}},
	{"the host stands still", func(s *storm, i int) func() {
		s.hosts[i].Freeze()
		return func() {
			s.standstills = append(s.standstills, standstill{s.hosts[i].Name, time.Now()})
			s.hosts[i].Thaw()
		}
	}},
	{"the host is cut off", cut(hosts.Both)},
	{"nothing reaches the host", cut(hosts.In)},
	{"nothing leaves the host", cut(hosts.Out)},
	{"the controller's disk is full", func(s *storm, i int) func() {
		h := s.hosts[i%len(s.controllers)]
		s.fill(h)
		return func() { s.free(h) }
	}},
	{"the store fails on a full disk", func(s *storm, i int) func() {
		h := s.hosts[i%len(s.controllers)]
		s.fill(h)
		s.exhaust(s.etcd(h))
		return func() { s.free(h) }
	}},
	{"the store is compacted", func(s *storm, i int) func() {
		s.compact(s.hosts[i%len(s.controllers)])
		return func() {}
	}},
	{"the clock is wrong", func(s *storm, i int) func() {
		off := time.Duration(s.random.IntN(1200)-600) * time.Second
		s.hosts[i].SetClocks(hosts.Clocks{Wall: off})
		return func() { s.hosts[i].SetClocks(hosts.Clocks{}) }
	}},
	{"the agent starts with a wrong clock", func(s *storm, i int) func() {
		s.hosts[i].SetClocks(hosts.Clocks{Wall: -10 * time.Minute})
		s.agents[i].Kill()
		s.agents[i].Start()
		return func() { s.hosts[i].SetClocks(hosts.Clocks{}) }
	}},
}

// cut returns what cuts a host off.
func cut(direction hosts.Direction) func(*storm, int) func() {
	return func(s *storm, i int) func() {
		s.hosts[i].CutOff(direction)
		return func() { s.hosts[i].Heal() }
	}
}

// pass lets one thing happen for a while, which may be longer than nodes have to renew their
// leases, while launches are submitted.
func (s *storm) pass() {
	s.Helper()
	what, i := faults[s.random.IntN(len(faults))], s.random.IntN(len(s.hosts))
	lasts := time.Duration(s.random.IntN(2000)) * time.Millisecond
	if s.random.IntN(3) == 0 {
		lasts += fence
	}
	s.Logf("%v: %s: %s for %v", time.Now().Format("15:04:05.000"), s.hosts[i].Name, what.name, lasts)
	end := what.begin(s, i)
	for range 1 + s.random.IntN(2) {
		s.submit()
	}
	time.Sleep(lasts)
	end()
	s.submit()
}

// submit submits a launch of a random shape, whose name says how it shall end. There may be no
// controller that answers.
func (s *storm) submit() {
	s.Helper()
	fate := []string{"completes", "completes", "fails", "recovers", "lasts"}[s.random.IntN(5)]
	s.submitted++
	text, err := json.Marshal(s.spec(fmt.Sprintf("%s-%d", fate, s.submitted), fate))
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	if _, err := s.launches.Create(ctx, &api.CreateRequest{Spec: text}); err != nil {
		s.Logf("%s-%d is not accepted: %v", fate, s.submitted, err)
	}
}

// spec returns a launch of a random shape.
func (s *storm) spec(name, fate string) launch.Spec {
	lasts := fmt.Sprint(100 + s.random.IntN(2000))
	if fate == "lasts" {
		lasts = "for ever"
	}
	job := launch.Job{Name: "main", Replicas: launch.Replicas{Min: 1 + s.random.IntN(3)}}
	job.Replicas.Max = job.Replicas.Min
	if s.random.IntN(4) == 0 {
		job.Replicas.Max++
	}
	if s.random.IntN(4) == 0 {
		job.OnReplicaFailure = launch.KeepOthers
	}
	if fate == "recovers" {
		job.Retries = 1
	}
	for range 1 + s.random.IntN(2) {
		job.Processes = append(job.Processes, launch.Process{
			Command:   []string{s.program, fate, lasts},
			Resources: launch.Resources{GPUs: s.random.IntN(2)},
		})
	}
	return launch.Spec{
		Name: name, Jobs: []launch.Job{job}, Priority: s.random.IntN(3),
		Variables: map[string]string{witnesses: filepath.Join(hosts.SharedDir, "records")},
	}
}

package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// site is a cluster: a controller on each of the first hosts, and an agent with phosd on all.
type site struct {
	*testing.T
	hosts       []*hosts.Host
	controllers []*hosts.Daemon
	agents      []*hosts.Daemon
	phosds      []*hosts.Daemon
	launches    api.LaunchesClient
	cluster     api.ClusterClient
}

// settings are short times, so that a test need not wait for minutes.
const settings = `[controller]
lease = "1s"
[nodes]
lease = "1s"
fence_after = "8s"
grace = "2s"
`

// fence is fence_after, and a little more.
const fence = 9 * time.Second

// newSite starts a cluster of one controller, with a number of software GPUs on each of its hosts.
// Flags are those of phosd.
func newSite(t *testing.T, count, gpus int, flags ...string) *site {
	t.Helper()
	return newSiteOf(t, count, 1, gpus, flags...)
}

// newSiteOf starts a cluster of some controllers.
func newSiteOf(t *testing.T, count, controllers, gpus int, flags ...string) *site {
	t.Helper()
	return newSiteWith(t, shape{hosts: count, controllers: controllers, gpus: gpus}, settings, flags...)
}

// shape is how many hosts a cluster has, how many of them have controllers, and the GPUs of each.
type shape struct {
	hosts, controllers, gpus int
	// disk is how many bytes the disk of each controller has; 0: as many as the machine's.
	disk int64
	// programs is the directory of phos's programs; empty: those that were built.
	programs string
}

// options are those of the hosts.
func (s shape) options() hosts.Options {
	o := hosts.Options{Programs: s.programs}
	if s.disk > 0 {
		o.SmallDisks = map[string]int64{controllerDisk: s.disk}
	}
	return o
}

// newSiteWith starts a cluster whose controllers have a configuration, and phosds some flags.
func newSiteWith(t *testing.T, of shape, settings string, flags ...string) *site {
	t.Helper()
	harness.Need(t, "build", harness.Built())
	s := &site{T: t, hosts: hosts.New(t, of.hosts, of.options())}
	s.startControllers(of.controllers, settings)
	for _, h := range s.hosts {
		s.join(h, of.gpus, flags...)
	}
	s.awaitNodes(of.hosts)
	return s
}

// boot boots a host, and starts its daemons.
func (s *site) boot(i int) {
	s.Helper()
	s.hosts[i].Boot()
	if i < len(s.controllers) {
		s.controllers[i].Start()
	}
	s.phosds[i].Start()
	s.agents[i].Start()
}

// write writes a file on a host.
func (s *site) write(h *hosts.Host, path, text string) {
	s.Helper()
	if err := h.Do(func() error {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(text), 0o644)
	}); err != nil {
		s.Fatal(err)
	}
}

// join makes a host a node, with phosd and an agent.
func (s *site) join(h *hosts.Host, gpus int, flags ...string) {
	s.Helper()
	s.phosds = append(s.phosds, h.Phosd(gpus, flags...))
	token := sure(s, s.cluster.NewJoinToken, &api.NewJoinTokenRequest{})
	agent := h.Binary("phos-agent")
	h.Run(agent, "join", token.GetToken())
	s.agents = append(s.agents, h.Daemon(hosts.Daemon{
		Name: "agent", ReadyFD: true, Arguments: []string{agent, "run", "--allow-root", "--log-level=debug"},
	}))
}

// awaitNodes waits until a number of nodes are ready.
func (s *site) awaitNodes(count int) {
	s.Helper()
	harness.Eventually(s.T, fmt.Sprintf("%d nodes are ready", count), func() bool {
		reply, err := s.cluster.ListNodes(s.Context(), &api.ListNodesRequest{})
		if err != nil {
			return false
		}
		ready := 0
		for _, n := range reply.GetNodes() {
			if n.GetState() == "ready" {
				ready++
			}
		}
		return ready == count
	})
}

// shell returns a launch of one job whose processes run a script.
func shell(script string, replicas, gpus int) launch.Spec {
	return launch.Spec{Jobs: []launch.Job{{
		Name: "main", Replicas: launch.Replicas{Min: replicas, Max: replicas},
		Processes: []launch.Process{{
			Command: []string{"/bin/sh", "-c", script}, Resources: launch.Resources{GPUs: gpus},
		}},
	}}}
}

// launch submits a launch without code, and returns its id.
func (s *site) launch(spec launch.Spec) string {
	s.Helper()
	return s.launchCode(spec, nil)
}

// launchCode submits a launch, and returns its id.
func (s *site) launchCode(spec launch.Spec, ref *api.CodeRef) string {
	s.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		s.Fatal(err)
	}
	reply := sure(s, s.launches.Create, &api.CreateRequest{Spec: text, Code: ref, Request: rand.Text()})
	return reply.GetLaunches()[0].GetId()
}

// get returns a launch.
func (s *site) get(id string) *api.Launch {
	reply, err := s.launches.Get(s.Context(), &api.GetRequest{Id: id})
	if err != nil {
		return nil
	}
	return reply.GetLaunch()
}

// await waits until a launch is in a phase.
func (s *site) await(id, phase string) *api.Launch {
	s.Helper()
	var got *api.Launch
	harness.Eventually(s.T, "launch "+id+" is "+phase, func() bool {
		got = s.get(id)
		return got.GetPhase() == phase
	})
	return got
}

// awaitRunning waits until all replicas of a launch run.
func (s *site) awaitRunning(id string) *api.Launch {
	s.Helper()
	var got *api.Launch
	defer func() {
		if s.Failed() {
			s.Logf("it is %v", got)
		}
	}()
	harness.Eventually(s.T, "all replicas of launch "+id+" run", func() bool {
		got = s.get(id)
		return got.GetPhase() == "running" && !slices.ContainsFunc(got.GetReplicas(), func(r *api.Replica) bool {
			return r.GetPhase() != "running"
		})
	})
	return got
}

// logs returns what a launch has printed.
func (s *site) logs(what string) (text string) {
	s.Helper()
	return s.logsOf(what, 0)
}

// logsOf returns what an attempt has printed, or the last one if it is 0.
func (s *site) logsOf(what string, attempt uint32) (text string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	stream, err := s.launches.Logs(ctx, &api.LogsRequest{What: what, Attempt: attempt})
	if err != nil {
		s.Fatal(err)
	}
	for {
		reply, err := stream.Recv()
		if err != nil {
			return text
		}
		for _, line := range reply.GetLines() {
			text += string(line.GetText()) + "\n"
		}
		if reply.GetNotice() != "" {
			text += "notice: " + reply.GetNotice() + "\n"
		}
	}
}

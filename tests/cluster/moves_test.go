package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// host returns a host by its name.
func (s *site) host(name string) *hosts.Host {
	i := slices.IndexFunc(s.hosts, func(h *hosts.Host) bool { return h.Name == name })
	if i < 0 {
		s.Fatalf("there is no host %q", name)
	}
	return s.hosts[i]
}

// awaitMoved waits until all replicas of a launch run, and none on a node.
func (s *site) awaitMoved(id, from string) *api.Launch {
	s.Helper()
	var got *api.Launch
	harness.Eventually(s.T, "launch "+id+" runs without "+from, func() bool {
		got = s.get(id)
		return got.GetPhase() == "running" && !slices.ContainsFunc(got.GetReplicas(), func(r *api.Replica) bool {
			return r.GetPhase() != "running" || r.GetNode() == from
		})
	})
	return got
}

// stop stops a launch, and waits until it has ended.
func (s *site) stop(id string) {
	s.Helper()
	sure(s, s.launches.Stop, &api.ActRequest{Id: id})
	s.await(id, "ended")
}

// share makes a directory that all hosts share, in which any user may write, and returns its path
// on them.
func (s *site) share(name string) string {
	s.Helper()
	path := filepath.Join(s.hosts[0].Shared(), name)
	if err := errors.Join(os.Mkdir(path, 0o755), os.Chmod(path, 0o777)); err != nil {
		s.Fatal(err)
	}
	return filepath.Join(hosts.SharedDir, name)
}

// cutOff cuts a host off from all others.
func (s *site) cutOff(h *hosts.Host) { h.CutOff(hosts.Both) }

// witness returns the time that a process has written last.
func (s *site) witness(dir, node string) time.Time {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.hosts[0].Shared(), filepath.Base(dir), node))
	if err != nil {
		s.Fatal(err)
	}
	whole, part, _ := strings.Cut(strings.TrimSpace(string(text)), ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		s.Fatal(err)
	}
	nanoseconds, _ := strconv.ParseInt(part, 10, 64)
	return time.Unix(seconds, nanoseconds)
}

// began returns when the replica that runs now was started.
func (s *site) began(id string) time.Time {
	return time.UnixMilli(s.get(id).GetReplicas()[0].GetStartedUnixMs())
}
